"""Many repetitions of one method side by side: splits, starts and settings vmapped, all iterations in one program."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._struct import struct
from ..batch import Batch
from ..models import MLP
from ..tables.shuffle import Shuffle
from ..training import engine
from ..training.evaluation import evaluate
from ..training.feed import Rows

#: Training rows, at most, on which the curves are measured; what a run ends with is measured on all rows.
WATCHED = 2048
RECORDS = 40


@struct
class Folds:
    """Repetitions, one along each leading axis: row order (the first `held_out` test), start, batches."""

    order: Any
    params: Any
    stream: Shuffle

    def __len__(self) -> int:
        return self.order.shape[0]

    def take(self, index) -> "Folds":
        return jax.tree.map(lambda leaf: np.asarray(leaf)[np.asarray(index)], self)


def folds(net: MLP, rows: int, held_out: int, repeats: Sequence[int], seed: int) -> Folds:
    """Repetition r draws the same split, start and batches whatever method runs on it, and whatever others run."""
    draws = [np.random.default_rng([seed, r]) for r in repeats]
    order = np.stack([rng.permutation(rows) for rng in draws]).astype(np.int32)
    seeds = np.array([rng.integers(2**31) for rng in draws], np.uint32)
    return Folds(order, *_begin(net, seeds, rows - held_out))


@functools.partial(jax.jit, static_argnames=("net", "rows"))
def _begin(net: MLP, seeds, rows: int):
    def one(seed):
        start, stir = jax.random.split(jax.random.key(seed))
        return net.init(start), Shuffle.start(stir, rows)

    return jax.lax.map(one, seeds)  # not vmapped: that takes seconds to compile


@struct
class Lanes:
    """Runs, one along each leading axis: a repetition, what goes in the optimizer's state, which iterate is watched."""

    fold: Folds
    setting: Any  # dict of arrays, None for SCA
    averaged: Any


class Followed(NamedTuple):
    """Of each repetition: the objective after each of `ends`, then (last, averaged) iterate's final measures."""

    curve: Any  # [repeats, records] on watched rows, of the iterate chosen
    objective: Any  # [repeats, 2] on all training rows
    loss: Any  # [repeats, 2] average test loss
    outputs: Any  # [repeats, 2, held_out] test outputs, None unless asked for


def marks(steps: int) -> np.ndarray:
    """RECORDS iterations from 0 to `steps`, evenly spaced on a logarithmic axis; the first ones may repeat."""
    return np.concatenate([[0], np.round(np.geomspace(1, steps, RECORDS - 1)).astype(int)])


@struct
class Watch:
    """U on some training rows: of the solution, or of the last iterate."""

    rows: Batch
    averaged: Any

    def __call__(self, method: Any, state: Any) -> dict[str, Any]:
        choose = lambda a, b: jnp.where(self.averaged, a, b)
        return {
            "objective": evaluate(method.problem, jax.tree.map(choose, method.solution(state), state.params), self.rows)
        }


@functools.partial(jax.jit, static_argnames=("held_out", "batch_size", "outputs"))
def follow(method, lanes: Lanes, x, y, goals, held_out: int, batch_size: int, outputs: bool = False) -> Followed:
    """Train all lanes, with a record at each of the goals; the last that a run can reach ends it."""
    problem = method.problem

    def one(lane: Lanes) -> Followed:
        fold, state = lane.fold, method.init(lane.fold.params)
        if lane.setting is not None:
            state = dataclasses.replace(state, optimizer=state.optimizer._replace(hyperparams=lane.setting))
        test, train = fold.order[:held_out], fold.order[held_out:]
        on = lambda rows: Batch(x[rows], y[rows])
        feed = Rows(Batch(x, y), batch_size, order=train)
        carry = engine.begin(method, state, feed, (fold.stream, None))
        last = jnp.max(jnp.where(goals == engine.NEVER, 0, goals))
        carry, made = engine.advance(method, carry, feed, goals, last, Watch(on(train[:WATCHED]), lane.averaged))
        both = jax.tree.map(lambda *leaves: jnp.stack(leaves), carry.state.params, method.solution(carry.state))
        value = lambda rows, **options: jax.vmap(lambda p: evaluate(problem, p, on(rows), **options))(both)
        seen = jax.vmap(lambda p: _outputs(problem, p, x, test))(both) if outputs else None
        return Followed(made.values["objective"], value(train), value(test, penalty=False), seen)

    return jax.vmap(one)(lanes)


def _outputs(problem, params, x, rows, most: int = 8192):
    """f on some rows of x, a slice at a time."""
    count = rows.shape[0]
    slices = jnp.pad(rows, (0, -count % min(most, count))).reshape(-1, min(most, count))
    return jax.lax.map(lambda some: problem.outputs(params, x[some])[:, 0], slices).reshape(-1)[:count]

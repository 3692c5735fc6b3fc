"""Runs on the engine as the measurements need them: in one compiled call, vmapped, on batches that are given."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import scax
from scax._struct import struct
from scax.training import engine
from scax.training.evaluation import evaluate
from scax.training.feed import Plan, Rows


@struct
class Given:
    """Batches of given rows, [steps, batch]; after the last comes the first again."""

    data: scax.Batch
    rows: Any

    def start(self, key: Any = None) -> Any:
        return jnp.zeros((), jnp.int32)

    def load(self, position: Any, steps: int) -> tuple["Given", int]:
        return self, steps

    def plan(self, position: Any, count: int) -> Plan:
        return Plan.of(self.data, self.rows[(position + jnp.arange(count)) % self.rows.shape[0]])

    def batch(self, plan: Plan, i: Any) -> scax.Batch:
        return plan.take(self.data, i)[0]

    def skip(self, position: Any, steps: Any) -> Any:
        return position + steps

    def sample(self, count: int) -> scax.Batch:
        return jax.tree.map(lambda leaf: leaf[:count], self.data)


@struct
class Both:
    """[2] objectives on some rows: of the last iterate and of the solution."""

    rows: scax.Batch

    def __call__(self, method: Any, state: Any) -> dict[str, Any]:
        value = lambda params: evaluate(method.problem, params, self.rows)
        return {"objective": jnp.stack([value(state.params), value(method.solution(state))])}


def follow(method: Any, state: Any, key: Any, data: tuple, ends: Sequence[int], batch_size: int, measure: Any = None):
    """Train from a state, to be traced and vmapped: ([ends, …] of what is measured after each of `ends`, the state).

    By default that are the objectives on all rows, of the last iterate and of the averaged one.
    """
    whole = scax.Batch(*data)
    feed = Rows(whole, batch_size)
    carry = engine.begin(method, state, feed, feed.start(key))
    goals = jnp.asarray(ends, jnp.int32)
    carry, made = engine.advance(method, carry, feed, goals, goals[-1], Both(whole) if measure is None else measure)
    return made.values["objective"], carry.state


def reported(method: Any, params: Any, feed: Any, ends: Sequence[int]) -> dict[str, np.ndarray]:
    """The averages of what the steps between two of `ends` reported."""
    carry, goals = engine.start(method, params, feed, jax.random.key(0)), np.asarray(ends, np.int32)
    made = engine.run(method)(carry, feed, goals, goals[-1])[1]
    return {name: np.asarray(values) for name, values in made.values.items()}


def timed(method: Any, params: Any, feed: Any, before: int = 0) -> Callable[[int], tuple[float, float]]:
    """A function that takes some steps in one compiled call, those after the first `before`, and gives (wall,
    processor) seconds per step."""
    run = engine.run(method)

    def advance(carry: engine.Carry, count: int) -> engine.Carry:
        stop = np.int32(int(carry.step) + count)
        return jax.block_until_ready(run(carry, feed, np.full(1, engine.NEVER, np.int32), stop)[0])

    first = advance(engine.start(method, params, feed, jax.random.key(0)), before)

    def seconds(count: int) -> tuple[float, float]:
        carry = jax.block_until_ready(jax.tree.map(jnp.copy, first))  # a call consumes its carry
        wall, processor = time.perf_counter(), time.process_time()
        advance(carry, count)
        return (time.perf_counter() - wall) / count, (time.process_time() - processor) / count

    seconds(1)
    return seconds

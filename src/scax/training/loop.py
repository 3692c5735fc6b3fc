"""The training loop: batches drawn, gathered and stepped on inside one compiled loop; Python looks in between."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .. import checks
from .._struct import struct
from ..batch import Batch
from ..problem import Problem
from ..sca import SCA
from ..tables.shuffle import Shuffle
from .finish import finish as sparse_end


@dataclasses.dataclass(frozen=True)
class Result:
    """`params` is what to deploy; `history` maps names to arrays, one entry per record; `state` can be trained on."""

    params: PyTree
    history: dict[str, np.ndarray]
    state: Any


@struct
class Source:
    """The data of a run, on the device."""

    x: Array
    y: Array
    weight: Any
    table: Any  # rows of the manifold graph, labeled and unlabeled, None without a graph

    def gather(self, rows, anchors, problem: Problem) -> Batch:
        """The batch of some rows, its neighbor pairs included."""
        pairs = None
        if self.table is not None and problem.manifold is not None:
            graph = problem.manifold.graph
            start = None if anchors is rows else rows.shape[0]
            pairs = graph.pairs(self.table, anchors, start=start)
        return Batch(self.x[rows], self.y[rows], None if self.weight is None else self.weight[rows], pairs)


def train(
    method,
    params: PyTree,
    data: Any,
    *,
    steps: int,
    batch_size: int = 32,
    key: Any = None,
    validation: Any = None,
    unlabeled: Any = None,
    records: int = 100,
    callback: Callable[[dict[str, float]], Any] | None = None,
    state: Any = None,
    finish: int | None = None,
) -> Result:
    """Train `params` with a method (`SCA` or `baseline`) on data (x, y) or (x, y, weight).

    Batches go through the rows epoch by epoch, in an order drawn from `key`. At about `records` evenly spaced steps the
    history gets the step, seconds, average batch loss, the objective U on the training data and, given `validation`, on
    it too (without regularizer: `validation_loss`), all for the solution that would be deployed then. `callback` sees
    each record as a dict; if it returns True, training stops there. `unlabeled` rows take part in a manifold penalty.

    With a penalty that is not smooth SCA takes `finish` more steps on all rows (`scax.finish`; 0: none), so that
    weights which have shrunk towards zero are 0.0 in `Result.params`; `Result.state` is as before them.
    """
    problem = getattr(method, "problem", None)
    if not isinstance(problem, Problem):
        raise TypeError(f"method must be scax.SCA(...) or scax.baseline(...), got {method!r}.")
    whole_number("steps", steps, 1)
    whole_number("batch_size", batch_size, 1)
    whole_number("records", records, 1)
    if finish is not None:
        whole_number("finish", finish, 0)
    whole = Batch.of(data)
    if whole.pairs is not None:
        raise ValueError("data must be (x, y) or (x, y, weight): train gathers neighbor pairs itself.")
    source = _source(problem, params, whole, unlabeled)
    held_out = None if validation is None else dataclasses.replace(problem.ready(params, validation), pairs=None)
    key = jax.random.key(0) if key is None else key
    if not jnp.issubdtype(getattr(key, "dtype", bool), jax.dtypes.prng_key) or key.shape:
        raise TypeError(f"key must be one random key, such as jax.random.key(0), got {key!r}.")
    n = source.x.shape[0]
    anchors = None if unlabeled is None else Shuffle.start(jax.random.fold_in(key, 1), source.table.shape[0])
    stream = (Shuffle.start(key, n), anchors)
    state = jax.tree.map(jnp.array, method.init(params) if state is None else state)  # a copy: it is donated below

    history: dict[str, list[float]] = {}
    chunk = -(-steps // min(records, steps))
    done, began = 0, time.perf_counter()
    while done < steps:
        count = min(chunk, steps - done)
        state, stream, loss, taken = _advance(method, state, stream, source, count, batch_size)
        done += count
        solution = method.solution(state)
        record = {"step": done, "batch_loss": float(loss) / count, "accepted": float(taken) / count}
        record["objective"] = float(evaluate(problem, solution, Batch(source.x, source.y, source.weight)))
        if held_out is not None:
            record["validation_loss"] = float(evaluate(problem, solution, held_out, penalty=False))
        record["seconds"] = time.perf_counter() - began
        for name, value in record.items():
            history.setdefault(name, []).append(value)
        if callback is not None and callback(record) is True:
            break
    solution = method.solution(state)
    if isinstance(method, SCA) and finish != 0:
        solution = sparse_end(problem, solution, Batch(source.x, source.y, source.weight), steps=finish)
    return Result(solution, {k: np.asarray(v) for k, v in history.items()}, state)


def advance(method, state, stream, source: Source, count, batch_size: int):
    """`count` steps: the state and the stream after them, the sum of batch losses, the number of steps taken."""

    def body(_, carry):
        state, (shuffle, others), loss, taken = carry
        shuffle, rows = shuffle.draw(batch_size)
        anchors = rows
        if others is not None:
            others, anchors = others.draw(batch_size)
        state, info = method.step(state, source.gather(rows, anchors, method.problem))
        taken = taken + getattr(info, "accepted", jnp.asarray(True))
        return state, (shuffle, others), loss + info.loss.astype(loss.dtype), taken

    start = (state, stream, jnp.zeros((), float), jnp.zeros((), int))
    return jax.lax.fori_loop(0, count, body, start)


#: How many steps is not part of the compiled program, so a shorter last chunk costs nothing.
_advance = jax.jit(advance, static_argnames="batch_size", donate_argnames=("state", "stream"))


def evaluate(problem: Problem, params: PyTree, batch: Batch, *, penalty: bool = True, rows: int = 8192):
    """U on any number of rows (with penalty=False the average loss alone), a slice at a time in bounded memory."""
    return _evaluate(problem, params, batch, penalty, rows)


@jax.jit(static_argnames=("penalty", "rows"))
def _evaluate(problem: Problem, params: PyTree, batch: Batch, penalty: bool, rows: int):
    layout = problem.layout(params)
    trained, _ = layout.split(params)
    n, dtype = batch.size, trained[0].dtype
    rows = min(rows, n)
    extra = -n % rows
    shares = jnp.pad(batch.shares(dtype), (0, extra)).reshape(-1, rows)
    x, y = (jnp.concatenate([a, a[:extra]]).reshape(-1, rows, *a.shape[1:]) for a in (batch.x, batch.y))

    def part(slice):
        x, y, share = slice
        z = problem.outputs(params, x)
        return share @ problem.loss.value(z, problem.loss.targets(y, z.shape[1])), z

    losses, z = jax.lax.map(part, (x, y, shares))
    value = jnp.sum(losses)
    if not penalty:
        return value
    if problem.manifold is not None and problem.manifold.graph.size == n:
        value += problem.manifold.value(z.reshape(-1, z.shape[-1])[:n], problem.manifold.graph.whole())
    return value + problem.penalty(trained)


def _source(problem: Problem, params: PyTree, whole: Batch, unlabeled: Any) -> Source:
    whole = problem.ready(params, whole)
    if problem.manifold is None:
        if unlabeled is not None:
            raise ValueError(
                "unlabeled rows only take part in a manifold penalty: give Problem(..., manifold=Manifold(...))."
            )
        return Source(whole.x, whole.y, whole.weight, None)
    table = whole.x
    if unlabeled is not None:
        checks.features("unlabeled", unlabeled, whole.x.dtype)
        table = jnp.concatenate([whole.x, jnp.asarray(unlabeled)])
    if table.shape[0] != problem.manifold.graph.size:
        raise ValueError(
            f"the graph has {problem.manifold.graph.size} rows but there are {table.shape[0]} (labeled, then "
            "unlabeled): build it with knn_graph on exactly these rows, in this order."
        )
    return Source(whole.x, whole.y, whole.weight, table)


def whole_number(name: str, value: Any, least: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number ≥ {least}, got {value!r}.")

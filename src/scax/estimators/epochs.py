"""Epochs over a padded table, compiled once for every number of rows up to the next power of two."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._struct import struct
from ..batch import Batch
from ..sca import SCA
from ..training.loop import evaluate

#: Epochs per compiled call: Python prints, and can be interrupted, in between.
CHUNK = 32


@struct
class Table:
    """Rows padded to a power of two: the first `count` are real, the others have weight zero."""

    x: Float[Array, "r d"]
    y: Float[Array, "r k"]
    weight: Float[Array, "r"]
    count: Int[Array, ""]

    @staticmethod
    def pad(x: np.ndarray, y: np.ndarray, weight: np.ndarray, size: int | None = None) -> "Table":
        n = len(x)
        extra = (padded(n) if size is None else size) - n
        rows = lambda a, **how: jnp.asarray(np.pad(a, [(0, extra)] + [(0, 0)] * (a.ndim - 1), **how))
        # what is added has no weight; its targets are the last row's again: all zeros are no probabilities
        return Table(rows(x), rows(y, mode="edge"), rows(weight), jnp.asarray(n, jnp.int32))

    def batch(self) -> Batch:
        return Batch(self.x, self.y, self.weight)


@struct
class Progress:
    """A run in the middle: the method's state, the best solution by the monitored value, and how long ago it was."""

    state: Any
    key: Array
    kept: Float[Array, "q"]
    best: Float[Array, ""]
    since: Int[Array, ""]
    stopped: Bool[Array, ""]

    def save(self) -> dict[str, np.ndarray]:
        """The method's state, by name."""
        leaves = jax.tree_util.tree_leaves_with_path(self.state)
        return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}

    def resume(self, saved: dict[str, np.ndarray]) -> "Progress":
        """The same run with the method's state as saved; parts that it did not have, or otherwise, begin anew."""
        fresh = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(self.state)}
        others = {name.split(".")[1].split("[")[0] for name, leaf in fresh.items() if _shape(saved, name) != leaf.shape}
        kept = lambda path, leaf: leaf if path[0].name in others else saved[jax.tree_util.keystr(path)]
        return dataclasses.replace(self, state=jax.tree_util.tree_map_with_path(kept, self.state))


def _shape(saved: dict[str, np.ndarray], name: str) -> tuple[int, ...] | None:
    return saved[name].shape if name in saved else None


def padded(n: int) -> int:
    """The power of two a table of n rows is padded to."""
    return max(32, 1 << (n - 1).bit_length())


@jax.jit
def start(sca: SCA, params: Any, seed: Array) -> Progress:
    """Before the first epoch."""
    state = sca.init(params)
    return Progress(
        state,
        jax.random.key(seed),
        state.w,
        jnp.asarray(jnp.inf, state.w.dtype),
        jnp.asarray(0, jnp.int32),
        jnp.asarray(False),
    )


@functools.partial(jax.jit, static_argnames=("batch_size",), donate_argnames=("progress",))
def advance(
    sca: SCA, progress: Progress, table: Table, held: Table, early, limit, tol, patience, batch_size: int
) -> tuple[Progress, Int[Array, ""], Float[Array, "c 2"]]:
    """Up to `limit` ≤ CHUNK epochs; (progress, how many, their training and held-out values).

    `early` says whether the loss on the held-out rows is monitored, and the best solution kept, or the objective on
    the table and the last one. It is traced, so that both kinds of run share one program.
    """
    batch_size = min(batch_size, table.x.shape[0])

    def epoch(carry):
        progress, done, curve = carry
        key, sub = jax.random.split(progress.key)
        state = _pass(sca, progress.state, table, sub, batch_size)
        solution = sca.solution(state)
        loss = evaluate(sca.problem, solution, table.batch(), penalty=True)
        unseen = evaluate(sca.problem, solution, held.batch(), penalty=False)
        value = jnp.where(early, unseen, loss)
        better = value < progress.best - tol
        since = jnp.where(better, 0, progress.since + 1)
        following = Progress(
            state,
            key,
            jnp.where(~early | (value < progress.best), state.layout.flatten(solution), progress.kept),
            jnp.where(better | early, jnp.minimum(value, progress.best), progress.best),
            since,
            since >= patience,
        )
        return following, done + 1, curve.at[done].set(jnp.stack([loss, unseen]))

    begin = (progress, jnp.asarray(0, jnp.int32), jnp.full((CHUNK, 2), jnp.nan, table.x.dtype))
    return jax.lax.while_loop(lambda c: (c[1] < limit) & ~c[0].stopped, epoch, begin)


def _pass(sca: SCA, state, table: Table, key, batch_size: int):
    """Every row once, in batches of equal size up to one row."""
    rows = table.x.shape[0]
    if batch_size == rows:
        return sca.step(state, table.batch())[0]
    real = jnp.arange(rows) < table.count
    bits = jax.random.bits(key, (rows,), jnp.uint32) >> 1
    order = jnp.argsort(jnp.where(real, bits, jnp.uint32(0xFFFFFFFF)))
    order = jnp.pad(order, (0, batch_size))
    batches = -(-table.count // batch_size)

    def body(b, state):
        begin, end = b * table.count // batches, (b + 1) * table.count // batches
        index = jax.lax.dynamic_slice(order, (begin,), (batch_size,))
        inside = jnp.arange(batch_size) < end - begin
        batch = Batch(table.x[index], table.y[index], jnp.where(inside, table.weight[index], 0))
        return sca.step(state, batch)[0]

    return jax.lax.fori_loop(0, batches, body, state)

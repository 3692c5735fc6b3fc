"""The objective on any number of rows, and what a record measures."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .._struct import struct
from ..batch import Batch
from ..problem import Problem

#: Rows that are passed through the network at once.
SLICE = 8192


@jax.jit(static_argnames=("penalty", "rows"))
def evaluate(
    problem: Problem, params: PyTree, batch: Batch, *, penalty: bool = True, rows: int = SLICE
) -> Float[Array, ""]:
    """U on any number of rows (with penalty=False the average loss alone), a slice at a time in bounded memory."""
    layout = problem.layout(params)
    trained, _ = layout.split(params)
    n, shares = batch.size, batch.shares(trained[0].dtype)

    def part(slice):
        x, y, share = slice
        z = problem.outputs(params, x)
        return share @ problem.loss.value(z, problem.loss.targets(y, z.shape[1])), z

    if n <= rows:
        value, z = part((batch.x, batch.y, shares))
    else:
        extra = -n % rows
        x, y = (jnp.concatenate([a, a[:extra]]).reshape(-1, rows, *a.shape[1:]) for a in (batch.x, batch.y))
        losses, z = jax.lax.map(part, (x, y, jnp.pad(shares, (0, extra)).reshape(-1, rows)))
        value, z = jnp.sum(losses), z.reshape(-1, z.shape[-1])[:n]
    if not penalty:
        return value
    if problem.manifold is not None and problem.manifold.graph.size == n:
        value += problem.manifold.value(z, problem.manifold.graph.whole())
    return value + problem.penalty(trained)


@jax.jit
def outputs(problem: Problem, params: PyTree, x: Array) -> Float[Array, "n k"]:
    """f on some rows."""
    return problem.outputs(params, x)


@struct
class Objective:
    """U on some training rows and, where there are rows held out, the average loss on them, of the solution."""

    rows: Batch
    validation: Batch | None = None

    def __call__(self, method: Any, state: Any) -> dict[str, Array]:
        solution = method.solution(state)
        values = {"objective": evaluate(method.problem, solution, self.rows)}
        if self.validation is not None:
            values["validation_loss"] = evaluate(method.problem, solution, self.validation, penalty=False)
        return values


def spread_rows(batch: Batch, count: int) -> Batch:
    """Up to `count` of the rows that have weight, evenly spread."""
    places = np.arange(batch.size) if batch.weight is None else np.flatnonzero(np.asarray(batch.weight) > 0)
    if len(places) <= count:
        return batch
    chosen = places[np.linspace(0, len(places) - 1, count).astype(int)]
    return _take(batch, chosen)


@jax.jit
def _take(batch: Batch, rows: Array) -> Batch:
    return jax.tree.map(lambda leaf: leaf[rows], batch)

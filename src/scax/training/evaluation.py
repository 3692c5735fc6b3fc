"""The objective on any number of rows, and what a record measures."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .._struct import struct
from ..batch import Batch, TermBatch
from ..problem import Problem
from ..rules.term_weights import TermWeights

#: Rows that are passed through the network at once.
SLICE = 8192


@jax.jit(static_argnames=("penalty", "rows"))
def evaluate(
    problem: Problem, params: PyTree, batch: Any, *, weights: Any = None, penalty: bool = True, rows: int = SLICE
) -> Float[Array, ""]:
    """U on any number of rows (with penalty=False the average loss alone), a slice at a time in bounded memory;
    `weights` are those of the terms, by default as before the first step."""
    layout = problem.layout(params)
    trained, _ = layout.split(params)
    if isinstance(batch, TermBatch):
        each = term_losses(problem, params, batch, rows=rows)
        ω = TermWeights(problem.weights, problem.names).at_start(trained[0].dtype) if weights is None else weights
        value = sum((ω[t] * each[name] for t, name in enumerate(problem.names)), start=jnp.zeros((), ω[0].dtype))
        return value + problem.penalty(trained) if penalty else value
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


def term_losses(problem: Problem, params: PyTree, batch: TermBatch, *, rows: int = SLICE) -> dict[str, Array]:
    """Each term's average loss, without its weight."""
    batch = problem.conform(params, batch, problem.layout(params).dtype(params))
    each = zip(problem.names, problem.parts, batch.parts, strict=True)
    return {name: evaluate(own, params, part, penalty=False, rows=rows) for name, own, part in each}


@jax.jit
def outputs(problem: Problem, params: PyTree, x: Array) -> Float[Array, "n k"]:
    """f on some rows."""
    return problem.outputs(params, x)


@struct
class Objective:
    """U on some training rows and, where there are rows held out, the average loss on them, of the solution."""

    rows: Any  # a Batch or a TermBatch
    validation: Any = None

    def __call__(self, method: Any, state: Any) -> dict[str, Array]:
        solution = method.solution(state)
        ω = term_weights(method, state)
        values = {"objective": evaluate(method.problem, solution, self.rows, weights=ω)}
        if isinstance(self.rows, TermBatch):
            values |= term_losses(method.problem, solution, self.rows)
        if self.validation is not None:
            values["validation_loss"] = evaluate(method.problem, solution, self.validation, weights=ω, penalty=False)
        return values


def term_weights(method: Any, state: Any) -> Array | None:
    """ω of the terms at a state, where a rule changes them."""
    weights = getattr(getattr(state, "rules", None), "weights", None)
    return None if weights is None else weights.values


def spread_rows(batch: Any, count: int) -> Any:
    """Up to `count` of the rows that have weight, evenly spread; of each term."""
    if isinstance(batch, TermBatch):
        return batch.map(lambda part: spread_rows(part, count))
    places = np.arange(batch.size) if batch.weight is None else np.flatnonzero(np.asarray(batch.weight) > 0)
    if len(places) <= count:
        return batch
    chosen = places[np.linspace(0, len(places) - 1, count).astype(int)]
    return _take(batch, chosen)


@jax.jit
def _take(batch: Batch, rows: Array) -> Batch:
    return jax.tree.map(lambda leaf: leaf[rows], batch)

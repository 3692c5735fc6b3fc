"""What a solver of the surrogate promises."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._struct import struct
from ..problem import Problem
from ..status import Status
from ..surrogate.surrogate import Surrogate
from .cost import Dimensions


@struct
class Solution:
    """δ = ŵ − w_n, and how good it is.

    `status` is one of `OUTCOMES`. `optimality` is the solver's own measure, relative: the residual of the stationarity
    equations for smooth surrogates; where there is a prox the duality gap, over the surrogate's value or the gain, the
    larger of them.
    """

    delta: Float[Array, "q"]
    status: Int[Array, ""]
    iterations: Int[Array, ""]
    optimality: Float[Array, ""]


#: How a solver can end, from good to bad.
OUTCOMES = (Status.OK, Status.NOT_CONVERGED, Status.STALLED, Status.SINGULAR, Status.NOT_FINITE)


@dataclasses.dataclass(frozen=True)
class Choice:
    """A solver and why it was taken."""

    solver: "Solver"
    reason: str


class Solver:
    """Minimizes a surrogate. Says what it supports and needs before anything compiles."""

    #: what `explain` and messages call it
    name: str
    #: the form of J it works on: "dense", "structured" or "matrix-free"; with blocks it is always "dense"
    form: str = "structured"
    #: it forms JJᵀ of all rows, which others then read
    uses_gram: bool = False
    #: it needs of J no more than JJᵀ, Jh and Jᵀu, which devices can share
    in_sample_space: bool = False
    #: it stops on a duality gap and has `enough`, the share of the gain that it may leave
    stops_on_gap: bool = False

    def supports(self, problem: Problem) -> str | None:
        """None if it can serve the problem, else the reason and what to try instead."""
        raise NotImplementedError

    def choose(self, dimensions: Dimensions) -> Choice:
        """The solver to use for a step of these sizes: itself, unless it is `auto`."""
        return Choice(self, "asked for")

    def solve(self, surrogate: Surrogate) -> Solution:
        raise NotImplementedError


def attainable(tolerance: float | None, dtype) -> float:
    """A tolerance as given, but never below what the precision can reach; by default 1e-12, in float32 1e-5."""
    eps = float(jnp.finfo(dtype).eps)
    if tolerance is None:
        tolerance = 1e-12 if eps < 1e-9 else 1e-5
    return max(tolerance, 16 * eps)


def relative_gap(
    gap: Float[Array, ""], primal: Float[Array, ""], start: Float[Array, ""], tolerance: float, enough: Any
) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """(relative, small enough) of what is left to gain at the value `primal` of the surrogate, `start` being that of
    δ = 0: at most `tolerance` of the value or, where that is more, the share `enough` of what was gained."""
    value = jnp.maximum(jnp.abs(primal), jnp.finfo(primal.dtype).tiny)
    gained = jnp.where(jnp.isfinite(start), jnp.maximum(start - primal, 0), 0)  # w_n may be outside a bound
    relative = jnp.where(jnp.isfinite(primal), gap / jnp.maximum(value, gained), jnp.inf)
    return relative, jnp.isfinite(relative) & (gap <= jnp.maximum(tolerance * value, enough * gained))


def status_of(is_solved: Bool[Array, ""], finite: Array, otherwise: Any) -> Int[Array, ""]:
    """OK where it is solved, NOT_FINITE where one of the numbers in `finite` is not, `otherwise` elsewhere."""
    failed = jnp.where(jnp.all(jnp.isfinite(finite)), otherwise, Status.NOT_FINITE)
    return jnp.where(is_solved, Status.OK, failed).astype(jnp.int32)


def worst_status(statuses: Int[Array, "c"]) -> Int[Array, ""]:
    """The worst of several solvers' outcomes."""
    outcomes = jnp.asarray(OUTCOMES, statuses.dtype)
    rank = jnp.argmax(statuses[:, None] == outcomes, axis=1)
    return outcomes[jnp.max(rank)]


def join_blocks(parts: Solution, delta: Float[Array, "q"]) -> Solution:
    """One solution of all blocks': `parts` has a leading axis over them, and the worst of each number counts."""
    return Solution(delta, worst_status(parts.status), jnp.max(parts.iterations), jnp.max(parts.optimality))

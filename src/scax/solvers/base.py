"""What a solver of the surrogate promises."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._struct import struct
from ..problem import Problem
from ..surrogate.surrogate import Surrogate
from .cost import Setting


@struct
class Solution:
    """δ = ŵ − w_n, and how good it is.

    `optimality` is the solver's own measure, relative: the residual of the stationarity equations for smooth
    surrogates; where there is a prox the duality gap, over the surrogate's value or the gain, the larger of them.
    """

    delta: Float[Array, "q"]
    optimality: Float[Array, ""]
    iterations: Int[Array, ""]
    converged: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class Choice:
    """A solver and why it was taken."""

    solver: "Solver"
    reason: str


class Solver:
    """Minimizes a surrogate. Says what it supports before anything compiles."""

    name: str
    #: which form of J it works on: "dense", "structured" or "matrix-free"; with blocks it is always "dense"
    jacobian: str = "structured"
    #: whether it forms JJᵀ of all rows; then others read from it
    grams: bool = False

    def supports(self, problem: Problem) -> str | None:
        """None if it can serve the problem, else the reason and what to try instead."""
        raise NotImplementedError

    def choose(self, setting: Setting) -> Choice:
        """The solver to use for a step of these sizes: itself, unless it is `auto`."""
        return Choice(self, "asked for")

    def solve(self, surrogate: Surrogate) -> Solution:
        raise NotImplementedError


def reachable(tolerance: float | None, dtype) -> float:
    """A tolerance as asked for, but never below what the precision can reach; by default 1e-12, in float32 1e-5."""
    eps = float(jnp.finfo(dtype).eps)
    if tolerance is None:
        tolerance = 1e-12 if eps < 1e-9 else 1e-5
    return max(tolerance, 16 * eps)


def judged_gap(
    gap: Float[Array, ""], primal: Float[Array, ""], start: Float[Array, ""], tolerance: float, enough: Any
) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """(relative, small enough) of what is left to gain at the value `primal` of the surrogate, `start` being that of
    δ = 0: at most `tolerance` of the value or, where that is more, the share `enough` of what was gained."""
    value = jnp.maximum(jnp.abs(primal), jnp.finfo(primal.dtype).tiny)
    gained = jnp.where(jnp.isfinite(start), jnp.maximum(start - primal, 0), 0)  # w_n may be outside a bound
    relative = jnp.where(jnp.isfinite(primal), gap / jnp.maximum(value, gained), jnp.inf)
    return relative, jnp.isfinite(relative) & (gap <= jnp.maximum(tolerance * value, enough * gained))

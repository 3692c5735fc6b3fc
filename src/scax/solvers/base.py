"""What a solver of the surrogate promises."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._struct import struct
from ..problem import Problem
from ..surrogate import Surrogate
from .cost import Setting


@struct
class Solution:
    """δ = ŵ − w_n, and how good it is.

    `optimality` is the solver's own measure, relative: the residual of the stationarity equations for smooth
    surrogates, the duality gap where there is a prox.
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


def small_enough(
    missing: Float[Array, ""], primal: Float[Array, ""], start: Float[Array, ""], tolerance: float, enough: Any
) -> Bool[Array, ""]:
    """Whether what is missing at the value `primal` of the surrogate is at most `tolerance` of it or, where that is
    more, the share `enough` of what was gained since δ = 0, of value `start`. Not where a value is not finite."""
    goal = tolerance * jnp.maximum(jnp.abs(primal), jnp.finfo(primal.dtype).tiny)
    gained = jnp.where(jnp.isfinite(start), start - primal, 0)  # w_n itself may be outside a bound
    return jnp.isfinite(primal) & (missing <= jnp.maximum(goal, enough * gained))

"""The full linearization: the loss is linear in δ, so ŵ is one prox."""

from typing import ClassVar

import jax.numpy as jnp

from .._struct import struct
from ..problem import Problem
from ..status import Status
from ..surrogate.surrogate import LinearSurrogate
from .base import Solution, Solver, status_of


@struct
class ClosedForm(Solver):
    """argmin_δ cᵀδ + μ‖δ‖² + nonsmooth(w_n + δ), c holding ρg + (1−ρ)d.

    For ℓ2 this is ŵ = −(ρg + (1−ρ)d − 2τw_n)/(λ + 2τ) (the paper prints it with a plus sign); for ℓ1 a soft
    threshold; for the others their prox.
    """

    name: ClassVar[str] = "closed-form"
    form: ClassVar[str] = "matrix-free"

    def supports(self, problem: Problem) -> str | None:
        return None

    def solve(self, surrogate: LinearSurrogate) -> Solution:
        delta = surrogate.prox(jnp.zeros_like(surrogate.w), jnp.zeros_like(surrogate.w), 0.0)
        status = status_of(jnp.all(jnp.isfinite(delta)), delta, Status.NOT_FINITE)
        return Solution(delta, status, jnp.asarray(1), jnp.zeros((), delta.dtype))

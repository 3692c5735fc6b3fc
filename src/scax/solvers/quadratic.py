"""The quadratic model of a batch and of all past curvature, in weight space."""

from typing import ClassVar

import jax.numpy as jnp

from .._struct import struct
from ..linearize.base import exact
from ..problem import Problem
from ..status import Status
from ..surrogate.surrogate import QuadraticSurrogate
from .base import Solution, Solver, status_of
from .linear.base import is_singular
from .linear.cholesky import solve_positive


@struct
class QuadraticModel(Solver):
    """(C + μI) δ = −c/2: one Q×Q Cholesky, J materialized."""

    name: ClassVar[str] = "weight-space"
    form: ClassVar[str] = "dense"

    def supports(self, problem: Problem) -> str | None:
        return None

    @exact
    def solve(self, surrogate: QuadraticSurrogate) -> Solution:
        right, mu, matrix = -surrogate.rest.linear / 2, surrogate.rest.curvature, surrogate.matrix
        delta = solve_positive(matrix + mu * jnp.eye(right.shape[0], dtype=right.dtype), right)
        curved, norm = matrix @ delta + mu * delta, jnp.linalg.norm
        total = jnp.maximum(norm(curved) + norm(right), jnp.finfo(delta.dtype).tiny)
        optimality = norm(curved - right) / total
        status = status_of(jnp.all(jnp.isfinite(delta)), delta, Status.NOT_FINITE)
        status = jnp.where(is_singular(right, delta), Status.SINGULAR, status).astype(status.dtype)
        return Solution(delta, status, jnp.asarray(1), optimality)

"""Smooth surrogates: a ridge, and any loss. One linear solve if the loss is quadratic, Newton otherwise."""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp

from .._struct import static, struct
from ..datafit import Datafit
from ..linear import ConjugateGradients, SampleSpace, Space, WeightSpace
from ..problem import Problem
from ..surrogate import Surrogate
from .base import Solution, Solver, default_tolerance


class Smooth(Solver):
    """Shared by all solvers of smooth surrogates; they differ in the space where the linear system is solved."""

    tolerance: float | None
    max_iterations: int

    def space(self, surrogate: Surrogate) -> Space:
        raise NotImplementedError

    def supports(self, problem: Problem) -> str | None:
        if problem.regularizer.smooth:
            return None
        return (
            f"solver {self.name!r} needs a smooth regularizer (L2) and got {type(problem.regularizer).__name__}: "
            "use solver='fista', or solver='auto'."
        )

    def solve(self, surrogate: Surrogate) -> Solution:
        space, datafit, z0 = self.space(surrogate), surrogate.datafit, surrogate.lin.outputs
        tolerance = default_tolerance(z0.dtype, self.tolerance, 0.75)
        if datafit.quadratic:
            factor, a, remainder = datafit.newton(z0)
            point = space.solve(factor, -a, remainder)  # the model is exact: its minimizer from δ = 0 is ŵ
            optimality = space.residual(point, datafit.gradient(z0 + space.rows(point)))
            iterations, converged = jnp.asarray(1), optimality < jnp.sqrt(tolerance)
        else:
            point, optimality, iterations, converged = newton(space, datafit, z0, tolerance, self.max_iterations)
        return Solution(space.weights(point), optimality, iterations, converged)


def newton_point(space: Space, datafit: Datafit, z0, point):
    """The minimizer of the quadratic model at a point, and its residual in the true equations."""
    rows = space.rows(point)
    factor, a, remainder = datafit.newton(z0 + rows)
    target = space.solve(factor, factor.apply(rows) - a, remainder)  # α = F(z̄ − z0) − a
    return target, space.residual(target, datafit.gradient(z0 + space.rows(target)))


def newton(space: Space, datafit: Datafit, z0, tolerance: float, max_iterations: int):
    """Newton's method with backtracking, from δ = 0, in the space's own coordinates."""

    def objective(point):
        return datafit.value(z0 + space.rows(point)) + space.energy(point)

    def step(carry):
        point, _, count, _ = carry
        target, residual = newton_point(space, datafit, z0, point)
        point, moved = backtrack(objective, point, target)
        full = moved == 1
        residual = jnp.where(full, residual, jnp.inf)
        return point, residual, count + 1, moved == 0

    def unfinished(carry):
        _, residual, count, stuck = carry
        return (residual > tolerance) & (count < max_iterations) & ~stuck

    start = (space.zero(), jnp.asarray(jnp.inf, z0.dtype), jnp.asarray(0), jnp.asarray(False))
    point, _, count, _ = jax.lax.while_loop(unfinished, step, start)
    residual = space.residual(point, datafit.gradient(z0 + space.rows(point)))
    return point, residual, count, residual < jnp.sqrt(tolerance)


def backtrack(objective: Callable, point, target):
    """Go from point towards target, halving until the objective falls enough; 0 if it never does."""
    value, slope = jax.jvp(objective, (point,), (jax.tree.map(jnp.subtract, target, point),))
    slack = 8 * jnp.finfo(value.dtype).eps * jnp.abs(value)  # near the minimum the decrease drowns in rounding

    def mixed(t):
        return jax.tree.map(lambda p, q: p + t * (q - p), point, target)

    def too_high(t):
        return ~(objective(mixed(t)) <= value + 1e-4 * t * slope + slack)  # written so that NaN counts as too high

    t = jax.lax.while_loop(lambda t: too_high(t) & (t > 1e-6), lambda t: t / 2, jnp.ones((), value.dtype))
    t = jnp.where(t > 1e-6, t, 0)
    exact = jax.tree.map(lambda p, q: jnp.where(t == 1, q, p + t * (q - p)), point, target)
    return exact, t


@struct
class WeightSpaceSolver(Smooth):
    """One Q×Q Cholesky per linear solve: the paper's form. For small networks, and as the judge."""

    tolerance: float | None = static(default=None)
    max_iterations: int = static(default=50)
    name: ClassVar[str] = "weight-space"
    jacobian: ClassVar[str] = "dense"

    def space(self, surrogate):
        return WeightSpace(surrogate.lin, surrogate.pull, surrogate.curvature)


@struct
class SampleSpaceSolver(Smooth):
    """One LK×LK Cholesky per linear solve, from a materialized Jacobian."""

    tolerance: float | None = static(default=None)
    max_iterations: int = static(default=50)
    name: ClassVar[str] = "sample-space"
    jacobian: ClassVar[str] = "dense"

    def space(self, surrogate):
        return SampleSpace(surrogate.lin, surrogate.pull, surrogate.curvature)


@struct
class StructuredSolver(Smooth):
    """One LK×LK Cholesky per linear solve, from layer inputs and sensitivities: J is never formed."""

    tolerance: float | None = static(default=None)
    max_iterations: int = static(default=50)
    name: ClassVar[str] = "structured"
    jacobian: ClassVar[str] = "structured"

    def space(self, surrogate):
        return SampleSpace(surrogate.lin, surrogate.pull, surrogate.curvature)


@struct
class Newton(Smooth):
    """Newton in sample space for any smooth loss, on whichever form of JJᵀ is cheapest."""

    tolerance: float | None = static(default=None)
    max_iterations: int = static(default=50)
    name: ClassVar[str] = "newton"

    def space(self, surrogate):
        return SampleSpace(surrogate.lin, surrogate.pull, surrogate.curvature)


@struct
class ConjugateGradientsSolver(Smooth):
    """No matrix at all: preconditioned conjugate gradients on the smaller side, inside Newton if need be."""

    tolerance: float | None = static(default=None)
    max_iterations: int = static(default=50)
    cg_iterations: int = static(default=500)
    name: ClassVar[str] = "cg"
    jacobian: ClassVar[str] = "matrix-free"

    def space(self, surrogate):
        tolerance = default_tolerance(surrogate.w.dtype, self.tolerance, 0.75)
        return ConjugateGradients(
            surrogate.lin,
            surrogate.pull,
            surrogate.curvature,
            tolerance=tolerance,
            max_iterations=self.cg_iterations,
        )

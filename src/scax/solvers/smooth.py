"""Smooth surrogates: a ridge, and any loss. One linear solve if the loss is quadratic, Newton otherwise."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from .._struct import static, struct
from ..problem import Problem
from ..surrogate.datafit import Datafit
from ..surrogate.surrogate import Surrogate
from .base import Solution, Solver, reachable
from .linear import ConjugateGradients, SampleSpace, Space, WeightSpace


class Smooth(Solver):
    """Shared by all solvers of smooth surrogates; they differ in the space where the linear system is solved."""

    tolerance: float | None
    max_iterations: int

    def space(self, surrogate: Surrogate) -> Space:
        raise NotImplementedError

    def supports(self, problem: Problem) -> str | None:
        if problem.regularizer.is_smooth:
            return None
        return (
            f"solver {self.name!r} needs a smooth regularizer (L2) and got {type(problem.regularizer).__name__}: "
            "use solver='fista', or solver='auto'."
        )

    def solve(self, surrogate: Surrogate) -> Solution:
        space, datafit, z0 = self.space(surrogate), surrogate.datafit, surrogate.lin.outputs
        tolerance = reachable(self.tolerance, z0.dtype)
        if datafit.is_quadratic:
            factor, a, remainder = datafit.newton(z0)
            point = space.solve(factor, -a, remainder)  # the model is exact: its minimizer from δ = 0 is ŵ
            optimality = space.residual(point, datafit.gradient(z0 + space.rows(point)))
            iterations, converged = jnp.asarray(1), optimality < jnp.sqrt(tolerance)
        else:
            point, optimality, iterations, converged = newton(space, datafit, z0, tolerance, self.max_iterations)
        return Solution(space.weights(point), optimality, iterations, converged)


def newton(space: Space, datafit: Datafit, z0, tolerance: float, max_iterations: int):
    """Newton's method with backtracking, from δ = 0, in the space's own coordinates.

    Close to the solution each step squares the residual; where it does not even halve, what is left is rounding.
    """

    def step(carry):
        point, before, count, _ = carry
        rows = space.rows(point)
        factor, a, remainder = datafit.newton(z0 + rows)
        target = space.solve(factor, factor.apply(rows) - a, remainder)  # α = F(z̄ − z0) − a
        target_rows = space.rows(target)
        length = step_length(space, datafit, z0, (point, rows), (target, target_rows))
        residual = space.residual(target, datafit.gradient(z0 + target_rows))
        point = jax.tree.map(lambda p, q: jnp.where(length == 1, q, p + length * (q - p)), point, target)
        rounding = (residual < NEAR) & (residual > before / 2)
        return point, jnp.where(length == 1, residual, jnp.inf), count + 1, (length == 0) | (rounding & (length == 1))

    def unfinished(carry):
        _, residual, count, over = carry
        return ~(residual <= tolerance) & (count < max_iterations) & ~over

    start = (space.zero(), jnp.asarray(jnp.inf, z0.dtype), jnp.asarray(0), jnp.asarray(False))
    point, residual, count, _ = jax.lax.while_loop(unfinished, step, start)
    # without progress, or with its last step shortened, only the point itself can say how good it is
    residual = jax.lax.cond(
        jnp.isfinite(residual),
        lambda: residual,
        lambda: space.residual(point, datafit.gradient(z0 + space.rows(point))),
    )
    return point, residual, count, residual < jnp.sqrt(tolerance)


def step_length(space: Space, datafit: Datafit, z0, start, end):
    """The longest of 1, ½, ¼, … at which the objective falls enough on the way from start to end; 0 if none does.

    Along the way outputs are linear and the energy is quadratic in the length, so all lengths are tried at once.
    """
    (point, rows), (target, target_rows) = start, end
    direction = jax.tree.map(jnp.subtract, target, point)
    energy, energy_slope = jax.jvp(space.energy, (point,), (direction,))
    bend = space.energy(target) - energy - energy_slope
    value, loss_slope = jax.jvp(datafit.value, (z0 + rows,), (target_rows - rows,))
    lengths = jnp.exp2(-jnp.arange(HALVINGS, dtype=rows.dtype))
    losses = jax.vmap(lambda t: datafit.value(z0 + rows + t * (target_rows - rows)))(lengths)
    rise = losses - value + lengths * energy_slope + lengths**2 * bend
    slack = 8 * jnp.finfo(rows.dtype).eps * (jnp.abs(value) + jnp.abs(energy))  # near the minimum all is rounding
    enough = rise <= 1e-4 * lengths * (loss_slope + energy_slope) + slack  # False for NaN
    return jnp.where(jnp.any(enough), lengths[jnp.argmax(enough)], 0)


#: below this residual Newton's method converges quadratically, or not at all
NEAR = 1e-3
#: step lengths tried: down to 2^-19, about 2e-6
HALVINGS = 20


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
    grams: ClassVar[bool] = True
    jacobian: ClassVar[str] = "dense"

    def space(self, surrogate):
        return SampleSpace(surrogate.lin, surrogate.pull, surrogate.curvature)


@struct
class StructuredSolver(Smooth):
    """One LK×LK Cholesky per linear solve, from layer inputs and sensitivities: J is never formed."""

    tolerance: float | None = static(default=None)
    max_iterations: int = static(default=50)
    name: ClassVar[str] = "structured"
    grams: ClassVar[bool] = True
    jacobian: ClassVar[str] = "structured"

    def space(self, surrogate):
        return SampleSpace(surrogate.lin, surrogate.pull, surrogate.curvature)


@struct
class Newton(Smooth):
    """Newton in sample space for any smooth loss, on whichever form of JJᵀ is cheapest."""

    tolerance: float | None = static(default=None)
    max_iterations: int = static(default=50)
    name: ClassVar[str] = "newton"
    grams: ClassVar[bool] = True

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
        tolerance = reachable(self.tolerance, surrogate.w.dtype) / 10  # the solve inside must not limit the one outside
        return ConjugateGradients(
            surrogate.lin,
            surrogate.pull,
            surrogate.curvature,
            tolerance=tolerance,
            max_iterations=self.cg_iterations,
        )

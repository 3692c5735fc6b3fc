"""Smooth surrogates: a ridge, and any loss. One linear solve if the loss is quadratic, Newton otherwise."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..problem import Problem
from ..status import Status
from ..surrogate.datafit import Datafit
from ..surrogate.surrogate import Surrogate
from .base import Solution, attainable, status_of
from .linear import Space

#: below this residual Newton's method converges quadratically, or not at all
NEAR = 1e-3
#: step lengths tried: down to 2^-19, about 2e-6
HALVINGS = 20


def needs_smooth(name: str, problem: Problem) -> str | None:
    """What a solver of smooth surrogates says to a problem."""
    if problem.regularizer.is_smooth:
        return None
    return (
        f"solver {name!r} needs a smooth regularizer (L2) and got {type(problem.regularizer).__name__}: "
        "use solver='fista', or solver='auto'."
    )


def solve_smooth(space: Space, surrogate: Surrogate, tolerance: float | None, max_iterations: int) -> Solution:
    """The minimizer, by linear solves in the space given: one where the loss is quadratic.

    The residual is solved for down to `tolerance`; up to its root the solution counts as solved.
    """
    datafit, z0 = surrogate.datafit, surrogate.lin.outputs
    tolerance = attainable(tolerance, z0.dtype)
    if datafit.is_quadratic:
        factor, a, remainder = datafit.newton(z0)
        point, is_singular = space.solve(factor, -a, remainder)  # the model is exact: its minimizer from δ = 0 is ŵ
        optimality = space.residual(point, datafit.gradient(z0 + space.rows(point)))
        iterations, failure = jnp.asarray(1), space.limit
    else:
        point, optimality, iterations, failure, is_singular = iterate(space, datafit, z0, tolerance, max_iterations)
    status = status_of(optimality < jnp.sqrt(tolerance), optimality, failure)
    solved = status == Status.OK
    status = jnp.where(is_singular & ~solved, Status.SINGULAR, status).astype(status.dtype)
    return Solution(space.weights(point), status, iterations, optimality)


def iterate(space: Space, datafit: Datafit, z0: Float[Array, "m k"], tolerance: float, max_iterations: int):
    """Newton's method with backtracking, from δ = 0, in the space's own coordinates.

    Close to the solution each step squares the residual; where it does not even halve, what is left is rounding.
    """

    def step(carry):
        point, before, count, _, _ = carry
        rows = space.rows(point)
        factor, a, remainder = datafit.newton(z0 + rows)
        target, is_singular = space.solve(factor, factor.apply(rows) - a, remainder)  # α = F(z̄ − z0) − a
        target_rows = space.rows(target)
        length = step_length(space, datafit, z0, (point, rows), (target, target_rows))
        residual = space.residual(target, datafit.gradient(z0 + target_rows))
        point = jax.tree.map(lambda p, q: jnp.where(length == 1, q, p + length * (q - p)), point, target)
        rounding = (residual < NEAR) & (residual > before / 2)
        stalled = (length == 0) | (rounding & (length == 1))
        return point, jnp.where(length == 1, residual, jnp.inf), count + 1, stalled, is_singular

    def unfinished(carry):
        _, residual, count, stalled, _ = carry
        return ~(residual <= tolerance) & (count < max_iterations) & ~stalled

    no = jnp.asarray(False)
    start = (space.zero(), jnp.asarray(jnp.inf, z0.dtype), jnp.asarray(0), no, no)
    point, residual, count, stalled, is_singular = jax.lax.while_loop(unfinished, step, start)
    # without progress, or with its last step shortened, only the point itself can say how good it is
    residual = jax.lax.cond(
        jnp.isfinite(residual),
        lambda: residual,
        lambda: space.residual(point, datafit.gradient(z0 + space.rows(point))),
    )
    return point, residual, count, jnp.where(stalled, Status.STALLED, Status.NOT_CONVERGED), is_singular


def step_length(space: Space, datafit: Datafit, z0, start, end) -> Float[Array, ""]:
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

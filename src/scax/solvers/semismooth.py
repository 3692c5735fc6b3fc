"""Semismooth Newton in sample space: sparse surrogates in a handful of small linear systems."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import checks
from .._struct import static, struct
from ..linearize.active import active, root
from ..linearize.base import exact
from ..problem import Problem
from ..status import Status
from ..surrogate.surrogate import Surrogate
from .base import Solution, Solver, attainable, relative_gap, status_of
from .linear.cholesky import solve_positive

#: The shortest step along a Newton direction before the problem is made easier instead.
SHORTEST = 2.0**-6


class _Point(NamedTuple):
    """Outputs z, and what follows from v = ∇Φ(z)."""

    z: Float[Array, "m k"]
    slope: Float[Array, "q"]  # Jᵀv
    delta: Float[Array, "q"]  # δ(v)
    dual: Float[Array, ""]


class _Proximal(NamedTuple):
    """½σ‖δ − center‖²."""

    sigma: Float[Array, ""]
    center: Float[Array, "q"]


class _Iterate(NamedTuple):
    point: _Point
    rows: Float[Array, "m k"]  # z0 + Jδ(v)
    prox: "_Proximal"
    gap: Float[Array, ""]
    solved: Array
    count: Array
    stuck: Array


@struct
class Semismooth(Solver):
    """Newton's method on the optimality conditions, in R^{mk}, each prox replaced by its derivative D.

    The minimizer is δ(v) = argmin_δ vᵀJδ + Ψ(δ), one prox, at the root of v = ∇Φ(z0 + Jδ(v)). Unknowns are
    outputs z with v = ∇Φ(z), so that no conjugate of the loss is needed and v never leaves its domain:

        r(z) = z0 + Jδ(∇Φ(z)) − z = 0,      (I + J D JᵀH/2μ) Δz = r,       H = ∇²Φ(z) = FᵀF
        M b = F r,  M = I + F J D Jᵀ Fᵀ/2μ,      Δz = r − J D Jᵀ Fᵀb/2μ

    D is zero in the rows and columns of weights held at zero (or on a bound): the few others make the matrix. Δz is an
    ascent direction of the concave dual, along which it is halved until the dual rises enough. The duality gap
    at (δ(v), v) is the Bregman distance Φ(z0 + Jδ) − Φ(z) − vᵀ(z0 + Jδ − z); `tolerance` is on it, relative.

    Where μ is zero, or too small for the precision, or where only very short steps raise the dual, ½σ‖δ − δ_k‖² is
    added, δ_k follows the solution and σ falls (proximal point). −σ(δ − δ_k) is then a subgradient of the surrogate
    itself, and bounds what is left to gain.

    With more rows than weights the system is solved in weight space, from D^½ JᵀHJ D^½.

    `enough` above 0 stops earlier, after a Newton step that leaves at most that share of the gain over δ = 0 to be
    gained: `auto` does so. (The first point, a prox with μ alone, may gain as much and be far off.)
    """

    tolerance: float = static(default=1e-6)
    max_iterations: int = static(default=100)
    enough: float = static(default=0.0)
    name: ClassVar[str] = "semismooth"
    stops_on_gap: ClassVar[bool] = True

    def __post_init__(self):
        checks.fraction("enough", self.enough)

    def supports(self, problem: Problem) -> str | None:
        if problem.regularizer.has_prox_derivative:
            return None
        return (
            f"solver {self.name!r} needs the derivative of the regularizer's prox and "
            f"{type(problem.regularizer).__name__} does not give one: use solver='fista', or solver='auto'."
        )

    def solve(self, surrogate: Surrogate) -> Solution:
        lin, datafit, w = surrogate.lin, surrogate.datafit, surrogate.w
        z0, dtype, eps = lin.outputs, w.dtype, jnp.finfo(w.dtype).eps
        n, k = z0.shape
        tolerance = attainable(self.tolerance, dtype)
        in_samples = n * k <= lin.size
        magnitude = datafit.newton(z0)[0].magnitude()
        scale = jnp.sum(magnitude**2 * lin.row_squares())  # ‖FJ‖² and more
        curvature = 2 * surrogate.curvature
        tiny = jnp.finfo(dtype).tiny
        at_zero = datafit.value(z0) + surrogate.regularizer.nonsmooth(w)  # the surrogate at δ = 0
        least = jnp.where(curvature > 16 * eps * scale, 0, jnp.sqrt(eps) * scale).astype(dtype)  # of σ

        def total(prox: _Proximal):
            return jnp.maximum(curvature + prox.sigma, tiny)  # scale is 0 where J is

        def argument(slope, prox: _Proximal):
            return w + (prox.sigma * prox.center - surrogate.linear - slope) / total(prox)

        @jax.jit  # traced once, used three times
        def at(z, prox: _Proximal) -> _Point:
            v = datafit.gradient(z)
            slope = lin.vjp(v)
            delta = surrogate.regularizer.prox_nonsmooth(argument(slope, prox), 1 / total(prox)) - w
            off = delta - prox.center
            psi = surrogate.linear @ delta + surrogate.curvature * (delta @ delta) + prox.sigma / 2 * (off @ off)
            psi = psi + surrogate.regularizer.nonsmooth(w + delta)
            return _Point(z, slope, delta, datafit.value(z) + jnp.sum(v * (z0 - z)) + slope @ delta + psi)

        def derivative(point: _Point, prox: _Proximal):
            return surrogate.regularizer.prox_derivative(argument(point.slope, prox), w + point.delta, 1 / total(prox))

        @jax.jit
        def assess(point: _Point, prox: _Proximal, count, stuck):
            """The point with its gap, and whether it is solved well enough around this center."""
            rows = z0 + lin.jvp(point.delta)
            v = datafit.gradient(point.z)
            gap = jnp.maximum(datafit.value(rows) - datafit.value(point.z) - jnp.sum(v * (rows - point.z)), 0)
            off = point.delta - prox.center
            primal = point.dual + gap - prox.sigma / 2 * (off @ off)  # of the surrogate itself
            subgradient = prox.sigma * jnp.linalg.norm(off)
            away = jnp.linalg.norm(point.delta) + jnp.linalg.norm(w)
            left = jnp.minimum(subgradient * away, subgradient**2 / jnp.maximum(2 * curvature, tiny))
            left = jnp.where(prox.sigma > 0, left, 0)
            size = jnp.maximum(jnp.abs(primal), tiny)
            share = jnp.where(count > 0, self.enough, 0.0)
            relative, solved = relative_gap(gap + left, primal, at_zero, tolerance, share)
            around = (prox.sigma > 0) & (gap <= 0.1 * jnp.maximum(left, tolerance * size)) & ~solved
            return _Iterate(point, rows, prox, relative, solved, count, stuck), around

        @exact
        def in_weights(factor):
            """JᵀHJ, once for a quadratic loss."""
            rows = factor.rows(lin.jacobian()).reshape(n * k, lin.size)
            return rows.T @ rows

        def newton(state: _Iterate) -> _Iterate:
            point, prox = state.point, state.prox
            residual = state.rows - point.z
            d = derivative(point, prox)
            factor, _, _ = datafit.newton(point.z)
            right = factor.apply(residual).reshape(-1)
            if columns is not None:
                gram = (columns.gram(d) / total(prox)).reshape(n, k, n, k)
                matrix = factor.sandwich(gram).reshape(n * k, n * k) + jnp.eye(n * k, dtype=dtype)
                b = solve_positive(matrix, right)
                back = jnp.einsum("namb,mb->na", gram, factor.transpose(b.reshape(n, k)))
            else:
                # with A = FJD^½/√2μ: b = Fr − Aa, (I + AᵀA)a = AᵀFr, and then Aᵀb = a without any cancellation
                hessian = in_weights(factor) if weights is None else weights
                inner = root(d, root(d, hessian).T) / total(prox) + jnp.eye(lin.size, dtype=dtype)
                reduced = root(d, lin.vjp(factor.transpose(right.reshape(n, k))))
                back = lin.jvp(root(d, solve_positive(inner, reduced)) / total(prox))
                b = right - factor.apply(back).reshape(-1)
            direction = residual - back
            rise = right @ b  # the dual's slope along Δz
            slack = 8 * eps * (jnp.abs(point.dual) + jnp.abs(datafit.value(point.z)))

            def halve(carry):
                t = carry[0] / 2
                new = at(point.z + t * direction, prox)
                return t, new, new.dual >= point.dual + 1e-4 * t * rise - slack  # NaN does not

            t, new, rises = jax.lax.while_loop(
                lambda c: ~c[2] & (c[0] > SHORTEST), halve, (jnp.full((), 2, dtype), point, jnp.asarray(False))
            )
            failed = ~rises
            reached = jax.tree.map(lambda a, b: jnp.where(failed, b, a), new, point)
            # a step as short as this: kinks of the dual lie too close together, more curvature spreads them
            hard = (t <= SHORTEST) & (prox.sigma < scale)
            following, around = assess(reached, prox, state.count + 1, failed & ~hard)
            lower = jnp.where(prox.sigma / 10 < jnp.maximum(curvature, tiny), 0, prox.sigma / 10)
            sigma = jnp.where(hard, jnp.maximum(10 * prox.sigma, 1e-3 * scale), jnp.maximum(lower, least))
            center = jnp.where(hard, prox.center, reached.delta)

            def changed():
                other = _Proximal(sigma.astype(dtype), center)
                return assess(at(reached.z, other), other, state.count + 1, jnp.asarray(False))[0]

            return jax.lax.cond((around | hard) & ~following.solved, changed, lambda: following)

        prox = _Proximal(least, jnp.zeros_like(w))
        first = at(z0, prox)
        columns = active(lin, derivative(first, prox)) if in_samples else None
        weights = in_weights(datafit.newton(z0)[0]) if datafit.is_quadratic and not in_samples else None
        start, _ = assess(first, prox, jnp.asarray(0), jnp.asarray(False))
        end = jax.lax.while_loop(lambda s: ~s.solved & (s.count < self.max_iterations) & ~s.stuck, newton, start)
        failure = jnp.where(end.stuck, Status.STALLED, Status.NOT_CONVERGED)
        return Solution(end.point.delta, status_of(end.solved, end.point.delta, failure), end.count, end.gap)

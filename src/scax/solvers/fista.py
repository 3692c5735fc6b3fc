"""FISTA with restart, for anything with a prox; it stops on the duality gap."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import checks
from .._struct import static, struct
from ..linearize.base import spectral_norm
from ..problem import Problem
from ..status import Status
from ..surrogate.surrogate import Surrogate
from .base import Solution, Solver, attainable, relative_gap, status_of


class _Iterate(NamedTuple):
    delta: Float[Array, "q"]
    ahead: Float[Array, "q"]  # the extrapolated point
    momentum: Float[Array, ""]
    bound: Float[Array, ""]  # on the curvature of Φ along J: 1/step
    gap: Float[Array, ""]
    solved: Array
    count: Array


@struct
class Fista(Solver):
    """Accelerated proximal gradient on Φ(z0 + Jδ), everything else of the surrogate inside the prox.

    The step comes from ‖J‖² and the loss's curvature at the current outputs and is shortened whenever the quadratic
    upper bound fails; momentum restarts when it points uphill. `tolerance` is the relative duality gap, checked every
    `check_every` iterations; `enough` above 0 stops earlier, where at most that share of the gain over δ = 0 is left.
    """

    tolerance: float = static(default=1e-6)
    max_iterations: int = static(default=5000)
    check_every: int = static(default=10)
    enough: float = static(default=0.0)
    name: ClassVar[str] = "fista"
    stops_on_gap: ClassVar[bool] = True

    def __post_init__(self):
        checks.fraction("enough", self.enough)

    def supports(self, problem: Problem) -> str | None:
        return None

    def solve(self, surrogate: Surrogate) -> Solution:
        lin, datafit, dtype = surrogate.lin, surrogate.datafit, surrogate.w.dtype
        z0, jvp = lin.outputs, jax.jit(lin.jvp)  # traced once, used often
        tolerance = attainable(self.tolerance, dtype)
        at_zero = datafit.value(z0) + surrogate.regularizer.nonsmooth(surrogate.w)  # the surrogate at δ = 0

        def gap_at(delta):
            """The relative duality gap at δ, and whether it is small enough."""
            z = z0 + jvp(delta)
            primal = surrogate.value(delta)
            gap = jnp.maximum(primal - surrogate.dual(datafit.gradient(z), z), 0)
            return relative_gap(gap, primal, at_zero, tolerance, self.enough)

        def descend(state: _Iterate) -> _Iterate:
            z = z0 + jvp(state.ahead)
            slope = datafit.gradient(z)
            value, gradient = datafit.value(z), lin.vjp(slope)

            def candidate(bound):
                new = surrogate.prox(gradient, state.ahead, bound)
                move = new - state.ahead
                above = datafit.value(z0 + jvp(new)) - (value + gradient @ move + bound / 2 * (move @ move))
                slack = 8 * jnp.finfo(dtype).eps * jnp.abs(value)
                return new, ~(above <= slack)  # written so that NaN counts as too high

            bound, new, _ = jax.lax.while_loop(  # from half the last bound, so that the body tries that one first
                lambda c: c[2] & (c[0] < jnp.finfo(dtype).max / 4),
                lambda c: (2 * c[0], *candidate(2 * c[0])),
                (state.bound / 2, state.delta, jnp.asarray(True)),
            )
            uphill = (state.ahead - new) @ (new - state.delta) > 0
            momentum = jnp.where(uphill, 1, state.momentum)
            following = (1 + jnp.sqrt(1 + 4 * momentum**2)) / 2
            ahead = new + jnp.where(uphill, 0, (momentum - 1) / following) * (new - state.delta)
            return state._replace(delta=new, ahead=ahead, momentum=following, bound=bound)

        def several(state: _Iterate) -> _Iterate:
            state = jax.lax.fori_loop(0, self.check_every, lambda _, s: descend(s), state)
            gap, solved = gap_at(state.delta)
            return state._replace(gap=gap, solved=solved, count=state.count + self.check_every)

        zero = jnp.zeros_like(surrogate.w)
        factor, _, _ = datafit.newton(z0)
        curvature = (
            jnp.max(jnp.sum(factor.magnitude() ** 2, axis=1)) if not factor.diagonal else jnp.max(factor.blocks**2)
        )
        bound = 1.1 * spectral_norm(lin, dtype) * curvature + 4 * jnp.finfo(dtype).tiny  # half of it is not zero
        gap, no = jnp.asarray(jnp.inf, dtype), jnp.asarray(False)
        start = _Iterate(zero, zero, jnp.ones((), dtype), bound, gap, no, jnp.asarray(0))
        end = jax.lax.while_loop(lambda s: ~s.solved & (s.count < self.max_iterations), several, start)
        status = status_of(end.solved, end.delta, Status.NOT_CONVERGED)
        return Solution(end.delta, status, end.count, end.gap)

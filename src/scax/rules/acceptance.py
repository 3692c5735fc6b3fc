"""Which steps are taken. Finite is not the same as right."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .. import checks
from .._struct import Number, struct
from ..status import Status


@struct
class Acceptance:
    """A step is taken if its solver's own residual is at most `residual`, and if it does not raise the objective of
    the very batch it was computed from by more than `rise` times the objective's recent level. Where an iterate turns
    out to have gone astray, the run goes on from the averaged iterate."""

    residual: Number = 0.15
    rise: Number = 1.0
    memory: Number = 0.9

    def __post_init__(self):
        checks.positive("residual", self.residual)
        checks.positive("rise", self.rise)
        checks.fraction("memory", self.memory)

    def inaccurate(self, optimality: Float[Array, ""]) -> Bool[Array, ""]:
        return ~(optimality <= self.residual)  # written so that NaN counts as inaccurate

    def rose(self, before: Float[Array, ""], after: Float[Array, ""], level: Float[Array, ""]) -> Bool[Array, ""]:
        return ~(after - before <= self.rise * level)

    def lost(
        self,
        before: Float[Array, ""],
        level: Float[Array, ""],
        n: Int[Array, ""],
        at_mean: Callable[[], Float[Array, ""]],
    ) -> Bool[Array, ""]:
        """Whether w_n has gone astray, judged on a batch it has not seen: U is far above its recent level there, and
        the averaged iterate does better by as much. Only the first, if it happens, costs a forward pass."""
        far = lambda a, b: ~(a - b <= self.rise * level)  # written so that NaN counts as far
        alarm = (n > 0) & far(before, level)
        other = jax.lax.cond(alarm, at_mean, lambda: jnp.full_like(before, jnp.inf))
        return alarm & jnp.isfinite(other) & far(before, other)

    def track(self, level: Float[Array, ""], before: Float[Array, ""], n: Int[Array, ""]) -> Float[Array, ""]:
        """The recent level of |U| on the batches seen, this one included unless it is not finite."""
        now, keep = jnp.abs(before), jnp.where(n == 0, 0, self.memory)
        return jnp.where(jnp.isfinite(now), jnp.maximum(keep * level + (1 - keep) * now, now), level)


def verdict(
    finite: Bool[Array, ""],
    solver: Int[Array, ""],
    inaccurate: Bool[Array, ""],
    rose: Bool[Array, ""],
    lost: Bool[Array, ""],
) -> tuple[Bool[Array, ""], Int[Array, ""]]:
    """(accepted, status): the first thing that is wrong decides."""
    accepted = finite & ~inaccurate & ~rose & ~lost
    status = jnp.where(rose, Status.OBJECTIVE_ROSE, solver)
    status = jnp.where(inaccurate, Status.INACCURATE, status)
    status = jnp.where(finite, status, Status.NOT_FINITE)
    status = jnp.where(solver == Status.SINGULAR, solver, status)
    return accepted, jnp.where(lost, Status.RESTORED, status)

"""Which steps are taken. Finite is not the same as right."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .. import checks
from .._struct import Number, struct
from ..status import Status
from .base import RuleState, Scalar, Seen


@dataclasses.dataclass(frozen=True)
class Trial:
    """A step that might be taken."""

    status: Int[Array, ""]  # the solver's
    optimality: Scalar  # the solver's own residual, relative
    step_norm: Scalar
    after: Callable[[], Scalar]  # U on this batch at the proposal
    average: Callable[[], Scalar] | None  # and at the averaged iterate, None where there is none


class Verdict(NamedTuple):
    """What becomes of a step."""

    accepted: Bool[Array, ""]
    restored: Bool[Array, ""]  # the run goes on from the averaged iterate instead
    status: Int[Array, ""]


@struct
class EveryFinite:
    """Every finite step is taken."""

    def init(self, w: Float[Array, "q"]) -> tuple:
        return ()

    def decide(self, state: RuleState, seen: Seen, trial: Trial) -> tuple[Verdict, RuleState]:
        """The verdict, and what to remember."""
        finite = jnp.isfinite(trial.step_norm)
        failed = jnp.where(trial.status == Status.SINGULAR, Status.SINGULAR, Status.NOT_FINITE)
        return Verdict(finite, jnp.asarray(False), jnp.where(finite, trial.status, failed)), state


@struct
class Acceptance:
    """A step is taken if its solver's own residual is at most `residual`, and if it does not raise the objective of
    the very batch it was computed from by more than `rise` times the objective's recent level. Where an iterate turns
    out to be far off, the run goes on from the averaged iterate."""

    residual: Number = 0.15
    rise: Number = 1.0
    memory: Number = 0.9

    def __post_init__(self):
        checks.positive("residual", self.residual)
        checks.positive("rise", self.rise)
        checks.fraction("memory", self.memory)

    def init(self, w: Float[Array, "q"]) -> Scalar:
        """The recent level of |U| on batches."""
        return jnp.zeros((), w.dtype)

    def decide(self, state: Scalar, seen: Seen, trial: Trial) -> tuple[Verdict, Scalar]:
        """The verdict, and the new level: the first thing that is wrong decides."""
        restored = self._is_far_off(state, seen, trial.average)
        level = jnp.where(restored, state, self._track(state, seen))
        inaccurate = ~(trial.optimality <= self.residual)  # written so that NaN counts as inaccurate
        rose = self._exceeds(trial.after(), seen.objective, level)
        finite = jnp.isfinite(trial.step_norm)
        status = jnp.where(rose, Status.OBJECTIVE_ROSE, trial.status)
        status = jnp.where(inaccurate, Status.INACCURATE, status)
        status = jnp.where(finite, status, Status.NOT_FINITE)
        status = jnp.where(trial.status == Status.SINGULAR, Status.SINGULAR, status)
        status = jnp.where(restored, Status.RESTORED, status)
        return Verdict(finite & ~inaccurate & ~rose & ~restored, restored, status), level

    def _is_far_off(self, level: Scalar, seen: Seen, average: Callable[[], Scalar] | None) -> Bool[Array, ""]:
        """Whether w_n is far off, by a batch that it has not been fitted to: U is far above its recent level there,
        and the averaged iterate does better by as much. Only an alarm costs a pass."""
        if average is None:
            return jnp.asarray(False)
        alarm = (seen.step > 0) & self._exceeds(seen.objective, level, level)
        other = jax.lax.cond(alarm, average, lambda: jnp.full_like(seen.objective, jnp.inf))
        return alarm & jnp.isfinite(other) & self._exceeds(seen.objective, other, level)

    def _track(self, level: Scalar, seen: Seen) -> Scalar:
        """The recent level of |U| on batches, this one included unless it is not finite."""
        now, keep = jnp.abs(seen.objective), jnp.where(seen.step == 0, 0, self.memory)
        return jnp.where(jnp.isfinite(now), jnp.maximum(keep * level + (1 - keep) * now, now), level)

    def _exceeds(self, a: Scalar, b: Scalar, level: Scalar) -> Bool[Array, ""]:
        return ~(a - b <= self.rise * level)  # written so that NaN counts as more

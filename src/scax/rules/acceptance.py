"""Which steps are taken. Finite is not the same as right."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .. import checks
from .._struct import Number, struct
from ..status import Status
from .base import Scalar, Seen


@dataclasses.dataclass(frozen=True)
class Trial:
    """A step that might be taken. The functions compute only if a rule calls them."""

    status: Int[Array, ""]  # the solver's
    optimality: Scalar  # the solver's own residual, relative
    step_norm: Scalar
    weight_norm: Scalar  # ‖w_n‖
    after: Callable[[], Scalar]  # U on this batch at the proposal
    predicted: Callable[[], Scalar]  # and by the linearized network
    average: Scalar | None  # and at the averaged iterate where there is an alarm; None where nothing is averaged
    pull: Scalar | float = 0.0  # τ‖βδ_prev‖²: so much may a proximal center away from w_n cost of what could be gained


class Verdict(NamedTuple):
    """What becomes of a step."""

    accepted: Bool[Array, ""]
    restored: Bool[Array, ""]  # the run goes on from the averaged iterate instead
    status: Int[Array, ""]


@struct
class AcceptanceState:
    """What the rules of acceptance remember."""

    level: Float[Array, ""]  # the recent level of |U| on batches, where a rule tracks it
    refusals: Int[Array, ""]  # in a row

    def after(self, accepted: Bool[Array, ""], level: Scalar | None = None) -> "AcceptanceState":
        return AcceptanceState(self.level if level is None else level, jnp.where(accepted, 0, self.refusals + 1))


class AcceptanceRule:
    """Abstract: `init` before the first step, `alarm` and `decide` in every step."""

    def init(self, w: Float[Array, "q"]) -> AcceptanceState:
        return AcceptanceState(jnp.zeros((), w.dtype), jnp.zeros((), jnp.int32))

    def alarm(self, state: AcceptanceState, seen: Seen) -> Bool[Array, ""]:
        """Whether w_n is far worse on this batch, which it was not fitted to, than recent weights were on theirs."""
        raise NotImplementedError

    def decide(self, state: AcceptanceState, seen: Seen, trial: Trial) -> tuple[Verdict, AcceptanceState]:
        """The verdict, and what to remember."""
        raise NotImplementedError


@struct
class EveryFinite(AcceptanceRule):
    """Every finite step is taken."""

    def alarm(self, state, seen):
        return jnp.asarray(False)

    def decide(self, state, seen, trial):
        finite, no = jnp.isfinite(trial.step_norm), jnp.asarray(False)
        failed = jnp.where(trial.status == Status.SINGULAR, Status.SINGULAR, Status.NOT_FINITE)
        return Verdict(finite, no, jnp.where(finite, trial.status, failed)), state.after(finite)


@struct
class Acceptance(AcceptanceRule):
    """A step is taken if its solver's own residual is at most `residual`, and if it does not raise the objective of
    the very batch it was computed from by more than `rise` times the objective's recent level. Where an iterate turns
    out to be far off, the run goes on from the averaged iterate.

    >>> sca = scax.SCA(problem, acceptance=scax.Acceptance(rise=0.5))  # stricter than the default
    >>> every_finite_step = scax.SCA(problem, acceptance=False)
    """

    residual: Number = 0.15
    rise: Number = 1.0
    memory: Number = 0.9

    def __post_init__(self):
        checks.positive("residual", self.residual)
        checks.positive("rise", self.rise)
        checks.fraction("memory", self.memory)

    def alarm(self, state, seen):
        """U is far above its recent level."""
        return (seen.step > 0) & self._exceeds(seen.objective, state.level, state.level)

    def decide(self, state, seen, trial):
        """The first thing that is wrong decides."""
        restored = jnp.asarray(False)
        if trial.average is not None:  # w_n is far off where the averaged iterate does better by as much
            better = jnp.isfinite(trial.average) & self._exceeds(seen.objective, trial.average, state.level)
            restored = self.alarm(state, seen) & better
        level = jnp.where(restored, state.level, self._track(state.level, seen))
        rose = self._exceeds(trial.after(), seen.objective, level)
        accurate, status = _judge_solution(trial, self.residual, rose)
        accepted = accurate & ~rose & ~restored
        status = jnp.where(restored, Status.RESTORED, status)
        return Verdict(accepted, restored, status), state.after(accepted, level)

    def _track(self, level: Scalar, seen: Seen) -> Scalar:
        """The recent level of |U| on batches, this one included unless it is not finite."""
        now, keep = jnp.abs(seen.objective), jnp.where(seen.step == 0, 0, self.memory)
        return jnp.where(jnp.isfinite(now), jnp.maximum(keep * level + (1 - keep) * now, now), level)

    def _exceeds(self, a: Scalar, b: Scalar, level: Scalar) -> Bool[Array, ""]:
        return ~(a - b <= self.rise * level)  # written so that NaN counts as more


@struct
class Descent(AcceptanceRule):
    """For batches of all rows: a step is taken if it lowers the objective, and says where there is nothing left to
    gain. With ε the precision, the end is where the linearized network promises less than 4ε|U| (CONVERGED), or where
    that is so, or the step no longer than ε‖w‖, only after refusals (PRECISION_REACHED). Towards a carried center it
    may promise less than there is to gain, even less than nothing: what the center may cost counts as promised."""

    residual: Number = 0.15

    def __post_init__(self):
        checks.positive("residual", self.residual)

    def alarm(self, state, seen):
        return jnp.asarray(False)

    def decide(self, state, seen, trial):
        after, eps = trial.after(), jnp.finfo(trial.step_norm.dtype).eps
        fell = after < seen.objective
        accurate, status = _judge_solution(trial, self.residual, ~fell)
        accepted = accurate & fell
        promised = seen.objective - trial.predicted() + trial.pull
        nothing_left = promised <= 4 * eps * jnp.abs(seen.objective)
        no_step = trial.step_norm <= eps * trial.weight_norm
        status = jnp.where(accurate & nothing_left & (state.refusals == 0), Status.CONVERGED, status)
        status = jnp.where((nothing_left | no_step) & (state.refusals > 0), Status.PRECISION_REACHED, status)
        return Verdict(accepted, jnp.asarray(False), status), state.after(accepted)


def _judge_solution(trial: Trial, residual: Number, rose: Bool[Array, ""]) -> tuple[Bool[Array, ""], Int[Array, ""]]:
    """Whether the solver's solution is one, and the status: the first thing that is wrong."""
    inaccurate = ~(trial.optimality <= residual)  # written so that NaN counts as inaccurate
    finite = jnp.isfinite(trial.step_norm)
    status = jnp.where(rose, Status.OBJECTIVE_ROSE, trial.status)
    status = jnp.where(inaccurate, Status.INACCURATE, status)
    status = jnp.where(finite, status, Status.NOT_FINITE)
    status = jnp.where(trial.status == Status.SINGULAR, Status.SINGULAR, status)
    return finite & ~inaccurate, status

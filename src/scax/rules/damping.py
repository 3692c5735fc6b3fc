"""τ, the weight of the proximal term: fixed, or adapted to the run."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import checks
from .._struct import Number, static, struct
from .base import ROWS, Rule, where_needed

#: `Relative` measures every batch this far into a run, and then one batch in as many: S̄ is an average anyway.
EVERY = 8
#: How far refused steps can raise τ, so that a run of bad batches cannot carry it to infinity.
LARGEST_RISE = 1e10


@struct
class Fixed(Rule):
    """τ_n = value; after k refusals in a row max(value, ε S) · 4^k, S the batch's curvature: the same step is not tried
    again."""

    value: Number

    def __post_init__(self):
        checks.nonnegative("damping", self.value)

    def init(self, w):
        return jnp.ones((), w.dtype)

    def propose(self, state, seen):
        least = lambda: jnp.finfo(state.dtype).eps * seen.curvature()
        base = jnp.asarray(self.value, state.dtype)
        raised = jax.lax.cond(state > 1, lambda: jnp.maximum(base, least()) * state, lambda: base)
        return raised, state

    def update(self, state, outcome):
        return jnp.where(outcome.accepted, 1, jnp.minimum(4 * state, LARGEST_RISE))


@struct
class Recovering(Rule):
    """τ rises by `rise` at a step that is not taken, falls back by `fall` at each that is, never below `base`.

    It stops rising at 1e10 times `base`.
    """

    base: Number
    rise: Number = 4.0
    fall: Number = 0.95

    def __post_init__(self):
        checks.positive("base", self.base)
        checks.number("rise", self.rise, lambda v: v > 1, "a number > 1")
        checks.fraction("fall", self.fall)

    def init(self, w):
        return jnp.asarray(self.base, w.dtype)

    def propose(self, state, seen):
        return state, state

    def update(self, state, outcome):
        higher = jnp.minimum(self.rise * state, LARGEST_RISE * self.base)
        return jnp.where(outcome.accepted, jnp.maximum(self.base, self.fall * state), higher)


@struct
class DampingState:
    """What `Relative` remembers."""

    mean: Float[Array, ""]  # S̄, the average of what was measured on the batches so far
    boost: Float[Array, ""]  # above 1 while the rule recovers from steps that were not taken


@struct
class Relative(Rule):
    """The default damping: a share of the curvature met so far.

    τ_n = share · κ · S̄_n · r(L) · (1 + t/scale)^growth · m · boost_n,
    r(L) = (20/L)^noise for 20 rows or more, (20/L)^min(noise, 1 − q) for fewer, S̄ the average of S/ℓ.

    S is a batch's curvature (`Seen.spread`: for the squared loss the average of ‖J_i − J̄‖², without the direction that
    all samples share), which τ competes with in the surrogate: measured in it, one number serves inputs, losses and
    widths of any size. S̄ is its average over the batches that the clock counts; with its time t each batch has less say
    against the displacement carried over from those before it. ℓ is what the batch has left of the loss's largest
    curvature (`Loss.curvature_left`): where a loss flattens out, S falls with the objective and τ would do so twice, by
    S̄ and by m, while the few rows that are wrong still pull as strongly as at first. A batch of few rows says little
    about the others, unless there is no noise (q → 1), and a loss that flattens out (κ, `Loss.caution`) does not stop
    the surrogate from fitting it: both are damped more. m is what the clock has seen the objective fall by. The boost
    rises by `rise` at a step that is not taken, up to 1e10, and falls back by `fall`, down to 1, at each one that is.
    With `centered=False` S keeps the common direction (`Seen.curvature`), and ℓ is 1.

    >>> steadier = scax.SCA(problem, damping=scax.Relative(share=0.05))
    >>> fixed = scax.SCA(problem, damping=0.1)
    """

    share: Number = 0.016
    scale: Number = 50.0
    growth: Number = 0.65
    noise: Number = 1.5
    centered: bool = static(default=True)
    rise: Number = 4.0
    fall: Number = 0.95

    def __post_init__(self):
        checks.positive("share", self.share)
        checks.nonnegative("noise", self.noise)
        checks.positive("scale", self.scale)
        checks.nonnegative("growth", self.growth)
        checks.number("rise", self.rise, lambda v: v > 1, "a number > 1")
        checks.fraction("fall", self.fall)

    def init(self, w):
        return DampingState(jnp.zeros((), w.dtype), jnp.ones((), w.dtype))

    def propose(self, state, seen):
        n, mean, clock = seen.step, state.mean, seen.clock
        measured = lambda n: jnp.where(n < EVERY, n, EVERY + (n - EVERY) // EVERY)  # how often before step n
        measure = (n < EVERY) | (n % EVERY == 0) | (mean == 0)
        now = where_needed(measure, lambda: self._measured(seen), mean)
        valid = jnp.isfinite(now) & (now > 0)
        gain = jnp.maximum(1 / (measured(n) + 1), jnp.minimum(0.1, 1 / (measured(clock.time) + 1)))
        mean = mean + jnp.where(valid & measure, now - mean, 0) * jnp.where(mean > 0, gain, 1)  # S̄_n
        few = jnp.where(seen.rows < ROWS, jnp.minimum(self.noise, 1 - clock.stillness), self.noise)
        level = self.share * seen.caution * (ROWS / seen.rows) ** few
        level = level * (1 + clock.time / self.scale) ** self.growth * clock.multiplier
        tau = level * jnp.maximum(mean, jnp.finfo(mean.dtype).eps) * state.boost
        return tau, DampingState(mean, state.boost)

    def update(self, state, outcome):
        lower, higher = jnp.maximum(1, self.fall * state.boost), jnp.minimum(LARGEST_RISE, self.rise * state.boost)
        return DampingState(state.mean, jnp.where(outcome.accepted, lower, higher))

    def _measured(self, seen):
        """S/ℓ."""
        return seen.spread() / seen.curvature_left() if self.centered else seen.curvature()


@struct
class GainRatioState:
    """What `GainRatio` remembers."""

    boost: Float[Array, ""]  # b
    rise: Float[Array, ""]  # ν


@struct
class GainRatio(Rule):
    """τ_n = share · κ · S_n · b_n, b by the gain ratio r = (U before − U after)/(U before − U promised): for batches of
    all rows, on which nothing but the linearization can be wrong (Nielsen's rule for Levenberg–Marquardt).

    A step that is taken:  b ← b · max(fall, 1 − (2r − 1)³),  ν ← 2;     one that is not:  b ← ν b,  ν ← 2ν.
    """

    share: Number = 1e-3
    fall: Number = 1 / 3

    def __post_init__(self):
        checks.positive("share", self.share)
        checks.fraction("fall", self.fall)

    def init(self, w):
        one = jnp.ones((), w.dtype)
        return GainRatioState(one, 2 * one)

    def propose(self, state, seen):
        curvature, eps = seen.spread(), jnp.finfo(state.boost.dtype).eps
        valid = jnp.isfinite(curvature) & (curvature > 0)
        tau = jnp.where(valid, curvature, 1) * jnp.maximum(self.share * seen.caution * state.boost, eps)
        return tau, state

    def update(self, state, outcome):
        tiny = jnp.finfo(state.boost.dtype).tiny
        promised = outcome.before - outcome.predicted()
        ratio = jnp.clip((outcome.before - outcome.after()) / jnp.maximum(promised, tiny), 0, 1)
        ratio = jnp.where(jnp.isfinite(ratio), ratio, 0)
        least = jnp.finfo(state.boost.dtype).eps / self.share  # below it τ no longer falls, and would be long in rising
        lower = jnp.maximum(state.boost * jnp.maximum(self.fall, 1 - (2 * ratio - 1) ** 3), least)
        higher = jnp.minimum(state.rise * state.boost, LARGEST_RISE**2)
        return GainRatioState(
            jnp.where(outcome.accepted, lower, higher), jnp.where(outcome.accepted, 2, jnp.minimum(2 * state.rise, 1e6))
        )


#: The rule where the network is linearized, and where the loss is, too: there nothing but τ keeps the step from
#: overshooting, in the common direction as in any other.
DAMPING = {
    "partial": Relative(),
    "full": Relative(share=0.5, scale=25.0, growth=1.0, noise=0.0, centered=False),
}


def as_damping(value: Any) -> Rule:
    """A damping rule from a rule or a number, which fixes τ."""
    return value if isinstance(value, Rule) else Fixed(value)

"""τ, the weight of the proximal term: fixed, or adapted to the run."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import checks
from .._struct import Number, static, struct
from .base import Rule, Stateless

#: `Relative` measures every batch this far into a run, and then one batch in as many: S̄ is an average anyway.
EVERY = 8
#: `share` is that of a batch of so many rows.
ROWS = 20
#: How far refused steps can raise τ, so that a run of bad batches cannot carry it to infinity.
LARGEST_RISE = 1e6


@struct
class Fixed(Stateless):
    """τ_n = value."""

    value: Number

    def __post_init__(self):
        checks.nonnegative("damping", self.value)

    def propose(self, state, seen):
        return jnp.asarray(self.value), state


@struct
class Recovering(Rule):
    """τ rises by `rise` at a step that is not taken, falls back by `fall` at each that is, never below `base`.

    It stops rising at a million times `base`.
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
    """τ_n = share · κ · S̄_n · (20/L)^noise · (1 + t/scale)^growth · boost_n, a share of the curvature met so far.

    S is a batch's curvature (`Seen.spread`: for the squared loss the average of ‖J_i − J̄‖², without the direction that
    all samples share), which τ competes with in the surrogate: measured in it, one number serves inputs, losses and
    widths of any size. S̄ is its average over all batches so far; with time t each batch has less say against the
    displacement carried over from all those before it. A batch of few rows says little about the others, and a loss
    that flattens out (κ, `Loss.caution`) does not stop the surrogate from fitting it: both are damped more. The boost
    rises by `rise` at a step that is not taken, up to a million, and falls back by `fall`, down to 1, at each one that
    is. With `centered=False` S keeps the common direction (`Seen.curvature`).
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
        n, mean = seen.step, state.mean
        measured = jnp.where(n < EVERY, n, EVERY + (n - EVERY) // EVERY)  # how often before
        measure = (n < EVERY) | (n % EVERY == 0) | (mean == 0)
        now = jax.lax.cond(measure, seen.spread if self.centered else seen.curvature, lambda: mean)
        valid = jnp.isfinite(now) & (now > 0)
        mean = mean + jnp.where(valid, now - mean, 0) / jnp.where(mean > 0, measured + 1, 1)  # S̄_n
        level = self.share * seen.caution * (ROWS / seen.rows) ** self.noise
        level = level * (1 + seen.time / self.scale) ** self.growth
        tau = level * jnp.maximum(mean, jnp.finfo(mean.dtype).eps) * state.boost
        return tau, DampingState(mean, state.boost)

    def update(self, state, outcome):
        lower, higher = jnp.maximum(1, self.fall * state.boost), jnp.minimum(LARGEST_RISE, self.rise * state.boost)
        return DampingState(state.mean, jnp.where(outcome.accepted, lower, higher))


#: The rule where the network is linearized, and where the loss is, too: there nothing but τ keeps the step from
#: overshooting, in the common direction as in any other.
DAMPING = {
    "partial": Relative(),
    "full": Relative(share=0.5, scale=25.0, growth=1.0, noise=0.0, centered=False),
}


def as_damping(value: Any) -> Rule:
    """A damping rule from a rule or a number, which fixes τ."""
    return value if isinstance(value, Rule) else Fixed(value)

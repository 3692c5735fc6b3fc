"""τ, the weight of the proximal term: fixed, or looking after itself."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .. import checks
from .._struct import Number, static, struct

Held = Any  # what a rule remembers from step to step: a pytree of scalars
Scalar = Float[Array, ""]


class Measures(NamedTuple):
    """What a rule may ask of this batch; the functions compute only if asked."""

    curvature: Callable[[], Scalar]  # S, see `Iteration.curvature`
    spread: Callable[[], Scalar]  # S about its mean, see `Iteration.spread`
    rows: Scalar  # L, equal weights or not
    caution: Number  # of the loss


class Damping:
    """A rule for τ: `at` gives τ_n, and `judged`, once it is known whether step n was taken, what follows from it."""

    @property
    def first(self) -> Number:
        """τ before any batch is seen, for display."""
        raise NotImplementedError

    def start(self, dtype: Any) -> Held:
        """What the rule remembers before the first step."""
        raise NotImplementedError

    def at(self, held: Held, n: Int[Array, ""], batch: Measures) -> tuple[Float[Array, ""], Held]:
        raise NotImplementedError

    def judged(self, held: Held, tau: Float[Array, ""], accepted: Bool[Array, ""]) -> tuple[Float[Array, ""], Held]:
        raise NotImplementedError


@struct
class Fixed(Damping):
    """τ_n = value."""

    value: Number

    def __post_init__(self):
        checks.nonnegative("damping", self.value)

    @property
    def first(self):
        return self.value

    def start(self, dtype):
        return ()

    def at(self, held, n, batch):
        return jnp.asarray(self.value), held

    def judged(self, held, tau, accepted):
        return tau, held


@struct
class Recovering(Damping):
    """τ rises by `rise` at a step that is not taken, falls back by `fall` at each that is, never below `base`.

    It stops rising at a million times `base`, so that a run of bad batches cannot carry it to infinity.
    """

    base: Number
    rise: Number = 4.0
    fall: Number = 0.95

    def __post_init__(self):
        checks.positive("base", self.base)
        checks.number("rise", self.rise, lambda v: v > 1, "a number > 1")
        checks.fraction("fall", self.fall)

    @property
    def first(self):
        return self.base

    def start(self, dtype):
        return jnp.asarray(self.base, dtype)

    def at(self, held, n, batch):
        return held, held

    def judged(self, held, tau, accepted):
        risen = jnp.minimum(self.rise * tau, 1e6 * self.base)
        tau = jnp.where(accepted, jnp.maximum(self.base, self.fall * tau), risen)
        return tau, tau


#: `Relative` looks at every batch this far into a run, and then at one batch in as many: S̄ is an average anyway.
EVERY = 8
#: `share` is that of a batch of so many rows.
ROWS = 20


@struct
class Memory:
    """What `Relative` remembers."""

    mean: Float[Array, ""]  # S̄, the average of what was measured on the batches seen
    boost: Float[Array, ""]  # above 1 while the rule recovers from steps that were not taken


@struct
class Relative(Damping):
    """τ_n = share · κ · S̄_n · (20/L)^noise · (1 + n/scale)^growth · boost_n, a share of the curvature met so far.

    S is a batch's curvature (`Iteration.spread`: for the squared loss the average of ‖J_i − J̄‖², without the direction
    that all samples share), which τ competes with in the surrogate: measured in it, one number serves inputs, losses
    and widths of any size. S̄ is its average over all batches so far; with n each batch has less say against the
    displacement carried over from all those before it. A batch of few rows says little about the others, and a loss
    that flattens out (κ, `Loss.caution`) does not stop the surrogate from fitting it: both are damped more. The boost
    rises by `rise` at a step that is not taken, up to a million, and falls back by `fall`, down to 1, at each one that
    is. With `centered=False` S keeps the common direction (`Iteration.curvature`).
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

    @property
    def first(self):
        return 0.0

    def start(self, dtype):
        return Memory(jnp.zeros((), dtype), jnp.ones((), dtype))

    def at(self, held, n, batch):
        mean, curvature = held.mean, batch.spread if self.centered else batch.curvature
        looked = jnp.where(n < EVERY, n, EVERY + (n - EVERY) // EVERY)  # how often before
        look = (n < EVERY) | (n % EVERY == 0) | (mean == 0)
        now = jax.lax.cond(look, curvature, lambda: mean)
        known = jnp.isfinite(now) & (now > 0)
        mean = mean + jnp.where(known, now - mean, 0) / jnp.where(mean > 0, looked + 1, 1)  # S̄_n
        level = self.share * batch.caution * (ROWS / batch.rows) ** self.noise * (1 + n / self.scale) ** self.growth
        tau = level * jnp.maximum(mean, jnp.finfo(mean.dtype).eps) * held.boost
        return tau, Memory(mean, held.boost)

    def judged(self, held, tau, accepted):
        boost = jnp.where(accepted, jnp.maximum(1, self.fall * held.boost), jnp.minimum(1e6, self.rise * held.boost))
        return tau * boost / held.boost, Memory(held.mean, boost)


PARTIAL = Relative()
#: the loss is linearized too: nothing but τ keeps the step from overshooting, in the common direction as in any other
FULL = Relative(share=0.5, scale=25.0, growth=1.0, noise=0.0, centered=False)


def as_damping(value) -> Damping:
    """A Damping from a Damping or a number, which fixes τ."""
    return value if isinstance(value, Damping) else Fixed(value)

"""τ, the weight of the proximal term: fixed, or looking after itself."""

from jaxtyping import Array, Bool, Float

from . import checks
from ._struct import Number, struct


class Damping:
    """A rule for τ: `first` is τ_0, `next` gives τ_{n+1} once it is known whether step n was taken."""

    @property
    def first(self) -> Number:
        raise NotImplementedError

    def next(self, tau: Float[Array, ""], accepted: Bool[Array, ""]) -> Float[Array, ""]:
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

    def next(self, tau, accepted):
        return tau


@struct
class Recovering(Damping):
    """τ rises by `rise` at a step that is not taken, falls back by `fall` at each that is, never below `base`.

    It stops rising at a million times `base`, so that a run of bad batches cannot carry it to infinity.
    """

    base: Number = 0.03
    rise: Number = 4.0
    fall: Number = 0.95

    def __post_init__(self):
        checks.positive("base", self.base)
        checks.number("rise", self.rise, lambda v: v > 1, "a number > 1")
        checks.fraction("fall", self.fall)

    @property
    def first(self):
        return self.base

    def next(self, tau, accepted):
        import jax.numpy as jnp

        risen = jnp.minimum(self.rise * tau, 1e6 * self.base)
        return jnp.where(accepted, jnp.maximum(self.base, self.fall * tau), risen)


def as_damping(value) -> Damping:
    """A Damping from a Damping or a number, which fixes τ."""
    return value if isinstance(value, Damping) else Fixed(value)

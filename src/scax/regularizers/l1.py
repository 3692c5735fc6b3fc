"""Lasso, and its mixture with ridge."""

import jax.numpy as jnp

from .. import checks
from .._struct import Number, struct
from .base import Regularizer
from .derivative import derivative


def soft_threshold(w, threshold):
    """sign(w) · max(|w| − threshold, 0): exactly zero inside the threshold."""
    return jnp.sign(w) * jnp.maximum(jnp.abs(w) - threshold, 0)


@struct
class L1(Regularizer):
    """Lasso penalty: makes single weights exactly zero.

    R(w) = strength · ‖w‖₁, or Σ strength_i |w_i| where strength has a number for each weight.

    >>> float(scax.L1(0.1).value(jnp.array([1.0, -2.0, 0.0]))) == 0.1 * jnp.float32(3.0)
    Array(True, dtype=bool)
    """

    strength: Number
    has_prox_derivative = True

    def __post_init__(self):
        checks.nonnegative("strength", self.strength)

    @property
    def l1(self):
        return self.strength

    def nonsmooth(self, w):
        return jnp.sum(self.l1 * jnp.abs(w))

    def prox_nonsmooth(self, w, step):
        return soft_threshold(w, step * self.l1)

    def prox_derivative(self, w, x, step):
        return derivative(w, x, threshold=step * self.l1)

    def take(self, index):
        return self if jnp.ndim(self.strength) == 0 else L1(jnp.asarray(self.strength)[index])

    def check(self, size):
        checks.each("strength", self.strength, size, "weights")


@struct
class ElasticNet(Regularizer):
    """Lasso and ridge together.

    R(w) = strength · (l1_ratio ‖w‖₁ + (1 − l1_ratio) ½‖w‖²).

    >>> float(scax.ElasticNet(1.0, l1_ratio=0.5).value(jnp.array([2.0])))  # ½ · 2 + ½ · ½ · 4
    2.0
    """

    strength: Number
    l1_ratio: Number = 0.5
    has_prox_derivative = True

    def __post_init__(self):
        checks.nonnegative("strength", self.strength)
        checks.fraction("l1_ratio", self.l1_ratio)

    @property
    def l1(self):
        return self.strength * self.l1_ratio

    @property
    def ridge(self):
        return self.strength * (1 - self.l1_ratio)

    def nonsmooth(self, w):
        return self.l1 * jnp.sum(jnp.abs(w))

    def prox_nonsmooth(self, w, step):
        return soft_threshold(w, step * self.l1)

    def prox_derivative(self, w, x, step):
        return derivative(w, x, threshold=step * self.l1)

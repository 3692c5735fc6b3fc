"""Huber's loss: quadratic near the target, straight far from it."""

import jax.numpy as jnp

from .. import checks
from .._struct import Number, struct
from .base import Loss


@struct
class Huber(Loss):
    """Huber's loss, for regression with outliers.

    l(y, z) = Σ_k ½ r² where |r| ≤ delta, else delta (|r| − ½ delta), with r = z_k − y_k.

        g = clip(r, ±delta),   ∇² = 1 inside and 0 outside,   F = √∇²,   a = r inside;   remainder g outside

    (Standard form, with its ½: for large delta it is half of `Squared`.)

    >>> scax.Huber(1.0).value(jnp.array([[3.0]]), jnp.array([[0.0]])).tolist()  # outputs, targets
    [2.5]
    """

    delta: Number = 1.0

    def __post_init__(self):
        checks.positive("delta", self.delta)

    def value(self, z, y):
        r = jnp.abs(z - y)
        return jnp.sum(jnp.where(r <= self.delta, r**2 / 2, self.delta * (r - self.delta / 2)), axis=1)

    def gradient(self, z, y):
        return jnp.clip(z - y, -self.delta, self.delta)

    def factor(self, z, y):
        return self._inside(z, y).astype(z.dtype)

    def whitened(self, z, y):
        return jnp.where(self._inside(z, y), z - y, 0)

    def remainder(self, z, y):
        return jnp.where(self._inside(z, y), 0, self.gradient(z, y))

    def _inside(self, z, y):
        return jnp.abs(z - y) <= self.delta

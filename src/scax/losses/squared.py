"""Squared error."""

import math

import jax.numpy as jnp

from .._struct import struct
from .base import Loss


@struct
class Squared(Loss):
    """Squared error, for regression.

    l(y, z) = Σ_k (y_k − z_k)², with no ½. So g = 2(z − y), ∇² = 2I, F = √2 I and a = √2 (z − y).

    >>> scax.Squared().value(jnp.array([[3.0, 1.0]]), jnp.array([[1.0, 0.0]])).tolist()
    [5.0]
    """

    is_quadratic = True

    def value(self, z, y):
        return jnp.sum((z - y) ** 2, axis=1)

    def gradient(self, z, y):
        return 2 * (z - y)

    def factor(self, z, y):
        return jnp.full_like(z, math.sqrt(2))

    def whitened(self, z, y):
        return math.sqrt(2) * (z - y)

"""Counts: Poisson negative log-likelihood with a log link."""

import jax.numpy as jnp

from .. import checks
from .._struct import struct
from .base import Loss


@struct
class Poisson(Loss):
    """Poisson loss, for counts.

    l(y, z) = Σ_k e^{z_k} − y_k z_k, y ≥ 0, the network giving the log of the rate (log y! left out).

        g = e^z − y,   ∇² = e^z,   F = e^{z/2},   a = e^{z/2} − y e^{−z/2}

    >>> scax.Poisson().value(jnp.zeros((1, 1)), jnp.full((1, 1), 3.0)).tolist()  # e⁰ − 3·0
    [1.0]
    """

    caution = 8.0

    def value(self, z, y):
        return jnp.sum(jnp.exp(z) - y * z, axis=1)

    def gradient(self, z, y):
        return jnp.exp(z) - y

    def factor(self, z, y):
        return jnp.exp(z / 2)

    def whitened(self, z, y):
        return jnp.exp(z / 2) - y * jnp.exp(-z / 2)

    def check(self, y, k):
        super().check(y, k)
        values = checks.concrete(y)
        if values is not None and values.min() < 0:
            raise ValueError(f"y has a negative value ({values.min()}): Poisson wants counts or rates ≥ 0.")

"""Binary cross-entropy on logits."""

import jax
import jax.numpy as jnp

from .. import checks
from .._struct import struct
from .base import Loss


@struct
class Logistic(Loss):
    """Cross-entropy of yes/no questions, one output each.

    l(y, z) = Σ_k log(1 + e^{z_k}) − y_k z_k, labels y ∈ {0, 1} (or a probability between them).

    This is −(y log σ(z) + (1−y) log(1−σ(z))); the paper prints it without the minus sign. With σ = σ(z):

        g = σ − y,   ∇² = σ(1−σ),   F = √(σ(1−σ)),   a = g / F = (1−y) e^{z/2} − y e^{−z/2}

    >>> problem = scax.Problem(net.apply, scax.Logistic(), scax.L2(1e-3))
    >>> labels = (y > 0).astype(float)
    >>> round(float(scax.Logistic().value(jnp.zeros((1, 1)), jnp.ones((1, 1)))[0]), 4)  # log 2
    0.6931
    """

    caution = 8.0

    def value(self, z, y):
        return jnp.sum(jax.nn.softplus(z) - y * z, axis=1)

    def gradient(self, z, y):
        return jax.nn.sigmoid(z) - y

    def factor(self, z, y):
        # σ(z)σ(−z) rather than σ(1−σ), which rounds to zero on one side
        z = _bounded(z)
        return jnp.sqrt(jax.nn.sigmoid(z) * jax.nn.sigmoid(-z))

    def whitened(self, z, y):
        z = _bounded(z)
        return (1 - y) * jnp.exp(z / 2) - y * jnp.exp(-z / 2)

    def curvature_left(self, z):
        return 4 * jnp.mean(jax.nn.sigmoid(z) * jax.nn.sigmoid(-z), axis=1)

    def check(self, y, k):
        super().check(y, k)
        values = checks.concrete(y)
        if values is not None and (values.min() < 0 or values.max() > 1):
            raise ValueError(
                f"y has values from {values.min()} to {values.max()}: Logistic wants labels 0 and 1 "
                "(or probabilities). Map the classes first, e.g. (y == positive).astype(float)."
            )


def _bounded(z):
    """Beyond |z| = 80 the curvature is below 1e-34; holding it there keeps F positive and a finite in float32."""
    return jnp.clip(z, -80.0, 80.0)

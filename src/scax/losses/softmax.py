"""Cross-entropy over k classes, on logits."""

import jax
import jax.numpy as jnp
import numpy as np

from .. import checks
from .._struct import struct
from .base import Loss


@struct
class Softmax(Loss):
    """Cross-entropy of several classes, one output each.

    l(y, z) = log Σ_k e^{z_k} − Σ_k y_k z_k, y a class index per row or a row of probabilities.

    With p = softmax(z) and P = diag(p):

        g = p − y,   ∇² = P − ppᵀ,   F = P^½ (I − 1pᵀ),   a = P^{−½}(p − y)

    The Hessian is singular along 1, so it is factored and never inverted: FᵀF = P − ppᵀ, and Fᵀa = g because
    both p and y sum to one.

    >>> logits, labels = jnp.zeros((1, 4)), jnp.array([2])
    >>> round(float(scax.Softmax().value(logits, labels)[0]), 4)  # log 4
    1.3863
    """

    caution = 8.0

    def value(self, z, y):
        return jax.nn.logsumexp(z, axis=1) - jnp.sum(y * z, axis=1)

    def gradient(self, z, y):
        return jax.nn.softmax(z, axis=1) - y

    def factor(self, z, y):
        p = _probabilities(z)
        root = jnp.sqrt(p)
        return root[:, :, None] * (jnp.eye(z.shape[1], dtype=z.dtype) - p[:, None, :])

    def whitened(self, z, y):
        p = _probabilities(z)
        return (p - y) / jnp.sqrt(p)

    def pull_factor(self, z, y, e):
        """Fᵀe = √p ∘ e − p (√pᵀe), no k×k matrix formed."""
        p = _probabilities(z)[:, None]
        scaled = jnp.sqrt(p) * e
        return scaled - p * jnp.sum(scaled, axis=2, keepdims=True)

    def curvature_left(self, z):
        p = jax.nn.softmax(z, axis=1)
        return jnp.sum(p * (1 - p), axis=1) / (1 - 1 / z.shape[1])

    def targets(self, y, k):
        return jax.nn.one_hot(y, k) if y.ndim == 1 else y

    def check(self, y, k):
        shape, values = jnp.shape(y), checks.concrete(y)
        if k < 2:
            raise ValueError(f"Softmax needs a network with at least 2 outputs, got {k}: use Logistic for two classes.")
        if len(shape) == 1:
            kind = y.dtype if hasattr(y, "dtype") else np.asarray(y).dtype
            if not jnp.issubdtype(kind, jnp.integer):
                raise TypeError(
                    f"y has dtype {kind}: Softmax wants integer class indices [n] or probabilities [n, {k}]."
                )
            if values is not None and (values.min() < 0 or values.max() >= k):
                raise ValueError(
                    f"y has class indices from {values.min()} to {values.max()} but the network has {k} outputs: "
                    f"classes must be 0 … {k - 1}."
                )
            return
        super().check(y, k)
        if values is not None and (values.min() < 0 or not np.allclose(values.sum(axis=1), 1, atol=1e-4)):
            raise ValueError("y has rows that are not probabilities: each row of y must be ≥ 0 and sum to 1.")


def _probabilities(z):
    """softmax(z) with a floor far below any probability that matters, so that P^{−½} stays finite."""
    floor = 1e-30
    return jnp.maximum(jax.nn.softmax(z, axis=1), floor)

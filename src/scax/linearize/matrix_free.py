"""J only as a product, for networks and batches where neither J nor JJᵀ fits."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import Linearization
from .dense import Dense
from .network import NetworkFunction


class MatrixFree(Linearization):
    """J δ by `jax.linearize`, Jᵀ v by its transpose: one forward or backward pass each, nothing stored."""

    def __init__(self, network: NetworkFunction, w: Float[Array, "q"], x: Any):
        self.network, self.w, self.x, self.size = network, w, x, w.shape[0]
        self.outputs, self._jvp = jax.linearize(lambda w: network(w, x), w)
        self._vjp = jax.linear_transpose(self._jvp, w)

    def jvp(self, delta):
        return self._jvp(delta)

    def vjp(self, v):
        return self._vjp(v)[0]

    def jacobian(self):
        return Dense.of(self.network, self.w, self.x).matrix

    def on(self, rows):
        return Dense.of(
            self.network, self.w, jax.tree.map(lambda a: a[rows], self.x)
        )  # no other row's Jacobian is formed

    def gram(self):
        return Dense.of(self.network, self.w, self.x).gram()

    def row_squares(self):
        return jax.lax.map(lambda row: self._one(row).row_squares()[0], self.x)

    def _one(self, row: Any) -> Dense:
        return Dense.of(self.network, self.w, jax.tree.map(lambda a: a[None], row))

    def weighted_squares(self, weight, seed):
        # With random signs ε, E‖Jᵀ(v ∘ ε)‖² = Σ v_i² ‖J_i‖²: a backward pass instead of one per row. What all samples
        # have in common is most of the sum and would be most of the noise: it gets a pass of its own, without signs.
        n, k = weight.shape
        root = jnp.sqrt(weight)
        signs = jax.random.rademacher(jax.random.fold_in(jax.random.key(0), seed), (n + 1, k), weight.dtype)
        square = lambda v: jnp.sum(self.vjp(root * v) ** 2)
        spread = signs[:n] - jnp.mean(signs[:n], axis=0)  # covariance I − 11ᵀ/n over the samples
        return square(spread) + square(jnp.broadcast_to(signs[n], (n, k))) / n

    def column_squares(self, scale):
        def add(total, sample):
            row, s = sample
            return total + self._one(row).column_squares(s[None]), None

        return jax.lax.scan(add, jnp.zeros_like(self.w), (self.x, scale))[0]

"""J only as a product, for networks and batches where neither J nor JJᵀ fits."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..network import Network
from .base import Linearization
from .dense import Dense


class MatrixFree(Linearization):
    """J δ by `jax.linearize`, Jᵀ v by its transpose: one forward or backward pass each, nothing stored."""

    def __init__(self, network: Network, w: Float[Array, "q"], x: Array):
        self.network, self.w, self.x, self.size = network, w, x, w.shape[0]
        self.outputs, self._jvp = jax.linearize(lambda w: network(w, x), w)
        self._vjp = jax.linear_transpose(self._jvp, w)

    def jvp(self, delta):
        return self._jvp(delta)

    def vjp(self, v):
        return self._vjp(v)[0]

    def jacobian(self):
        return Dense.of(self.network, self.w, self.x).matrix

    def gram(self):
        return Dense.of(self.network, self.w, self.x).gram()

    def row_squares(self):
        return jax.lax.map(lambda row: Dense.of(self.network, self.w, row[None]).row_squares()[0], self.x)

    def column_squares(self, scale):
        def add(total, sample):
            row, s = sample
            return total + Dense.of(self.network, self.w, row[None]).column_squares(s[None]), None

        return jax.lax.scan(add, jnp.zeros_like(self.w), (self.x, scale))[0]

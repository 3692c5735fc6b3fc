"""The materialized Jacobian: the simplest form, and the judge of the others."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import Linearization, exact, side_by_side, symmetric_product
from .network import NetworkFunction


class Dense(Linearization):
    """J as an array [n, k, Q]. Costs k backward passes per sample and n·k·Q numbers of memory."""

    def __init__(self, outputs: Float[Array, "n k"], matrix: Float[Array, "n k q"]):
        self.outputs, self.matrix, self.size = outputs, matrix, matrix.shape[-1]

    @staticmethod
    def of(network: NetworkFunction, w: Float[Array, "q"], x) -> "Dense":
        """Sample by sample: row i of J needs only row i of x."""

        def one(row):
            z, vjp = jax.vjp(lambda leaves: network.of_one(leaves, row), network.split(w))
            (rows,) = jax.vmap(vjp)(jnp.eye(z.shape[0], dtype=z.dtype))  # leaf by leaf: slices of w would be padded
            return z, [leaf.reshape(z.shape[0], -1) for leaf in rows]

        outputs, rows = jax.vmap(one)(x)
        return Dense(outputs, side_by_side(rows))  # of all samples at once: under vmap each part would be a scatter

    @exact
    def jvp(self, delta):
        return self.matrix @ delta

    @exact
    def vjp(self, v):
        return v.reshape(-1) @ self.matrix.reshape(-1, self.size)

    def jacobian(self):
        return self.matrix

    @exact
    def gram(self):
        n, k, q = self.matrix.shape
        flat = self.matrix.reshape(n * k, q)
        return symmetric_product(flat).reshape(n, k, n, k)

    def row_squares(self):
        return jnp.sum(self.matrix**2, axis=2)

    def column_squares(self, scale):
        return jnp.einsum("nkq,nk->q", self.matrix**2, scale**2)

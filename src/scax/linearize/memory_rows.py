"""Rows that batches left behind: the memory of curvature seen as extra samples."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import Linearization, exact


class WithMemoryRows(Linearization):
    """J with rows B below it, orthogonal to each other, seen from a step c or from none: z(δ) = (f + J(c + δ), Bδ).

    As with `pairs`, every solver serves them unchanged: they are samples with a squared loss and target zero. With
    several outputs k of them make one row, filled up with zeros. JJᵀ grows by JBᵀ and the squares of B.
    """

    def __init__(
        self,
        base: Linearization,
        below: Float[Array, "r q"],
        squares: Float[Array, "r"],
        center: Float[Array, "q"] | None = None,
    ):
        n, k = base.outputs.shape
        fill = -below.shape[0] % k
        self.base, self.size, self.count = base, base.size, n
        self.below, self.squares = jnp.pad(below, ((0, fill), (0, 0))), jnp.pad(squares, (0, fill))
        start = base.outputs if center is None else base.outputs + base.jvp(center)
        self.outputs = jnp.concatenate([start, jnp.zeros((self.squares.shape[0] // k, k), start.dtype)])

    @property
    def samples(self):
        return self.count

    def along(self, delta: Float[Array, "q"]) -> Float[Array, "p k"]:
        """B δ."""
        with jax.default_matmul_precision("highest"):
            return (self.below @ delta).reshape(-1, self.outputs.shape[1])

    def jvp(self, delta):
        return jnp.concatenate([self.base.jvp(delta), self.along(delta)])

    def vjp(self, v):
        return self.base.vjp(v[: self.count]) + self._memory_vjp(v)

    def add_vjp(self, h, v):
        return self.base.add_vjp(h + self._memory_vjp(v), v[: self.count])

    @exact
    def _memory_vjp(self, v):
        return v[self.count :].reshape(-1) @ self.below

    def jacobian(self):
        n, k = self.outputs.shape
        return jnp.concatenate([self.base.jacobian(), self.below.reshape(n - self.count, k, self.size)])

    def gram(self):
        return self.gram_and_jvp(jnp.zeros(self.size, self.outputs.dtype))[0]

    def gram_and_jvp(self, delta, more=None):
        (m, k), own = self.outputs.shape, self.count * self.outputs.shape[1]
        every = self.below if more is None else jnp.concatenate([self.below, more])
        gram, rows, others = self.base.gram_and_jvp(delta, every)
        cross = others[: self.below.shape[0]].reshape(-1, own)  # BJᵀ
        whole = jnp.block([[gram.reshape(own, own), cross.T], [cross, jnp.diag(self.squares)]])
        if more is not None:
            more = jnp.concatenate([others[self.below.shape[0] :], jax.vmap(self.along)(more)], axis=1)
        return whole.reshape(m, k, m, k), jnp.concatenate([rows, self.along(delta)]), more

    def row_squares(self):
        return jnp.concatenate([self.base.row_squares(), self.squares.reshape(-1, self.outputs.shape[1])])

    def column_squares(self, scale):
        own = self.base.column_squares(scale[: self.count])
        return own + scale[self.count :].reshape(-1) ** 2 @ self.below**2

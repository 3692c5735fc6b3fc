"""Rows that are differences of rows: the manifold penalty seen as extra samples."""

import jax
import jax.numpy as jnp

from ..batch import Pairs
from .base import Linearization
from .dense import Dense


class WithPairs(Linearization):
    """E J, where E keeps the batch's own rows and appends one row f_left − f_right per pair.

    Every solver then serves the manifold penalty unchanged: the appended rows are samples with a squared loss and
    target zero.
    """

    def __init__(self, base: Linearization, pairs: Pairs, batch_size: int):
        def differences(z):
            return jnp.concatenate([z[:batch_size], z[pairs.left] - z[pairs.right]])

        self.base, self.size = base, base.size
        self._rows = differences
        self._transposed = jax.linear_transpose(differences, base.outputs)
        self.outputs = differences(base.outputs)

    def jvp(self, delta):
        return self._rows(self.base.jvp(delta))

    def vjp(self, v):
        return self.base.vjp(self._transposed(v)[0])

    def add_vjp(self, h, v):
        return self.base.add_vjp(h, self._transposed(v)[0])

    def jacobian(self):
        return self._rows(self.base.jacobian())

    def gram(self):
        return self._both_sides(self.base.gram())

    def gram_and_jvp(self, delta, more=None):
        gram, rows, others = self.base.gram_and_jvp(delta, more)
        return self._both_sides(gram), self._rows(rows), None if others is None else jax.vmap(self._rows)(others)

    def _both_sides(self, gram):
        half = self._rows(gram)  # E G
        return jnp.moveaxis(self._rows(jnp.moveaxis(half, 2, 0)), 0, 2)  # (E G) Eᵀ

    def row_squares(self):
        gram = self.gram()
        n, k = self.outputs.shape
        return jnp.diagonal(gram.reshape(n * k, n * k)).reshape(n, k)

    def column_squares(self, scale):
        return Dense(self.outputs, self.jacobian()).column_squares(scale)

"""JJᵀ formed once and read by everyone: the solver in sample space, and the damping rule before it."""

import jax.numpy as jnp

from .base import Linearization, exact


class WithGram(Linearization):
    """Another form of J, and its Gram matrix: ‖J_i‖² is on the diagonal, ‖Jᵀv‖² = vᵀJJᵀv needs no product with J."""

    def __init__(self, base: Linearization):
        self.base, self.outputs, self.size = base, base.outputs, base.size
        self.matrix = base.gram()

    def gram(self):
        return self.matrix

    @exact
    def vjp_norm_squared(self, v):
        m = v.size
        return v.reshape(m) @ (self.matrix.reshape(m, m) @ v.reshape(m))

    def row_squares(self):
        m = self.outputs.size
        return jnp.diagonal(self.matrix.reshape(m, m)).reshape(self.outputs.shape)

    def jvp(self, delta):
        return self.base.jvp(delta)

    def vjp(self, v):
        return self.base.vjp(v)

    def add_vjp(self, h, v):
        return self.base.add_vjp(h, v)

    def jacobian(self):
        return self.base.jacobian()

    def column_squares(self, scale):
        return self.base.column_squares(scale)

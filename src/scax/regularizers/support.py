"""Weights that stay zero: a sparse network trained on without what made it sparse."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from .._struct import struct
from .base import Regularizer
from .derivative import ProxDerivative


@struct
class Support(Regularizer):
    """R(w) = 0 where w_i = 0 for every i with `free_i` False, +∞ elsewhere: those weights are held at zero.

    `L2(s) + Support(w != 0)` trains what a sparse penalty has kept, without that penalty's shrinkage.
    """

    free: Bool[Array, "*q"] | Bool[np.ndarray, "*q"]
    newton = True

    def rough(self, w):
        return jnp.where(jnp.all(self.free | (w == 0)), 0.0, jnp.inf).astype(w.dtype)

    def prox_rough(self, w, step):
        return jnp.where(self.free, w, 0)

    def prox_derivative(self, w, x, step):
        return ProxDerivative(jnp.asarray(self.free, w.dtype))

    def take(self, index):
        return Support(self.free[index])

    def check(self, size):
        if self.free.shape[-1] != size:
            raise ValueError(
                f"free says which of {self.free.shape[-1]} weights may move but the network trains {size}: flatten the "
                "params it was made for."
            )

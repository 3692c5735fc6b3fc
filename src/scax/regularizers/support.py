"""Weights that stay zero: a sparse network trained on without what made it sparse."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from .. import checks
from .._struct import struct
from .base import Regularizer
from .derivative import ProxDerivative


@struct
class Support(Regularizer):
    """Holds chosen weights at zero.

    R(w) = 0 where w_i = 0 for every i with `free_i` False, +∞ elsewhere: those weights are held at zero.

    `L2(s) + Support(w != 0)` trains what a sparse penalty has kept, without that penalty's shrinkage.

    >>> w = jnp.array([1.0, 0.0])
    >>> penalty = scax.L2(1e-3) + scax.Support(w != 0)
    >>> float(penalty.value(jnp.array([1.0, 0.5])))
    inf
    """

    free: Bool[Array, "*q"] | Bool[np.ndarray, "*q"]
    has_prox_derivative = True

    def nonsmooth(self, w):
        return jnp.where(jnp.all(self.free | (w == 0)), 0.0, jnp.inf).astype(w.dtype)

    def prox_nonsmooth(self, w, step):
        return self.project(w)

    def prox_derivative(self, w, x, step):
        return ProxDerivative(jnp.asarray(self.free, w.dtype))

    def validate_start(self, w):
        values, free = checks.concrete(w), checks.concrete(self.free)
        if values is None or free is None:
            return self.project(w)
        if stray := int(np.count_nonzero(np.where(free, 0, values))):
            raise ValueError(f"params has {stray} of the weights that Support holds at zero: set them to 0.0 first.")
        return w

    def project(self, w):
        return jnp.where(self.free, w, 0)

    def take(self, index):
        return Support(self.free[index])

    def check(self, size):
        if self.free.shape[-1] != size:
            raise ValueError(
                f"free says which of {self.free.shape[-1]} weights may move but the network trains {size}: flatten the "
                "params it was made for."
            )

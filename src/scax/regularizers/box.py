"""Bounds on the weights."""

import jax.numpy as jnp
import numpy as np

from .. import checks
from .._struct import Number, struct
from .base import Regularizer
from .derivative import derivative


@struct
class Box(Regularizer):
    """Bounds on every weight.

    R(w) = 0 where every |w_i| ≤ bound, +∞ elsewhere: ŵ stays in the box, and so do the iterates.

    >>> float(scax.Box(1.0).value(jnp.array([0.5, -2.0])))
    inf
    """

    bound: Number
    has_prox_derivative = True

    def __post_init__(self):
        checks.positive("bound", self.bound)

    def nonsmooth(self, w):
        # a hair of slack, so that a weight put on the bound and rounded there still counts as inside
        slack = 8 * jnp.finfo(w.dtype).eps
        inside = jnp.all(jnp.abs(w) <= self.bound * (1 + slack))
        return jnp.where(inside, 0.0, jnp.inf).astype(w.dtype)

    def validate_start(self, w):
        values, bound = checks.concrete(w), checks.concrete(self.bound)
        if values is None or bound is None:
            return self.project(w)
        slack = 8 * jnp.finfo(w.dtype).eps
        if np.abs(values).max() > bound.min() * (1 + slack):
            raise ValueError(
                f"params has weights up to {np.abs(values).max():.3g} in size, outside Box({bound.min():.3g}): "
                "start from weights inside, e.g. jax.tree.map(lambda w: jnp.clip(w, -bound, bound), params), or "
                "widen the box."
            )
        return w

    def prox_nonsmooth(self, w, step):
        return self.project(w)

    def prox_derivative(self, w, x, step):
        return derivative(w, x, bound=self.bound)

    def project(self, w):
        return jnp.clip(w, -self.bound, self.bound)

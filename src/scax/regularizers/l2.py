"""Ridge."""

import jax.numpy as jnp

from .. import checks
from .._struct import Number, struct
from .base import Regularizer
from .derivative import derivative


@struct
class L2(Regularizer):
    """Ridge penalty, also called weight decay.

    R(w) = strength · ½‖w‖².

    The paper writes r = ½‖w‖² and then adds λI to its matrix; the gradient of λ·½‖w‖² is λw, so with the squared
    loss's factor 2 divided out the right matrix is A + (λ/2)I. `strength` is λ as it stands in U.

    >>> float(scax.L2(0.5).value(jnp.array([1.0, -2.0])))  # 0.5 · ½ · 5
    1.25
    """

    strength: Number
    is_smooth = True
    has_prox_derivative = True

    def __post_init__(self):
        checks.nonnegative("strength", self.strength)

    @property
    def ridge(self):
        return self.strength

    def nonsmooth(self, w):
        return jnp.zeros((), w.dtype)

    def prox_nonsmooth(self, w, step):
        return w

    def prox_derivative(self, w, x, step):
        return derivative(w, x)

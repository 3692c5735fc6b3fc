"""What a regularizer knows about itself."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._struct import Number
from .derivative import ProxDerivative


class Regularizer:
    """A convex penalty on the weights, or one with a convex majorizer.

    R(w) = ½ ridge ‖w‖² + nonsmooth(w), strength included.

    The ridge goes into every solver's own quadratic; `nonsmooth` is what needs a prox, and is zero for a smooth
    regularizer. Write `nonsmooth` and `prox_nonsmooth` (and `ridge` where there is one); the rest follows. One that is
    not convex has a `majorizer` in place of `prox_nonsmooth`.

    >>> isinstance(scax.L1(0.1) + scax.L2(0.1), scax.Regularizer)
    True
    """

    #: nonsmooth ≡ 0: the surrogate is smooth and needs no prox.
    is_smooth: bool = False
    #: the coefficient of ½‖w‖²
    ridge: Number = 0.0
    #: R is its own `majorizer`; otherwise that is another one at every iterate
    is_convex: bool = True
    #: `prox_derivative` is known: the semismooth Newton solver can serve
    has_prox_derivative: bool = False

    def value(self, w: Float[Array, "q"]) -> Float[Array, ""]:
        """R(w)."""
        return jnp.sum(w**2) * (self.ridge / 2) + self.nonsmooth(w)

    def nonsmooth(self, w: Float[Array, "q"]) -> Float[Array, ""]:
        """nonsmooth(w): R without its ridge."""
        raise NotImplementedError

    def prox_nonsmooth(self, w: Float[Array, "q"], step: Number) -> Float[Array, "q"]:
        """argmin_x  ½‖x − w‖² + step · nonsmooth(x)."""
        raise NotImplementedError

    def prox_derivative(self, w: Float[Array, "q"], x: Float[Array, "q"], step: Number) -> ProxDerivative:
        """An element of the generalized derivative at w of x = prox_nonsmooth(w, step)."""
        raise NotImplementedError

    def prox(self, w: Float[Array, "q"], step: Number) -> Float[Array, "q"]:
        """argmin_x  ½‖x − w‖² + step · R(x): completing the square with the ridge scales both w and the step."""
        scale = 1 + step * self.ridge
        return self.prox_nonsmooth(w / scale, step / scale)

    def conjugate(self, u: Float[Array, "q"], curvature: Number) -> Float[Array, ""]:
        """max_x  uᵀx − ½ curvature ‖x‖² − nonsmooth(x), the conjugate a duality gap needs; attained at a prox."""
        x = self.prox_nonsmooth(u / curvature, 1 / curvature)
        return u @ x - curvature / 2 * (x @ x) - self.nonsmooth(x)

    def majorizer(self, w: Float[Array, "q"]) -> "Regularizer":
        """A convex R̃ ≥ R with R̃(w) = R(w), up to a constant: R itself, where R is convex."""
        return self

    def project(self, w: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The nearest w (or leaf of it) at which R is finite."""
        return w

    def take(self, index: Array) -> "Regularizer":
        """The same regularizer on a block of weights; `index` are the block's places in w."""
        return self

    def check(self, size: int) -> None:
        """Refuse weights of a size this regularizer was not made for."""

    def validate_start(self, w: Float[Array, "q"]) -> Float[Array, "q"]:
        """Weights to start from: those at which R is not finite are refused, or, inside a program, where their values
        are not known, moved to the nearest at which it is."""
        return w

    def __add__(self, other: "Regularizer") -> "Regularizer":
        from .sum import Sum

        if not isinstance(other, Regularizer):
            return NotImplemented
        return Sum((*_parts(self), *_parts(other)))


def _parts(regularizer: Regularizer) -> tuple[Regularizer, ...]:
    return getattr(regularizer, "parts", (regularizer,))

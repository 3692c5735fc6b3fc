"""What a loss knows about itself: one value per sample, never an average."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import checks


class Loss:
    """A convex, smooth l(y, z) of the network's raw outputs z, one value per sample.

    Besides its value and gradient a loss factors its Hessian, FᵀF = ∇²l, and splits its gradient as
    g = Fᵀa + r. Newton's right-hand side is then kept in the same space as its matrix, which is what keeps float32
    accurate when damping is small; r is what F cannot reach (the straight arms of Huber), None when it is zero.

    A diagonal factor is an array [n, k]; a full one is [n, k, k].
    """

    #: ∇²l does not depend on z: one Newton step is the solution.
    is_quadratic: bool = False
    #: κ, how much more damping it wants than its curvature says. A loss that flattens out instead of rising again is
    #: never done with a batch it can fit, and sends the surrogate far off; 8 makes up for the ½ · ¼ of a sigmoid.
    caution: float = 1.0

    def value(self, z: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[Array, "n"]:
        """l(y_i, z_i)."""
        raise NotImplementedError

    def gradient(self, z: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """g = ∂l/∂z."""
        raise NotImplementedError

    def factor(self, z: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[Array, "n k *k2"]:
        """F with FᵀF = ∂²l/∂z²."""
        raise NotImplementedError

    def whitened(self, z: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """a with Fᵀa = g − r."""
        raise NotImplementedError

    def remainder(self, z: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[Array, "n k"] | None:
        """r, the part of g outside the range of Fᵀ; None where there never is one."""
        return None

    def targets(self, y: Array, k: int) -> Float[Array, "n k"]:
        """y as the formulas want it: [n, k]."""
        return y.reshape(y.shape[0], -1) if y.ndim == 1 else y

    def check(self, y: Any, k: int) -> None:
        """Refuse targets of the wrong shape or outside the loss's domain."""
        shape = jnp.shape(y)
        if shape[1:] not in {(k,), ()} or (len(shape) == 1 and k != 1):
            raise ValueError(
                f"y has shape {shape} but the network has {k} output(s) per row: {type(self).__name__} expects "
                f"y of shape {(shape[0], k)}" + (f" or {shape[:1]}." if k == 1 else ".")
            )
        checks.finite("y", y, "Drop rows without a target, or give them weight 0 and any finite target.")

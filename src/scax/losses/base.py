"""What a loss knows about itself: one value per sample, never an average."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import checks


class Loss:
    """A convex, smooth l(y, z) of the network's raw outputs z, one value per sample.

    Besides its value and gradient a loss factors its Hessian, FᵀF = ∇²l, and splits its gradient as
    g = Fᵀa + r. Newton's right-hand side is then kept in the same space as its matrix, which is what keeps float32
    accurate when damping is small; r is what F cannot reach (the straight arms of Huber), None when it is zero.

    A diagonal factor is an array [n, k]; a full one is [n, k, k].

    >>> isinstance(scax.Squared(), scax.Loss)
    True
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

    def pull_factor(
        self, z: Float[Array, "n k"], y: Float[Array, "n _"], e: Float[Array, "n r k"]
    ) -> Float[Array, "n r k"]:
        """Fᵀe for r vectors e a row."""
        factor = self.factor(z, y)
        return factor[:, None] * e if factor.ndim == 2 else jnp.einsum("nab,nra->nrb", factor, e)

    def directions(self, z: Float[Array, "n k"], y: Float[Array, "n k"], key: Array, r: int) -> Float[Array, "n r k"]:
        """r directions a row that stand for its Hessian: E[CᵀC] = ∇²l, C_i [r, k].

        One is Fᵀε with random signs ε. Of several the first is the row's own gradient, Fᵀâ with â = a/‖a‖, and the
        others are random and at right angles to it, Fᵀ(ε − ââᵀε)/√(r−1): a gradient outside their span would meet no
        curvature, only damping, and the step would be too long (docs/measurements/outputs.md).

        Signs, whose products have the least spread: with labels drawn from p for softmax, the same in the mean, rare
        labels make long directions, and trainings end 5% higher.
        """
        signs = jax.random.rademacher(key, (z.shape[0], max(r - 1, 1), z.shape[1]), z.dtype)
        if r == 1:
            return self.pull_factor(z, y, signs)
        a = self.whitened(z, y)[:, None]
        norm = lengths(a)[..., None]
        along = a / jnp.where(norm > 0, norm, 1)  # â, zero where there is no gradient
        across = signs - along * jnp.sum(along * signs, axis=2, keepdims=True)
        return self.pull_factor(z, y, jnp.concatenate([along, across / math.sqrt(r - 1)], axis=1))

    def curvature_left(self, z: Float[Array, "n k"]) -> Float[Array, "n"] | None:
        """tr ∇²l over the largest it can be: of a loss that flattens out what a row has left of its curvature, in
        [0, 1]. None where curvature does not fall, or has no bound."""
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

    def check_range(self, y: Any, k: int, dtype: Any) -> None:
        """Refuse targets so large that their loss is not finite in the precision of the weights."""
        values = checks.concrete(y)
        if values is None or values.size == 0 or values.dtype.kind != "f":
            return
        largest = float(np.max(np.abs(values)))
        if largest < float(jnp.finfo(dtype).max) ** 0.25:  # no loss grows faster
            return
        row = np.argmax(np.max(np.abs(values.reshape(len(values), -1)), axis=1))
        with jax.ensure_compile_time_eval():
            y = self.targets(jnp.asarray(values[row : row + 1]), k).astype(dtype)
            overflows = not np.all(np.isfinite(self.value(jnp.zeros((1, k), dtype), y)))
        if overflows:
            raise ValueError(
                f"y has values up to {largest:.2g}, whose {type(self).__name__} loss is not finite in "
                f"{jnp.dtype(dtype).name}: divide y by {largest:.0e} and multiply predictions by it."
            )


def lengths(a: Float[Array, "*n k"]) -> Float[Array, "*n"]:
    """‖a_i‖ of every row, finite wherever its numbers and the length itself are: their squares may not be."""
    largest = jnp.max(jnp.abs(a), axis=-1, keepdims=True)
    scale = jnp.where(largest > 0, largest, 1)
    return jnp.linalg.norm(a / scale, axis=-1) * scale[..., 0]

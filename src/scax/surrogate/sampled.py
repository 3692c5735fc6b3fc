"""Sampled curvature: the Hessian of each row's loss replaced by a few random directions with the same mean.

    Σ_i s_i l_i(z_i + J_iδ)  →  ∇ᵀδ + ½ Σ_i s_i ‖C_i J_i δ‖²,        ∇ = Σ_i s_i J_iᵀ∂l_i,   E[C_iᵀC_i] = ∂²l_i

The surrogate stays convex and its gradient at w_n exact; its expectation is the second-order model of the exact one.
C_i has r rows: a system of Lr equations in place of LK.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._struct import struct
from ..linearize import Linearization
from ..losses import Loss

#: All draws of directions come from this key and the number of the step.
SEED = 11


@dataclasses.dataclass(frozen=True)
class SampledCurvature:
    """J̃ = CJ on the batch's rows, outputs zero, and the exact gradient ∇."""

    lin: Linearization
    gradient: Float[Array, "q"]


@struct
class HalfSquare(Loss):
    """½‖z‖², the loss of the rows of J̃: ∇² = I."""

    is_quadratic = True

    def value(self, z, y):
        return jnp.sum(z**2, axis=1) / 2

    def gradient(self, z, y):
        return z

    def factor(self, z, y):
        return jnp.ones_like(z)

    def whitened(self, z, y):
        return z


def step_key(n: Int[Array, ""]) -> Array:
    """The key of step n's directions: of the step alone, so that a resumed run draws what an uninterrupted one does."""
    return jax.random.fold_in(jax.random.key(SEED), n)

"""The convex problem of one iteration.

    min_δ  Φ(z0 + Jδ) + cᵀδ + μ‖δ‖² + nonsmooth(w_n + δ),        δ = w − w_n

    Φ   ρ × average loss of the linearized network, manifold rows, rows remembered  (`datafit`)
    c   (1−ρ) d − 2τβ δ_prev + ridge · w_n                                       (`linear`)
    μ   τ + ridge/2                                                              (`curvature`)

Memory, carried step and ridge are a linear and a quadratic term; what is left of the regularizer needs a prox. In the
full linearization Φ is linear too: its gradient is already inside c, and `datafit` is None. With rows remembered the
carried step is the origin (`center`): w is w_n + βδ_prev, δ is measured from there, and c has no such term.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..linearize import Linearization
from ..regularizers import Regularizer
from .datafit import Datafit


@dataclasses.dataclass(frozen=True)
class Surrogate:
    datafit: Datafit | Any  # both None in the full linearization
    lin: Linearization | Any
    w: Float[Array, "q"]
    linear: Float[Array, "q"]
    curvature: Float[Array, ""]
    regularizer: Regularizer
    center: Float[Array, "q"] | None = None  # the step that δ is measured from, None for no step

    @staticmethod
    def build(datafit, lin, w, memory_term, carried_term, damping, regularizer) -> "Surrogate":
        """Collect what is linear in δ: memory_term = (1−ρ)d [+ ρg], carried_term = βδ_prev; None where absent."""
        ridge = regularizer.ridge
        linear = ridge * w
        if memory_term is not None:
            linear = linear + memory_term
        if carried_term is not None:
            linear = linear - 2 * damping * carried_term  # τ‖δ − βδ_prev‖² = τ‖δ‖² − 2τβ δ_prevᵀδ + const
        return Surrogate(datafit, lin, w, linear, damping + ridge / 2, regularizer)

    @property
    def pull(self) -> Float[Array, "q"]:
        """h = −c/2, the weight-space right-hand side: δ → h/μ where the batch has nothing to say."""
        return -self.linear / 2

    def value(self, delta: Float[Array, "q"]) -> Float[Array, ""]:
        """The surrogate at w_n + δ, up to terms that do not depend on δ."""
        value = self.linear @ delta + self.curvature * (delta @ delta)
        value = value + self.regularizer.nonsmooth(self.w + delta)
        return value if self.datafit is None else value + self.datafit.value(self.lin.outputs + self.lin.jvp(delta))

    def prox(self, slope: Float[Array, "q"], center: Float[Array, "q"], weight) -> Float[Array, "q"]:
        """argmin_δ  (slope + c)ᵀδ + μ‖δ‖² + ½ weight ‖δ − center‖² + nonsmooth(w_n + δ)."""
        total = 2 * self.curvature + weight
        free = (weight * center - self.linear - slope) / total
        return self.regularizer.prox_nonsmooth(self.w + free, 1 / total) - self.w

    def dual(self, v: Float[Array, "m k"], z: Float[Array, "m k"]) -> Float[Array, ""]:
        """The dual objective at v = ∇Φ(z): a lower bound on the surrogate's minimum.

        −Φ*(v) + vᵀz0 − Ψ*(−Jᵀv) with Ψ(δ) = cᵀδ + μ‖δ‖² + nonsmooth(w_n + δ). At a gradient Φ*(v) = vᵀz − Φ(z), so no
        conjugate of the loss is needed, and Ψ* is attained at a prox.
        """
        slope = self.lin.vjp(v)
        best = self.prox(slope, jnp.zeros_like(self.w), 0.0)
        low = (slope + self.linear) @ best + self.curvature * (best @ best) + self.regularizer.nonsmooth(self.w + best)
        return self.datafit.value(z) + jnp.sum(v * (self.lin.outputs - z)) + low

    def take(self, index: Array, mask: Float[Array, "b"], overlap: float = 1.0) -> "Surrogate":
        """The same problem over a block of weights, the others staying at w_n; mask 0 marks padding.

        With an overlap σ the block's loss is (1/σ) Φ(z0 + σ J_c δ_c): the others are thought to add to what it does.
        """
        return Surrogate(
            self.datafit if self.datafit is None else self.datafit.times(1 / overlap),
            self.lin if self.lin is None else self.lin.take(index, overlap * mask),
            self.w[index] * mask,
            self.linear[index] * mask,
            self.curvature,
            self.regularizer.take(index),
        )

    def on(self, rows: Array) -> "Surrogate":
        """The same problem on some of the batch's rows, averaged over them alone."""
        if self.datafit is None:
            raise ValueError(
                "blocks: own_batch=True needs surrogate='partial': the full linearization has no rows left."
            )
        return dataclasses.replace(self, datafit=self.datafit.on(rows), lin=self.lin.on(rows))

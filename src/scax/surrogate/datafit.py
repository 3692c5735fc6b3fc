"""Φ(z): the part of the surrogate that depends on outputs, averaging and memory weights included."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..losses import Loss


class Datafit:
    """Φ(z) = Σ_i s_i l(y_i, z_i) + Σ_p q_p ‖z_p‖², s_i = ρ · (sample i's share), one term per row of z.

    The second sum is over rows that are no samples, with weights `beside`: those of the manifold penalty (see
    `linearize.pairs`) and those of past batches (see `rules.curvature_memory`), squared losses with target zero.
    Derivatives follow the loss's own conventions: ∇²Φ = FᵀF, ∇Φ = Fᵀa + r.
    """

    def __init__(self, loss: Loss, y: Float[Array, "n _"], scale: Float[Array, "n"], beside: Any = None):
        self.loss, self.y, self.scale, self.beside = loss, y, scale, beside
        self.is_quadratic = loss.is_quadratic

    def with_rows(self, scale: Float[Array, "p"]) -> "Datafit":
        """The same with p more squared rows below the others."""
        beside = scale if self.beside is None else jnp.concatenate([self.beside, scale])
        return Datafit(self.loss, self.y, self.scale, beside)

    def times(self, factor: float) -> "Datafit":
        """factor · Φ."""
        beside = None if self.beside is None else factor * self.beside
        return Datafit(self.loss, self.y, factor * self.scale, beside)

    def value(self, z: Float[Array, "m k"]) -> Float[Array, ""]:
        own, other = self._split(z)
        value = self.scale @ self.loss.value(own, self.y)
        return value if other is None else value + self.beside @ jnp.sum(other**2, axis=1)

    def gradient(self, z: Float[Array, "m k"]) -> Float[Array, "m k"]:
        """∇Φ(z)."""
        own, other = self._split(z)
        g = self.scale[:, None] * self.loss.gradient(own, self.y)
        return g if other is None else jnp.concatenate([g, 2 * self.beside[:, None] * other])

    def newton(self, z: Float[Array, "m k"]) -> tuple["Factor", Float[Array, "m k"], Float[Array, "m k"] | None]:
        """(F, a, r) with ∇²Φ = FᵀF and ∇Φ = Fᵀa + r at z."""
        own, other = self._split(z)
        root = jnp.sqrt(self.scale)
        f = self.loss.factor(own, self.y)
        f = f * root.reshape((-1,) + (1,) * (f.ndim - 1))
        a = root[:, None] * self.loss.whitened(own, self.y)
        r = self.loss.remainder(own, self.y)
        r = None if r is None else self.scale[:, None] * r
        if other is not None:
            g = jnp.sqrt(2 * self.beside)[:, None] * jnp.ones_like(other)
            f = jnp.concatenate([f, g if f.ndim == 2 else jax.vmap(jnp.diag)(g)])
            a = jnp.concatenate([a, g * other])
            r = None if r is None else jnp.concatenate([r, jnp.zeros_like(other)])
        return Factor(f), a, r

    def on(self, rows: Int[Array, "r"]) -> "Datafit":
        """The average over some rows alone: their shares add up to what those of all rows did."""
        scale, all_rows = self.scale[rows], jnp.sum(self.scale)
        own = jnp.sum(scale)
        return Datafit(self.loss, self.y[rows], scale * all_rows / jnp.where(own > 0, own, 1))

    def _split(self, z):
        """The samples' outputs, and those of the other rows."""
        n = self.y.shape[0]
        return (z, None) if self.beside is None else (z[:n], z[n:])


class Factor:
    """F of ∇²Φ = FᵀF: diagonal over outputs [m, k], or one k×k matrix per sample [m, k, k]."""

    def __init__(self, blocks: Float[Array, "m k *k2"]):
        self.blocks = blocks
        self.diagonal = blocks.ndim == 2

    def apply(self, z: Float[Array, "m k"]) -> Float[Array, "m k"]:
        """F z."""
        return self.blocks * z if self.diagonal else jnp.einsum("nab,nb->na", self.blocks, z)

    def transpose(self, z: Float[Array, "m k"]) -> Float[Array, "m k"]:
        """Fᵀ z."""
        return self.blocks * z if self.diagonal else jnp.einsum("nba,nb->na", self.blocks, z)

    def rows(self, jacobian: Float[Array, "m k q"]) -> Float[Array, "m k q"]:
        """F J."""
        if self.diagonal:
            return self.blocks[..., None] * jacobian
        return jnp.einsum("nab,nbq->naq", self.blocks, jacobian)

    def sandwich(self, gram: Float[Array, "m k m k"]) -> Float[Array, "m k m k"]:
        """F K Fᵀ."""
        if self.diagonal:
            return self.blocks[:, :, None, None] * gram * self.blocks
        half = jnp.einsum("nab,nbmc->namc", self.blocks, gram)
        return jnp.einsum("namc,mdc->namd", half, self.blocks)

    def magnitude(self) -> Float[Array, "m k"]:
        """The size of each row of F, for preconditioning."""
        return self.blocks if self.diagonal else jnp.linalg.norm(self.blocks, axis=2)

"""Exactly the same δ from an mk×mk matrix: never a Q×Q one."""

import jax
import jax.numpy as jnp

from ...linearize.base import exact
from .base import Space, is_singular
from .cholesky import solve_positive


class SampleSpace(Space):
    """δ = θ h/μ + Jᵀu, a point being (θ, u). With K = JJᵀ, substituting into the system of `linear.base`:

        (2μI + FKFᵀ) b = α − F(Jh/μ − K r/(2μ)),      u = Fᵀb − r/(2μ),   θ = 1

    For the squared loss with equal weights s this is (μI + sK)u = s(e − Jh/μ). Everything Newton asks for lives in
    R^{mk}: K is built once, δ only at the end. θ is there so that δ = 0, where Newton starts, is a point too; in
    what `solve` gives it is the number 1.0, no array: where nobody mixes points, ‖h‖ is never looked at.
    """

    def __init__(self, lin, h, mu):
        self.lin, self.h, self.mu = lin, h, mu
        self.shape = lin.outputs.shape
        self.gram, rows, _ = lin.gram_and_jvp(h)
        self.drift = rows / mu  # Jh/μ

    def zero(self):
        return jnp.zeros((), self.h.dtype), jnp.zeros(self.shape, self.h.dtype)

    def solve(self, factor, alpha, remainder):
        n, k = self.shape
        ahead = self.drift if remainder is None else self.drift - self._gram(remainder) / (2 * self.mu)
        right = alpha - factor.apply(ahead)
        matrix = factor.sandwich(self.gram).reshape(n * k, n * k)
        matrix = matrix + 2 * self.mu * jnp.eye(n * k, dtype=matrix.dtype)
        b = solve_positive(matrix, right.reshape(-1))
        u = factor.transpose(b.reshape(n, k))
        point = 1.0, u if remainder is None else u - remainder / (2 * self.mu)
        return point, is_singular(right, b)

    def rows(self, point):
        theta, u = point
        return theta * self.drift + self._gram(u)  # J δ = θ Jh/μ + Ku

    def energy(self, point):
        # μ‖(θ−1)h/μ + Jᵀu‖² = (θ−1)²‖h‖²/μ + 2(θ−1)(Jh)ᵀu + μ uᵀKu
        theta, u = point
        away = theta - 1
        cross = jnp.sum(u * (2 * away * self.drift + self._gram(u)))
        return away**2 * (self.h @ self.h) / self.mu + self.mu * cross

    def residual(self, point, slope):
        # At θ = 1 the gradient is Jᵀ(∇Φ + 2μu): its norm, and those of its two terms, through K.
        theta, u = point
        force, proximal = slope, 2 * self.mu * u
        if self.shape[0] > self.lin.samples:
            is_sample = (jnp.arange(self.shape[0]) < self.lin.samples)[:, None]
            force, proximal = jnp.where(is_sample, slope, 0), jnp.where(is_sample, proximal, proximal + slope)
        parts = jnp.stack([force + proximal, force, proximal])
        gap, *terms = jnp.sqrt(jnp.maximum(jnp.einsum("pnk,pnk->p", parts, jax.vmap(self._gram)(parts)), 0))
        missing = 0.0 if isinstance(theta, float) else jnp.abs(theta - 1) * jnp.linalg.norm(self.h)
        return (gap + missing) / jnp.maximum(sum(terms) + missing, jnp.finfo(u.dtype).tiny)

    def weights(self, point):
        theta, u = point
        return self.lin.add_vjp((theta / self.mu) * self.h, u)

    @exact
    def _gram(self, u):
        n, k = self.shape
        return (self.gram.reshape(n * k, n * k) @ u.reshape(-1)).reshape(n, k)

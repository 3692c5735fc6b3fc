"""The paper's form, one Q×Q Cholesky: the judge of the others."""

import jax.numpy as jnp

from ...linearize.base import exact, symmetric_product
from .base import Space, is_singular
from .cholesky import solve_positive


class WeightSpace(Space):
    """(JᵀFᵀFJ + 2μI) δ = JᵀFᵀα − Jᵀr + 2h, solved as it stands. O(mQ² + Q³); a point is δ."""

    def __init__(self, lin, h, mu):
        self.lin, self.h, self.mu = lin, h, mu
        self.jacobian = lin.jacobian()

    def zero(self):
        return jnp.zeros_like(self.h)

    @exact
    def solve(self, factor, alpha, remainder):
        fj = factor.rows(self.jacobian).reshape(-1, self.h.shape[0])  # FJ  [mk, Q]
        matrix = symmetric_product(fj.T) + 2 * self.mu * jnp.eye(self.h.shape[0], dtype=self.h.dtype)
        right = fj.T @ alpha.reshape(-1) + 2 * self.h
        if remainder is not None:
            right = right - jnp.einsum("nkq,nk->q", self.jacobian, remainder)
        delta = solve_positive(matrix, right)
        return delta, is_singular(right, delta)

    @exact
    def rows(self, point):
        return self.jacobian @ point

    def energy(self, point):
        return self.mu * jnp.sum((point - self.h / self.mu) ** 2)

    @exact
    def residual(self, point, slope):
        vjp = lambda slope: jnp.einsum("nkq,nk->q", self.jacobian, slope)
        return stationarity(vjp, slope, self.lin.samples, point, self.h, self.mu)

    def weights(self, point):
        return point


def stationarity(vjp, slope, samples: int, delta, h, mu):
    """‖Jᵀ∇Φ + 2μδ − 2h‖ / (‖Jᵀ∇Φ‖ + 2μ‖δ‖ + 2‖h‖), the rows of ∇Φ that are no samples beside 2μδ; vjp is Jᵀ·."""
    norm, force, proximal = jnp.linalg.norm, slope, 2 * mu * delta
    if slope.shape[0] > samples:
        is_sample = (jnp.arange(slope.shape[0]) < samples)[:, None]
        force, proximal = jnp.where(is_sample, slope, 0), proximal + vjp(jnp.where(is_sample, 0, slope))
    force = vjp(force)
    total = norm(force) + norm(proximal) + 2 * norm(h)
    return norm(force + proximal - 2 * h) / jnp.maximum(total, jnp.finfo(delta.dtype).tiny)

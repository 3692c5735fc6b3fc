"""Preconditioned conjugate gradients on either system, for networks and batches where no matrix fits."""

import jax
import jax.numpy as jnp

from ...status import Status
from .base import Space, is_singular
from .weight_space import stationarity


class MatrixFreeSpace(Space):
    """Only products with J and Jᵀ; a point is δ. The smaller side is iterated on:

        samples   (2μI + F JJᵀ Fᵀ) b = α − FJ(h − Jᵀr/2)/μ,   δ = (h − Jᵀr/2)/μ + JᵀFᵀb
        weights   (2μI + JᵀFᵀF J) δ = JᵀFᵀα − Jᵀr + 2h

    preconditioned by the diagonal of the matrix.
    """

    limit = Status.NOT_CONVERGED

    def __init__(self, lin, h, mu, *, tolerance: float, max_iterations: int, in_samples: bool | None = None):
        self.lin, self.h, self.mu = lin, h, mu
        self.tolerance, self.max_iterations = tolerance, max_iterations
        n, k = lin.outputs.shape
        self.in_samples = n * k <= lin.size if in_samples is None else in_samples

    def zero(self):
        return jnp.zeros_like(self.h)

    def solve(self, factor, alpha, remainder):
        pull = self.h if remainder is None else self.h - self.lin.vjp(remainder) / 2
        magnitude, twice = factor.magnitude(), 2 * self.mu
        if self.in_samples:
            right = alpha - factor.apply(self.lin.jvp(pull / self.mu))
            b = self._iterate(
                lambda b: twice * b + factor.apply(self.lin.jvp(self.lin.vjp(factor.transpose(b)))),
                right,
                twice + magnitude**2 * self.lin.row_squares(),
            )
            return pull / self.mu + self.lin.vjp(factor.transpose(b)), is_singular(right, b)
        right = self.lin.vjp(factor.transpose(alpha)) + 2 * pull
        delta = self._iterate(
            lambda d: twice * d + self.lin.vjp(factor.transpose(factor.apply(self.lin.jvp(d)))),
            right,
            twice + self.lin.column_squares(magnitude),
        )
        return delta, is_singular(right, delta)

    def _iterate(self, matrix, right, diagonal):
        solution, _ = jax.scipy.sparse.linalg.cg(
            matrix, right, tol=self.tolerance, maxiter=self.max_iterations, M=lambda r: r / diagonal
        )
        return solution

    def rows(self, point):
        return self.lin.jvp(point)

    def energy(self, point):
        return self.mu * jnp.sum((point - self.h / self.mu) ** 2)

    def residual(self, point, slope):
        return stationarity(self.lin.vjp, slope, self.lin.samples, point, self.h, self.mu)

    def weights(self, point):
        return point

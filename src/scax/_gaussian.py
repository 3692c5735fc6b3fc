"""A Gaussian over weights and what it says of outputs, in NumPy: what error bars need where JAX is not installed.

precision  A = SᵀS + D,   S = √c F J the weighted rows of all data,   D = diag(N · ridge)
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """A⁻¹ in one of two forms, D = diag(1/scale²):

    "weights"  `factor` is R = L⁻¹, A = LLᵀ:                  J A⁻¹ Jᵀ = ‖R Jᵀ‖²
    "rows"     `factor` is W = L⁻¹S', LLᵀ = S'S'ᵀ + I:  J A⁻¹ Jᵀ = J'J'ᵀ − ‖W J'ᵀ‖²,   S' = S·scale, J' = J·scale
    """

    form: str
    factor: np.ndarray
    scale: np.ndarray | None = None

    def covariance(self, jacobian: np.ndarray) -> np.ndarray:
        """J A⁻¹ Jᵀ of every row: [n, k, q] → [n, k, k]."""
        n, k, q = jacobian.shape
        if self.form == "weights":
            half = (jacobian.reshape(n * k, q) @ self.factor.T).reshape(n, k, -1)
            return half @ half.transpose(0, 2, 1)
        scaled = jacobian * self.scale
        half = (scaled.reshape(n * k, q) @ self.factor.T).reshape(n, k, -1)
        return scaled @ scaled.transpose(0, 2, 1) - half @ half.transpose(0, 2, 1)

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        """[count, q] draws of N(0, A⁻¹)."""
        noise = random.standard_normal((count, self.factor.shape[1]))
        if self.form == "weights":
            return noise @ self.factor  # Rᵀε, and RᵀR = A⁻¹
        # (I − WᵀW)^½ = I − Wᵀ U diag((1 − √(1−s))/s) Uᵀ W,   WWᵀ = U diag(s) Uᵀ
        s, u = np.linalg.eigh(self.factor @ self.factor.T)
        s = np.clip(s, 0, 1)
        gain = np.where(s > 1e-12, (1 - np.sqrt(1 - s)) / np.where(s > 1e-12, s, 1), 0.5)
        along = (noise @ self.factor.T) @ u
        assert self.scale is not None
        return (noise - (along * gain) @ u.T @ self.factor) * self.scale


def interval_factors(studentized: np.ndarray, coverage: float) -> tuple[float, float]:
    """(lower, upper) multiples of the predictive std that cover the share `coverage` of studentized residuals.

    Quantiles at rank ⌈coverage (n+1)⌉ as in conformal prediction; of |r| where residuals are symmetric, of both sides
    where they are skewed (|skewness| above three of its standard errors √(6/n)). A rank beyond n takes the largest.
    """
    r = np.sort(np.asarray(studentized, float).ravel())
    n = len(r)
    centered = r - r.mean()
    skewness = np.mean(centered**3) / max(np.mean(centered**2) ** 1.5, np.finfo(float).tiny)
    if abs(skewness) <= 3 * np.sqrt(6 / n):
        q = np.sort(np.abs(r))[min(int(np.ceil(coverage * (n + 1))), n) - 1]
        return -float(q), float(q)
    rank = min(int(np.ceil((1 + coverage) / 2 * (n + 1))), n)
    return float(min(r[n - rank], 0)), float(max(r[rank - 1], 0))


def corrected_probabilities(z: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """E[p] under logits N(z, covariance): MacKay's σ(z/√(1 + πv/8)), and for several classes the same for each pair,
    p_k ∝ 1 / Σ_j exp((z_j − z_k)/√(1 + π Var(z_k − z_j)/8)), which a shift of all logits leaves alone."""
    v = np.diagonal(covariance, axis1=1, axis2=2)
    if z.shape[1] == 1:
        p = 1 / (1 + np.exp(-np.clip(z / np.sqrt(1 + np.pi / 8 * v), -500, 500)))
        return np.concatenate([1 - p, p], axis=1)
    between = np.maximum(v[:, :, None] + v[:, None, :] - 2 * covariance, 0)
    apart = (z[:, None, :] - z[:, :, None]) / np.sqrt(1 + np.pi / 8 * between)
    p = 1 / np.exp(np.clip(apart, -500, 500)).sum(axis=2)
    return p / p.sum(axis=1, keepdims=True)

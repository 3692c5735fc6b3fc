"""A Gaussian over weights and what it says of outputs, in NumPy: what error bars need where JAX is not installed.

precision  A = SᵀS + D,   S = √c F J the weighted rows of all data,   D = diag(N · ridge)
"""

import dataclasses

import numpy as np

#: Rows of R that are multiplied at once.
BLOCK = 512


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
            rows, half = jacobian.reshape(n * k, q), np.empty((n * k, q))
            for start in range(0, q, BLOCK):  # nothing is to the right of R's diagonal
                end = min(start + BLOCK, q)
                half[:, start:end] = rows[:, :end] @ self.factor[start:end, :end].T
            half = half.reshape(n, k, q)
            return half @ half.transpose(0, 2, 1)
        scaled = jacobian * self.scale
        half = (scaled.reshape(n * k, q) @ self.factor.T).reshape(n, k, -1)
        return scaled @ scaled.transpose(0, 2, 1) - half @ half.transpose(0, 2, 1)

    def variances(self) -> np.ndarray:
        """The diagonal of A⁻¹."""
        inside = np.einsum("mq,mq->q", self.factor, self.factor)
        return inside if self.scale is None else self.scale**2 * (1 - inside)

    def in_units(self, unit: np.ndarray) -> "Gaussian":
        """The same of v = unit · w: J by w is unit · J by v."""
        if self.scale is None:
            return Gaussian(self.form, self.factor * unit)
        return Gaussian(self.form, self.factor, self.scale * unit)

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


def predictive(link: str, z: np.ndarray, v: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(center, std) of y for raw outputs z ~ N(z, v).

    "identity"     y = z + ε:                  z,      Var y = σ² + v
    "exponential"  Var(y | rate) = φ · rate:   m = eᶻ, Var y = φ m + m² (eᵛ − 1)
    """
    if link == "identity":
        return z, np.sqrt(noise + v)
    rate = np.exp(np.minimum(z, 700))
    return rate, np.sqrt(noise * rate + rate**2 * np.expm1(np.minimum(v, 50)))


def dispersion(error: np.ndarray, own: np.ndarray, other: np.ndarray, weight: np.ndarray) -> float:
    """The σ² ≥ 0 at which studentized residuals have mean square 1: Σ c e²/(σ² own + other) = Σ c, by bisection."""
    square, total = weight * error**2, weight.sum()
    high = float(square.sum() / total / max(own.min(), 1e-12)) + np.finfo(float).tiny
    low = 1e-12 * high
    if np.sum(square / (low * own + other)) <= total:
        return low
    for _ in range(100):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if np.sum(square / (middle * own + other)) > total else (low, middle)
    return float(high)


@dataclasses.dataclass(frozen=True)
class Spread:
    """ln of how much larger the noise is at a row than on average: weights · (features − center)/scale + constant."""

    center: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    constant: float

    def log(self, features: np.ndarray) -> np.ndarray:
        """η [n], within e^±2."""
        return np.clip((features - self.center) / self.scale @ self.weights + self.constant, -2, 2)


#: Strengths of the ridge on a spread's weights that are tried, the parts of the rows that judge them, and the rows that
#: it takes.
RIDGES, FOLDS, LEAST_ROWS = (3.0, 10.0, 30.0, 100.0, 300.0), 5, 100


def fit_spread(features: np.ndarray, size: np.ndarray, weight: np.ndarray) -> tuple[Spread, np.ndarray] | None:
    """Where |residuals| `size` depend on the features: min_η Σ c (η + |r| e^−η) + κ/2 ‖b‖², Laplace's likelihood, which
    single large residuals do not bend; by Fisher scoring, whose matrix ΨᵀCΨ + κI is the same at every step.

    κ by cross-validation, and η of rows that took no part. None where it is not better than a constant by one standard
    error.
    """
    n = len(size)
    if n < LEAST_ROWS:
        return None
    center = np.average(features, axis=0, weights=weight)
    scale = np.sqrt(np.average((features - center) ** 2, axis=0, weights=weight)) + 1e-12
    psi, weight = (features - center) / scale, weight / weight.mean()
    size = np.maximum(size / np.average(size, weights=weight), 1e-6)
    fold = np.random.default_rng(0).permutation(n) % FOLDS

    def solve(rows: np.ndarray, ridge: float) -> tuple[np.ndarray, float]:
        p, c, r = psi[rows], weight[rows], size[rows]
        inverse = np.linalg.inv(p.T @ (c[:, None] * p) + ridge * np.eye(p.shape[1]))
        b, constant = np.zeros(p.shape[1]), 0.0
        for _ in range(20):
            eta = np.clip(p @ b + constant, -2, 2)
            pull = r * np.exp(-eta) - 1
            b = b + 0.7 * (inverse @ (p.T @ (c * pull) - ridge * b))
            constant += 0.7 * float(np.average(pull, weights=c))
        return b, constant

    def out(ridge: float) -> np.ndarray:
        eta = np.empty(n)
        for k in range(FOLDS):
            b, constant = solve(fold != k, ridge)
            eta[fold == k] = np.clip(psi[fold == k] @ b + constant, -2, 2)
        return eta

    tried = [(ridge, out(ridge)) for ridge in RIDGES]
    ridge, eta = min(tried, key=lambda pair: float(weight @ (pair[1] + size * np.exp(-pair[1]))))
    gain = weight * (size - (eta + size * np.exp(-eta)))
    if gain.mean() < gain.std() / np.sqrt(n):
        return None
    return Spread(center, scale, *solve(np.ones(n, bool), ridge)), eta


def quantile(values: np.ndarray, weight: np.ndarray, level: float) -> float:
    """The smallest value that holds the share `level` of the weight, as if one more row were beyond all others."""
    order = np.argsort(values, kind="stable")
    rows = weight.sum() ** 2 / np.sum(weight**2)
    share = np.cumsum(weight[order]) / weight.sum()
    place = np.searchsorted(share, level * (1 + 1 / rows) - 1e-12)
    return float(values[order[min(place, len(values) - 1)]])


def interval_factors(studentized: np.ndarray, coverage: float, weight: np.ndarray | None = None) -> tuple[float, float]:
    """(lower, upper) multiples of the predictive std that cover the share `coverage` of studentized residuals.

    Quantiles as in conformal prediction: of |r|, or of both sides where the rows outside lie on one side more often
    than chance has it, |n₊ − n₋| > 2√(n₊ + n₋). A rank beyond the last row takes the last.
    """
    r = np.asarray(studentized, float).ravel()
    weight = np.ones(len(r)) if weight is None else weight
    q = quantile(np.abs(r), weight, coverage)
    over, under = int(np.sum(r >= q)), int(np.sum(r <= -q))
    if abs(over - under) <= 2 * np.sqrt(over + under):
        return -q, q
    side = (1 + coverage) / 2
    return min(-quantile(-r, weight, side), 0.0), max(quantile(r, weight, side), 0.0)


def corrected_probabilities(z: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """E[p] under logits N(z, covariance): MacKay's σ(z/√(1 + πv/8)), and for several classes the same for each pair,
    p_k ∝ 1 / Σ_j exp((z_j − z_k)/√(1 + π Var(z_k − z_j)/8)), which a shift of all logits leaves alone."""
    v = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0)  # rounding may take a variance below 0
    if z.shape[1] == 1:
        p = 1 / (1 + np.exp(-np.clip(z / np.sqrt(1 + np.pi / 8 * v), -500, 500)))
        return np.concatenate([1 - p, p], axis=1)
    between = np.maximum(v[:, :, None] + v[:, None, :] - 2 * covariance, 0)
    apart = (z[:, None, :] - z[:, :, None]) / np.sqrt(1 + np.pi / 8 * between)
    p = 1 / np.exp(np.clip(apart, -500, 500)).sum(axis=2)
    return p / p.sum(axis=1, keepdims=True)


#: Shares of the logits' covariance that are tried, and the width of the prior on ln t.
SPREADS, WIDTH = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0), 0.3


def calibration(z: np.ndarray, covariance: np.ndarray, target: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """(t, κ): the factor of the logits and the share of their covariance with the least log loss on rows left out.

    A network that is too sure of its training rows shows it on others. Where logits are large, the loss's curvature is
    nearly zero and the Gaussian far too wide, which κ < 1 mends. ln t ~ N(0, 0.3²) beforehand: few rows move it little.
    """
    grid = np.linspace(-1.5, 1.5, 61)
    best = (np.inf, 1.0, 0.0)
    for spread in SPREADS:
        losses: dict[int, float] = {}

        def loss(i: int, losses: dict[int, float] = losses, spread: float = spread) -> float:
            if i not in losses:
                t = np.exp(grid[i])
                p = corrected_probabilities(t * z, spread * t**2 * covariance)
                data = -float(weight @ (target * np.log(np.maximum(p, 1e-300))).sum(axis=1))
                losses[i] = data + grid[i] ** 2 / (2 * WIDTH**2)
            return losses[i]

        place = min(range(0, len(grid), 6), key=loss)
        for step in (2, 1):
            near = [place + d * step for d in (-2, -1, 0, 1, 2) if 0 <= place + d * step < len(grid)]
            place = min(near, key=loss)
        best = min(best, (loss(place), float(np.exp(grid[place])), spread))
    return best[1], best[2]


def check_coverage(coverage: float) -> None:
    """Refuse a coverage outside (0, 1)."""
    if not (isinstance(coverage, (float, int, np.floating)) and 0 < coverage < 1):
        raise ValueError(f"coverage must lie between 0 and 1, such as 0.95, got {coverage!r}.")

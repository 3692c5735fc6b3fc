"""What a posterior answers."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.special import erf, gammaln

from .. import checks
from .._gaussian import Gaussian, calibration, check_coverage, corrected_probabilities, interval_factors, predictive
from ..losses import Huber, Logistic, Loss, Poisson, Softmax, Squared
from .jacobian import NetworkLike, of_loss


@dataclasses.dataclass(frozen=True)
class Rows:
    """The training rows, as formulas want them."""

    x: np.ndarray
    y: np.ndarray  # [n, k]
    weight: np.ndarray  # counts, [n]
    outputs: int
    scale: float = 1.0  # rows that each stands for

    @property
    def count(self) -> int:
        return len(self.x)

    def take(self, places: np.ndarray) -> "Rows":
        return dataclasses.replace(self, x=self.x[places], y=self.y[places], weight=self.weight[places])

    @property
    def total(self) -> float:
        return float(self.weight.sum()) * self.scale


@dataclasses.dataclass(frozen=True, repr=False)
class Posterior:
    """Error bars of a trained network, made by `scax.posterior`: w ~ N(ŵ, T A⁻¹).

    `effective_weights` is γ, `stationarity` what is left of the gradient at ŵ over the loss's own.

    >>> result = scax.train(scax.SCA(problem), params, (x, y), steps=200, batch_size=None)
    >>> post = scax.posterior(problem, result.params, (x, y))
    >>> post.predict_interval(x, 0.9).shape, post.effective_weights < 33
    ((40, 2), True)
    """

    jacobian: NetworkLike
    loss: Loss
    rows: Rows
    gaussian: Gaussian
    effective_weights: float
    temperature: float
    sigma: np.ndarray | None
    prior: float  # N · ridge
    log_det: float  # of A
    stationarity: float
    why: str
    flat: bool

    def __repr__(self) -> str:
        return f"Posterior({self.why}; {self.effective_weights:.1f} effective weights)"

    def explain(self) -> str:
        """The form of the posterior, and why it was taken."""
        return self.why

    @property
    def noise(self) -> float | np.ndarray:
        """σ, the standard deviation of y around f: a number, or one per output."""
        if self.sigma is None:
            raise ValueError(f"{type(self.loss).__name__} has no noise of its own: its outputs say it.")
        return float(self.sigma[0]) if len(self.sigma) == 1 else self.sigma

    def predict(self, x: Any, *, noise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(mean, std) of f at new rows, shaped as the network's outputs; `noise=True` gives the std of y."""
        mean, covariance = self._covariance(x)
        variance = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0)
        if noise:
            variance = variance + np.broadcast_to(self.noise, (self.rows.outputs,)) ** 2
        std = np.sqrt(variance)
        return (mean[:, 0], std[:, 0]) if self.flat else (mean, std)

    def predict_interval(self, x: Any, coverage: float = 0.95, *, held_out: Any = None) -> np.ndarray:
        """[n, 2] (or [n, k, 2]) bounds that hold the share `coverage` of new targets.

        f + q·s, s² = Var f + σ², q from quantiles of the studentized leave-one-out residuals of the training rows, or
        of `held_out` rows (x, y), which training has not seen. For Poisson the same of the rate, its variance as mean.
        """
        check_coverage(coverage)
        center, scale = self._predictive(*self._covariance(x))
        if held_out is None:
            r, weight = self.studentized(), self.rows.weight
        else:
            z, s = self._predictive(*self._covariance(held_out[0]))
            y = np.asarray(held_out[1], float)
            if y.size != z.size:
                raise ValueError(f"held_out has {len(z):,} rows of {z.shape[1]} output(s), and y of shape {y.shape}.")
            checks.finite("held_out's y", y, "Drop rows whose target is missing.")
            r, weight = (y.reshape(z.shape) - z) / s, None
        factors = np.array([interval_factors(r[:, k], coverage, weight) for k in range(self.rows.outputs)])
        bounds = center[:, :, None] + scale[:, :, None] * factors
        if isinstance(self.loss, Poisson):
            bounds = np.maximum(bounds, 0)
        return bounds[:, 0] if self.rows.outputs == 1 else bounds

    def predict_proba(self, x: Any) -> np.ndarray:
        """Class probabilities [n, classes], the posterior's spread of the logits averaged over."""
        if not isinstance(self.loss, (Logistic, Softmax)) or (
            isinstance(self.loss, Logistic) and self.rows.outputs > 1
        ):
            raise ValueError("predict_proba needs Softmax, or Logistic with one output: use predict.")
        z, covariance = self._covariance(x)
        t, spread = self.calibration
        return corrected_probabilities(t * z, spread * t**2 * covariance)

    @functools.cached_property
    def calibration(self) -> tuple[float, float]:
        """(t, κ): the factor of the logits and the share of their covariance that make leave-one-out log loss least."""
        return calibration(*self.leave_one_out_outputs, one_hot(self.rows.y), self.rows.weight)

    def sample(self, key: Any, n: int) -> Callable[[Any], np.ndarray]:
        """n functions drawn from the posterior: x → [n, rows] (or [n, rows, k]), f + Jδ for n draws of δ.

        >>> draws = post.sample(jax.random.key(0), 20)(x)  # doctest: +SKIP
        """
        checks.whole_number("n", n, 1)
        seed = np.asarray(jax.random.key_data(key)).ravel() if not isinstance(key, (int, np.integer)) else key
        delta = np.sqrt(self.temperature) * self.gaussian.draw(np.random.default_rng(seed), n)

        def functions(x: Any) -> np.ndarray:
            parts = [
                z + np.moveaxis(j @ delta.T, 2, 0) for _, z, j in self.jacobian.chunks(_array(x), self.rows.outputs)
            ]
            drawn = np.concatenate(parts, axis=1)
            return drawn[:, :, 0] if self.flat else drawn

        return functions

    def error_bars(self, network: Any) -> Any:
        """What a model file keeps of this posterior of a scax.MLP: `scax.save(path, net, params, posterior=post)`."""
        from .error_bars import of_posterior

        return of_posterior(self, network)

    @property
    def ridge_update(self) -> float:
        """MacKay's fixed point λ = Tγ/(N‖w‖²), which is 2σ²γ/(N‖w‖²) for Squared."""
        w = self.jacobian.w[self.jacobian.support]
        return self.temperature * self.effective_weights / (self.rows.total * max(float(w @ w), 1e-300))

    @property
    def evidence(self) -> float:
        """log p(y | x, λ), Laplace's approximation:

        −(Σ l + N·ridge·½‖w‖²)/T − log Z − ½ log det(A/T) + Q/2 log(N·ridge/T)."""
        if self.prior <= 0:
            raise ValueError("evidence needs a prior: the ridge is 0. Give the problem scax.L2(...), or ridge=.")
        w = self.jacobian.w[self.jacobian.support]
        over_prior = self.log_det - len(w) * np.log(self.prior)
        return log_evidence(self.jacobian, self.loss, self.rows, self.prior, self.temperature, over_prior)

    @property
    def leverage(self) -> np.ndarray:
        """h_i = tr(c_i H_i J_i A⁻¹ J_iᵀ) of every training row: Σ h_i = γ."""
        return np.trace(self._row_terms[2], axis1=1, axis2=2)

    def leave_one_out(self) -> np.ndarray:
        """y_i − f_i of the linearized model refitted without row i, [n, k], in closed form: e_i/(1 − h_i)."""
        return self.rows.y - self.leave_one_out_outputs[0]

    def studentized(self) -> np.ndarray:
        """Leave-one-out residuals over their own predictive std, [n, k]: e_i/(σ√(1 − h_i)) for Squared."""
        center, scale = self._predictive(*self.leave_one_out_outputs)
        return (self.rows.y - center) / scale

    # parts

    def _predictive(self, z: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(center, std) of y."""
        variance = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0)
        if isinstance(self.loss, Poisson):
            return predictive("exponential", z, variance, np.ones(self.rows.outputs))
        return predictive("identity", z, variance, np.broadcast_to(self.noise, (self.rows.outputs,)) ** 2)

    def _covariance(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """f [n, k] and its covariance T J A⁻¹ Jᵀ [n, k, k]."""
        parts = [(z, self.gaussian.covariance(j)) for _, z, j in self.jacobian.chunks(_array(x), self.rows.outputs)]
        return np.concatenate([z for z, _ in parts]), self.temperature * np.concatenate([c for _, c in parts])

    @functools.cached_property
    def _row_terms(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f, C = J_i A⁻¹ J_iᵀ and C·c_i H_i of every training row."""
        z, c = self._covariance(self.rows.x)
        c = c / self.temperature
        f = of_loss(self.loss, "factor", z, self.rows.y)
        h = f[:, :, None] ** 2 * np.eye(self.rows.outputs) if f.ndim == 2 else f.transpose(0, 2, 1) @ f
        return z, c, c @ (self.rows.weight[:, None, None] * h)

    @functools.cached_property
    def leave_one_out_outputs(self) -> tuple[np.ndarray, np.ndarray]:
        """Outputs and covariance without row i: one Newton step of the linearized model, A_−i = A − J_iᵀH_iJ_i,

        J_i A_−i⁻¹ J_iᵀ = (I − C H)⁻¹ C,     z_−i = z_i + (I − C H)⁻¹ C ∂l_i."""
        z, c, ch = self._row_terms
        left = np.eye(self.rows.outputs) - ch
        if np.min(np.linalg.det(left)) < 1e-9:
            worst = int(np.argmin(np.linalg.det(left)))
            raise ValueError(
                f"row {worst} alone determines a weight (its leverage is 1): it cannot be left out. Raise the ridge."
            )
        without = np.linalg.solve(left, c)
        slope = of_loss(self.loss, "gradient", z, self.rows.y)
        slope = self.rows.weight[:, None] * slope
        return z + np.einsum("nkl,nl->nk", without, slope), self.temperature * without


def log_evidence(jacobian: NetworkLike, loss: Loss, rows: Rows, prior: float, t: float, log_det: float) -> float:
    """−(Σ l + prior·½‖w‖²)/T − log Z − ½ `log_det`, that of A/prior."""
    values = of_loss(loss, "value", jacobian.outputs(rows.x), rows.y)
    if isinstance(loss, Squared):
        normalizer = rows.total * rows.outputs * np.log(np.pi * t) / 2  # ∫ exp(−e²/T) = √(πT)
    elif isinstance(loss, Huber):
        d = float(loss.delta)
        one = np.sqrt(2 * np.pi * t) * erf(d / np.sqrt(2 * t)) + 2 * t / d * np.exp(-(d**2) / (2 * t))
        normalizer = rows.total * rows.outputs * np.log(one)
    else:
        normalizer = float(rows.scale * rows.weight @ gammaln(rows.y + 1).sum(1)) if isinstance(loss, Poisson) else 0.0
    w = jacobian.w[jacobian.support]
    fit = -(rows.scale * rows.weight @ values + prior / 2 * (w @ w)) / t - normalizer
    return float(fit - log_det / 2)


def _array(x: Any) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim == 0 or len(x) == 0:
        raise ValueError(f"x has shape {x.shape}: give at least one row.")
    checks.finite("x", x, "Fill in or drop rows with missing values.")
    return x


def one_hot(y: np.ndarray) -> np.ndarray:
    """Targets of a loss for classes as one column per class: [n, 1] of Logistic becomes [n, 2]."""
    return y if y.shape[1] > 1 else np.hstack([1 - y, y])

"""Error bars of a run's model, and how they did on rows that it was not trained on."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..models import MLP
from ..problem import Problem
from ..storage.error_bars import ErrorBars
from ..storage.run_files import CalibrationSummary, IntervalSummary
from ..tables import Preprocess
from ..uncertainty import calibration_error, log_loss
from ..uncertainty.error_bars import MOST_ROWS, SMALL_SIDE, error_bars

#: Nominal coverages that are compared with what was covered, and the one whose bounds are shown.
LEVELS, SHOWN = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99), 0.95
BINS = 10
#: Multiply-adds that the posterior may take, some ten seconds, and rows that it is worth making of.
MOST_WORK, FEWEST_ROWS = 2e11, 100


def of_run(problem: Problem, net: MLP, params: Any, rows: Any, held_out: Any, total: int) -> ErrorBars | str:
    """From a batch of training rows and (x, y) held out; a sentence where they allow none."""
    layers = [(np.asarray(layer["weight"]), np.asarray(layer["bias"])) for layer in params]
    k = net.widths[-1]
    weights = sum(weight.size + bias.size for weight, bias in layers)
    q = weights if weights <= SMALL_SIDE else layers[-1][0].size + k
    most = min(MOST_ROWS, int(MOST_WORK / (k * q * (k + q))))
    if most < min(FEWEST_ROWS, len(rows.y)):
        return f"{k:,} outputs are too many for error bars."

    def part(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        y = np.asarray(problem.loss.targets(jnp.asarray(y), k), np.float64)
        return np.asarray(x)[:most], y[:most], np.ones(min(len(y), most))

    ridge = float(np.asarray(problem.regularizer.ridge))
    held_out = None if held_out is None else part(*held_out)
    sparse = not problem.regularizer.is_smooth
    try:
        return error_bars(
            [layers], net.activation, net.output, 0.0, problem.loss, ridge, part(rows.x, rows.y), held_out,
            total=total, sparse=sparse,
        )  # fmt: skip
    except ValueError as error:
        return str(error)


def intervals(bars: ErrorBars, preprocess: Preprocess, x: np.ndarray, y: np.ndarray, shown: int) -> IntervalSummary:
    """Coverage of intervals on these rows; bounds of the first `shown` in the target's units."""
    covered = []
    for level in LEVELS:
        low, high = np.moveaxis(bars.interval(x, level)[:, 0], 1, 0)
        covered.append(float(np.mean((low <= y) & (y <= high))))
    low, high = (preprocess.restore(end) for end in np.moveaxis(bars.interval(x, SHOWN)[:, 0], 1, 0))
    return {
        "rows": len(y),
        "levels": list(LEVELS),
        "covered": covered,
        "width": float(np.mean(high - low)),
        "lower": np.round(low[:shown].astype(float), 6).tolist(),
        "upper": np.round(high[:shown].astype(float), 6).tolist(),
    }


def calibration(bars: ErrorBars, plain: np.ndarray, x: np.ndarray, y: np.ndarray) -> CalibrationSummary:
    """Log loss and calibration error of probabilities, as the network gives them and corrected."""
    labels, corrected = y.astype(int).ravel(), bars.probabilities(x)
    both = (plain, corrected)
    return {
        "rows": len(labels),
        "log_loss": [log_loss(p, labels) for p in both],
        "error": [calibration_error(p, labels) for p in both],
        "bins": [_bins(p, labels) for p in both],
    }


def _bins(p: np.ndarray, labels: np.ndarray) -> list[list[float]]:
    """[mean confidence, share right, rows] for every bin of the confidence that has rows."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return [
        [float(confidence[place == b].mean()), float(right[place == b].mean()), float(np.sum(place == b))]
        for b in range(BINS)
        if np.any(place == b)
    ]

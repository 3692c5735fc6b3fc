"""What a model is worth on rows with a known target: its scores, and the columns that they rest on. NumPy alone."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..storage.network import LINKS
from ..tables import Preprocess
from ..training.importance import permutation_importance
from ..training.scores import class_scores, number_scores

ROWS = 2000  # on which the importance of columns is measured
COLUMNS = 500  # of more, it is not measured
SIDE = 2000  # of the largest system that is solved for a linear model
NUMBERS = 1 << 24  # of encoded rows that it is made of at most, beyond so many rows


def scores(preprocess: Preprocess, z: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """R², MAE, RMSE, …, or accuracy, log loss, AUC, …, of raw outputs z [n, k] against encoded targets y [n]."""
    classes = preprocess.schema.target.classes
    if not classes:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows shows in the scores
            return number_scores(preprocess.restore(z), preprocess.restore(y))
    return class_scores(probabilities(z), y.astype(int), [str(c) for c in classes])


def linear_scores(
    preprocess: Preprocess, rows: tuple[np.ndarray, np.ndarray], x: np.ndarray, y: np.ndarray
) -> dict[str, Any] | None:
    """What a linear model of the training rows, with a slight ridge, scores on rows (x, y); None for classes."""
    if preprocess.schema.target.classes:
        return None
    width = rows[0].shape[1]
    few = slice(max(SIDE, NUMBERS // width) if width <= SIDE else SIDE)
    a, b = (np.array(part[few], float) for part in rows)
    mean, b = a.mean(axis=0), b.reshape(len(b), -1)
    a -= mean
    ridge, goal = 1e-6 * len(a), b - b.mean(axis=0)
    if width <= len(a):
        weights = np.linalg.solve(a.T @ a + ridge * np.eye(width), a.T @ goal)
    else:
        weights = a.T @ np.linalg.solve(a @ a.T + ridge * np.eye(len(a)), goal)
    return scores(preprocess, (np.asarray(x, float) - mean) @ weights + b.mean(axis=0), y)


def importance(
    preprocess: Preprocess, outputs: Callable[[np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray
) -> list[dict[str, Any]]:
    """[{"column", "rise"}], the largest first: how much the RMSE, or the log loss, rises without the column.

    Empty where there are more than `COLUMNS` columns, or a single row.
    """
    used = preprocess.schema.used
    if len(used) > COLUMNS or len(x) < 2:
        return []
    x, y, name = x[:ROWS], y[:ROWS], "log loss" if preprocess.schema.target.classes else "RMSE"
    ends = itertools.pairwise(itertools.accumulate((c.width for c in used), initial=0))
    rise = permutation_importance(
        lambda rows: float(scores(preprocess, outputs(rows), y)[name]), x, [slice(a, b) for a, b in ends]
    )
    order = np.argsort(-rise, kind="stable")
    return [{"column": used[i].name, "rise": float(rise[i])} for i in order]


def probabilities(z: np.ndarray) -> np.ndarray:
    """p [n, classes] of raw outputs: one output stands for two classes."""
    if z.shape[1] > 1:
        return LINKS["softmax"](z)
    p = LINKS["logistic"](z)
    return np.concatenate([1 - p, p], axis=1)

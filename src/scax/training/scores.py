"""Test scores of raw network outputs, by kind of task. NumPy alone."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Score:
    """A score's short name, and whether larger is better."""

    name: str
    larger_is_better: bool


SCORES = {
    "regression": Score("RMSE", False),
    "binary": Score("AUC", True),
    "multiclass": Score("accuracy", True),
}


def score(task: str, z: np.ndarray, y: np.ndarray, unit: float = 1.0) -> float:
    """The task's score of outputs z [n, k] against targets y; `unit` turns standardized targets into the table's."""
    if task == "regression":
        return float(unit * np.sqrt(np.mean((z - y.reshape(z.shape)) ** 2)))
    if task == "binary":
        return auc(z.ravel(), y.ravel())
    return float(np.mean(np.argmax(z, axis=1) == y))


def one_class(task: str, y: Any) -> bool:
    """Whether these targets of a task with two classes are all of one: then there are no pairs, and no AUC."""
    return task == "binary" and len(np.unique(np.asarray(y) > 0.5)) < 2


def auc(z: np.ndarray, y: np.ndarray) -> float:
    """Area under the ROC curve: the share of (positive, negative) pairs in the right order, ties counting half."""
    positive = y > 0.5
    p, n = int(positive.sum()), int((~positive).sum())
    if p == 0 or n == 0 or not np.all(np.isfinite(z)):
        return float("nan")
    _, inverse, counts = np.unique(z, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[positive].sum() - p * (p + 1) / 2) / (p * n))


def roc(z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(false positive rate, true positive rate), one point per distinct threshold, from (0, 0) to (1, 1)."""
    order = np.argsort(-z, kind="stable")
    hits = (y[order] > 0.5).astype(float)
    last = np.append(np.diff(z[order]) != 0, True)
    tp, fp = np.cumsum(hits)[last], np.cumsum(1 - hits)[last]
    return np.concatenate([[0], fp / max(fp[-1], 1)]), np.concatenate([[0], tp / max(tp[-1], 1)])

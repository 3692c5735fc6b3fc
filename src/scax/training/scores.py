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


def number_scores(predicted: np.ndarray, truth: np.ndarray) -> dict[str, float | None]:
    """R², MAE, RMSE of predictions [n], and the RMSE of predicting the mean of the truth for every row."""
    error = predicted - truth
    rmse, mean_rmse = float(np.sqrt(np.mean(error**2))), float(np.std(truth))
    return {
        "R²": 1 - (rmse / mean_rmse) ** 2 if mean_rmse > 0 else None,
        "MAE": float(np.mean(np.abs(error))),
        "RMSE": rmse,
        "RMSE of the mean": mean_rmse,
    }


def class_scores(p: np.ndarray, truth: np.ndarray, names: list[str]) -> dict[str, Any]:
    """Scores of probabilities p [n, classes] against class indices [n]; None where a score does not exist.

    Balanced accuracy is the mean recall of the classes that occur. "largest class" is the accuracy of always naming it.
    """
    best, rows = p.argmax(axis=1), np.bincount(truth, minlength=len(names))
    named, right = np.bincount(best, minlength=len(names)), np.bincount(truth[best == truth], minlength=len(names))
    recall = [int(r) / int(n) if n else None for r, n in zip(right, rows, strict=True)]
    precision = [int(r) / int(n) if n else None for r, n in zip(right, named, strict=True)]
    tiny = np.finfo(float).eps  # as scikit-learn clips: a probability of 0 must not cost infinitely much
    picked = np.clip(p[np.arange(len(p)), truth].astype(float), tiny, 1.0)
    scores: dict[str, Any] = {
        "accuracy": float(np.mean(best == truth)),
        "balanced accuracy": float(np.mean([r for r in recall if r is not None])),
        "log loss": float(-np.mean(np.log(picked))),
    }
    if len(names) == 2:
        area = auc(p[:, 1], truth)
        scores["AUC"] = None if np.isnan(area) else area
    scores["largest class"] = float(rows.max() / len(truth))
    parts = zip(names, rows.tolist(), recall, precision, strict=True)
    scores["classes"] = [{"class": c, "rows": n, "recall": r, "precision": q} for c, n, r, q in parts]
    return scores

"""Data sets that come with scikit-learn: there without a network."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .._extras import required_by


@dataclasses.dataclass(frozen=True)
class Arrays:
    """Inputs x [n, d] and targets: numbers for regression, class indices 0, 1, … else."""

    name: str
    x: np.ndarray
    y: np.ndarray
    target: str
    task: str  # "regression", "binary" or "multiclass"
    classes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Bundled:
    """A bundled data set before it is loaded."""

    about: str
    rows: int
    columns: int
    task: str
    target: str
    load: Callable[[], Any]


def _sklearn(name: str, **options) -> Callable[[], Any]:
    def load():
        with required_by("The bundled data set"):
            from sklearn import datasets

        return getattr(datasets, f"load_{name}")(**options)

    return load


BUNDLED = {
    "diabetes": Bundled(
        "disease progression a year after ten measurements", 442, 10, "regression", "progression",
        _sklearn("diabetes", scaled=False),
    ),
    "breast-cancer": Bundled(
        "benign or malignant, from cell nuclei", 569, 30, "binary", "diagnosis", _sklearn("breast_cancer")
    ),
    "digits": Bundled("handwritten digits, 8×8 pixels", 1797, 64, "multiclass", "digit", _sklearn("digits")),
    "iris": Bundled("three species of iris", 150, 4, "multiclass", "species", _sklearn("iris")),
    "wine": Bundled("three cultivars, by chemical analysis", 178, 13, "multiclass", "cultivar", _sklearn("wine")),
}  # fmt: skip


def bundled(name: str) -> Arrays:
    """Load a bundled data set."""
    about = BUNDLED[name]
    found = about.load()
    classes = () if about.task == "regression" else tuple(str(c) for c in found.target_names)
    y = found.target.astype(float if about.task == "regression" else int)
    return Arrays(name, np.asarray(found.data, float), y, about.target, about.task, classes)

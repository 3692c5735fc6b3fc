"""A results.json made up for tests: no training."""

from typing import Any

import numpy as np


def results(
    task: str = "regression", methods=("sca", "sgd", "adam"), repeats: int = 3, seed: int = 0
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    ends = [1, 2, 4, 8, 16, 32]
    n, k = 40, 3 if task == "multiclass" else 1
    truth = {"regression": rng.normal(size=n), "binary": rng.integers(0, 2, n), "multiclass": rng.integers(0, 3, n)}[
        task
    ]

    def method(i: int, name: str) -> dict[str, Any]:
        objective = [[float(2 / (e + 1 + r) + 0.1 * i) for e in ends] for r in range(repeats)]
        curves: dict[str, Any] = {"objective": objective, "score": [[0.5 + 0.01 * e for e in ends] for _ in objective]}
        if name == "sca":
            curves |= {"damping": [[0.03] * len(ends)] * repeats, "accepted": [[1.0] * len(ends)] * repeats}
        chosen = None if name == "sca" else {"rate": 0.1, "decay": "cosine", "at_edge": False}
        return {
            "label": name.upper(),
            "setting": chosen,
            "tried": [] if name == "sca" else [{"rate": 0.1, "decay": "cosine", "objective": 1.0}] * 4,
            "objective": [c[-1] for c in objective],
            "score": [0.8 + 0.01 * r for r in range(repeats)],
            "curves": curves,
            "outputs": rng.normal(size=(n, k)).tolist(),
            "seconds_per_step": 1e-5 * (i + 1),
        }

    score = {"regression": "RMSE", "binary": "AUC", "multiclass": "accuracy"}[task]
    return {
        "format": 1,
        "kind": "compare",
        "command": "scax compare made-up --steps 32",
        "dataset": {"name": "made-up", "target": "y", "rows": 160, "columns": 5, "classes": ["a", "b", "c"]},
        "settings": {
            "methods": list(methods), "hidden": [4], "activation": "tanh", "l2": 0.01, "steps": 32, "batch_size": 20,
            "repeats": repeats, "seed": 0,
        },
        "environment": {
            "packages": {"scax": "0.1.0", "jax": "0.10.2"}, "python": "3.11", "system": "Linux x86_64",
            "devices": ["1 × cpu"], "cores": 2, "float64": False,
        },
        "task": task,
        "one_class": [],
        "score": {"name": score, "larger_is_better": task != "regression"},
        "network": [5, 4, k],
        "weights": 29,
        "rows": {"train": 120, "test": n},
        "ends": ends,
        "loss": "Squared",
        "grid": {"rates": [0.1, 0.01], "decays": ["constant", "cosine"]},
        "truth": np.asarray(truth, float).tolist(),
        "methods": {name: method(i, name) for i, name in enumerate(methods)},
    }  # fmt: skip

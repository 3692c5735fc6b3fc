"""Scores of a linear model beside the network's."""

import time

import numpy as np

from scax.runs import scoring
from scax.tables import Preprocess


def _table(rows: int, columns: int, seed: int = 0) -> tuple[Preprocess, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    y = (x[:, 0] - x[:, 1] + 0.1 * rng.normal(size=rows)).astype(np.float32)
    return Preprocess.fit({"a": x[:, 0], "y": y}, "y"), x, y


def test_more_inputs_than_rows_take_the_system_of_the_rows(monkeypatch):
    pre, x, y = _table(40, 30)
    a, b = x.astype(float) - x.mean(axis=0, dtype=float), y - y.mean(dtype=float)
    few = slice(20)
    weights = np.linalg.solve(a.T @ a + 1e-6 * 40 * np.eye(30), a.T @ b)
    wanted = scoring.scores(pre, (a @ weights + y.mean(dtype=float))[few, None], y[few])
    found = scoring.linear_scores(pre, (x, y), x[few], y[few])
    assert found is not None
    np.testing.assert_allclose(found["RMSE"], wanted["RMSE"], rtol=1e-6)
    wide, narrow = (scoring.linear_scores(pre, (part[few], y[few]), part, y) for part in (x, x[:, :15]))
    assert wide is not None
    assert narrow is not None
    assert narrow["R²"] > 0.9 > wide["R²"] > 0
    monkeypatch.setattr(scoring, "SIDE", 25)  # 30 inputs are too many for all rows: the first 25 alone
    some = scoring.linear_scores(pre, (x, y), x[few], y[few])
    assert some == scoring.linear_scores(pre, (x[:25], y[:25]), x[few], y[few])


def test_a_hundred_thousand_inputs_take_no_square():
    pre, x, y = _table(60, 100_000)
    began = time.process_time()
    found = scoring.linear_scores(pre, (x[:40], y[:40]), x[40:], y[40:])
    assert found is not None
    assert np.isfinite(found["RMSE"])
    assert time.process_time() - began < 5

"""Scores in NumPy agree with scikit-learn's, ties included; they run where scikit-learn is not installed."""

import numpy as np
import pytest
from sklearn import metrics

from scax.training.scores import auc, roc, score


@pytest.mark.parametrize("digits", [0, 1, 6])
def test_ranks(digits):
    rng = np.random.default_rng(digits)
    z, y = np.round(rng.normal(size=200), digits), rng.integers(0, 2, 200).astype(float)
    assert auc(z, y) == pytest.approx(metrics.roc_auc_score(y, z), rel=1e-12)
    false, true, _ = metrics.roc_curve(y, z, drop_intermediate=False)
    np.testing.assert_allclose(roc(z, y), (false, true), rtol=1e-12)


def test_errors_and_shares():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    assert score("regression", z, y, 2.0) == pytest.approx(2 * np.sqrt(metrics.mean_squared_error(y, z)))
    classes = rng.integers(0, 3, 50)
    assert score("multiclass", z, classes) == metrics.accuracy_score(classes, np.argmax(z, axis=1))
    assert np.isnan(auc(z[:, 0], np.ones(50)))

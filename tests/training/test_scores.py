"""Scores in NumPy agree with scikit-learn's, ties included; they run where scikit-learn is not installed."""

import numpy as np
import pytest
from sklearn import metrics

from scax.training.scores import auc, class_scores, number_scores, roc, score


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


def test_scores_of_a_model_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 200)
    p = rng.dirichlet(np.ones(3), 200)
    names = ["a", "b", "never"]
    truth[truth == 2] = 0
    found = class_scores(p, truth, names)
    best = p.argmax(axis=1)
    np.testing.assert_allclose(found["accuracy"], metrics.accuracy_score(truth, best))
    np.testing.assert_allclose(found["log loss"], metrics.log_loss(truth, p, labels=[0, 1, 2]))
    recall = metrics.recall_score(truth, best, average=None, labels=[0, 1])
    np.testing.assert_allclose(found["balanced accuracy"], recall.mean())
    np.testing.assert_allclose([c["recall"] for c in found["classes"][:2]], recall)
    assert found["classes"][2] == {"class": "never", "rows": 0, "recall": None, "precision": 0.0}
    assert found["largest class"] == max(np.mean(truth == 0), np.mean(truth == 1))
    y, z = rng.normal(size=50), rng.normal(size=50)
    numbers = number_scores(z, y)
    np.testing.assert_allclose(numbers["R²"], metrics.r2_score(y, z))
    np.testing.assert_allclose(numbers["MAE"], metrics.mean_absolute_error(y, z))
    np.testing.assert_allclose(numbers["RMSE of the mean"], y.std())
    assert number_scores(z, np.ones(50))["R²"] is None

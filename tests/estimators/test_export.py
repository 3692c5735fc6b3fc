"""A fitted estimator as a model file predicts what the estimator predicts."""

import numpy as np
import polars
import pytest

import scax
from scax.estimators import SCAClassifier, SCARegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SMALL = {"hidden_layer_sizes": 4, "alpha": 1e-3, "max_iter": 5, "n_members": 2, "random_state": 0, "numbers": "both"}


def _frame(rows=150):
    random = np.random.default_rng(0)
    size = np.where(random.random(rows) < 0.1, np.nan, random.standard_t(1, rows))
    color = random.choice(["red", "green", "blue"], rows)
    days = np.datetime64("2024-01-01T00:00:00.000") + 7 * np.arange(rows) * np.timedelta64(3600_000, "ms")
    frame = polars.DataFrame({"size": size, "color": color, "same": np.ones(rows), "day": days})
    return frame, np.nan_to_num(np.tanh(size)) + (color == "red")


def test_regression_with_columns_of_all_kinds(tmp_path):
    frame, y = _frame()
    for options in ({}, {"loss": "poisson"}):
        fitted = SCARegressor(**SMALL, **options).fit(frame, y + 1)
        fitted.to_model("price").save(tmp_path / "m.scax")
        model = scax.load(tmp_path / "m.scax")
        assert model.preprocess.schema.target.name == "price"
        np.testing.assert_allclose(model.predict(frame), fitted.predict(frame), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 5, 9]])
def test_classes_of_arrays(tmp_path, labels):
    frame, y = _frame()
    x, names = frame["size"].to_numpy()[:, None], np.array(labels)[np.argsort(np.argsort(y)) * len(labels) // len(y)]
    fitted = SCAClassifier(**SMALL).fit(x, names)
    fitted.to_model().save(tmp_path / "m.scax")
    model = scax.load(tmp_path / "m.scax")
    assert model.predict(x).tolist() == fitted.predict(x).tolist()
    np.testing.assert_allclose(model.predict_proba(x), fitted.predict_proba(x), atol=1e-5)


def test_what_a_model_file_cannot_hold_is_said():
    x = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match="2 outputs"):
        SCARegressor(**SMALL).fit(x, x).to_model()

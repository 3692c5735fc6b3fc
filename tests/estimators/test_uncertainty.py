"""Error bars of the estimators: in closed form for a linear model, in the data's units for every loss."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, make_moons
from sklearn.exceptions import NotFittedError

from scax.estimators import SCAClassifier, SCARegressor
from scax.storage.error_bars import ErrorBars, NetworkJacobian

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SMALL = {"hidden_layer_sizes": 4, "alpha": 1e-2, "max_iter": 20, "random_state": 0, "n_members": 2}


@pytest.fixture(scope="module")
def table():
    X, y = load_diabetes(return_X_y=True)
    return X[:120], y[:120]


@pytest.fixture(scope="module")
def model(table):
    return SCARegressor(**SMALL).fit(*table)


@pytest.mark.parametrize(
    "ask",
    [lambda: SCARegressor().predict_interval([[1.0]]), lambda: SCAClassifier().predict_proba([[1.0]], calibrated=True)],
)
def test_before_a_fit_there_are_no_bars(ask):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        ask()


def test_a_line_has_the_bars_of_ridge_regression(table):
    X, y = table
    line = SCARegressor((), alpha=1e-2, n_members=1, random_state=0).fit(X, y)
    design = np.column_stack([np.ones(len(X)), (X - X.mean(0)) / X.std(0)])
    inverse = np.linalg.inv(design.T @ design + len(X) * 1e-2 / 2 * np.eye(11))
    leverage = np.einsum("nq,qr,nr->n", design, inverse, design)
    noise = np.mean((y - line.predict(X)) ** 2 / (1 - leverage))
    mean, std = line.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, line.predict(X))
    np.testing.assert_allclose(std, np.sqrt(noise * (1 + leverage)), rtol=1e-6)


def test_intervals_are_in_the_units_of_the_target_and_survive_pickling(table, model):
    X, y = table
    bounds = model.predict_interval(X, 0.9)
    assert bounds.shape == (120, 2)
    assert 0.85 <= np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1])) <= 0.99
    assert np.all(model.predict_interval(X, 0.5)[:, 0] >= bounds[:, 0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_interval(X, 0.9), bounds)
    # members that disagree count: far away the bars are wider
    assert model.predict(10 * X, return_std=True)[1].mean() > 1.05 * model.predict(X, return_std=True)[1].mean()


@pytest.mark.parametrize("options", [{}, {"loss": "poisson"}, {"early_stopping": True}])
def test_intervals_are_around_what_is_predicted(options):
    """From 1,000 rows on the networks that predict are trained on rows that calibrate the intervals, too."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (3000, 2))
    y = random.poisson(np.exp(1 + np.sin(3 * X[:, 0]) + X[:, 1])).astype(float)
    model = SCARegressor(8, alpha=1e-3, max_iter=8, n_members=2, random_state=0, **options).fit(X[:1200], y[:1200])
    new, std = X[1200:], model.predict(X[1200:], return_std=True)[1]
    bounds = model.predict_interval(new, 0.9)
    inside = (bounds[:, 0] > 0) & (std > 0)  # bounds of counts end at zero
    low, high = ((bounds[:, i] - model.predict(new)) / std for i in (0, 1))
    assert inside.sum() > 200
    np.testing.assert_allclose(low[inside], low[inside].mean(), rtol=1e-4)  # the same quantile everywhere
    np.testing.assert_allclose(high[inside], high[inside].mean(), rtol=1e-4)
    covered = np.mean((bounds[:, 0] <= y[1200:]) & (y[1200:] <= bounds[:, 1]))
    assert 0.87 < covered < 0.93


def test_corrected_probabilities_are_those_of_the_networks_that_predict():
    X, labels = make_moons(3000, noise=0.3, random_state=0)
    model = SCAClassifier(8, alpha=1e-3, max_iter=8, n_members=2, random_state=0).fit(X[:1200], labels[:1200])
    assert not np.array_equal(model._members[0][0][0], model._judged[0][0][0])
    # two classes: any correction leaves the sides of one half as they are
    corrected = model.predict_proba(X[1200:], calibrated=True)
    np.testing.assert_array_equal(corrected.argmax(axis=1), model.predict(X[1200:]))


def test_bars_are_wider_where_noise_is_larger():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (400, 2))
    y = X[:, 1] + np.where(X[:, 0] > 0, 1.0, 0.1) * random.standard_normal(400)
    model = SCARegressor(**SMALL).fit(X, y)
    std = model.predict(np.array([[-0.7, 0.0], [0.7, 0.0]]), return_std=True)[1]
    assert std[1] > 3 * std[0]
    description, arrays = model.error_bars_.to_arrays()
    back = ErrorBars.from_arrays(description, arrays)
    np.testing.assert_allclose(back.interval(X, 0.9), model.error_bars_.interval(X, 0.9), rtol=1e-4, atol=1e-4)


def test_rows_held_out_calibrate_where_there_are_any(table):
    X, y = table
    held = SCARegressor(early_stopping=True, validation_fraction=0.3, **SMALL).fit(X, y)
    bars = held.error_bars_
    assert len(bars.studentized) == 36
    np.testing.assert_allclose(np.mean(bars.studentized**2), 1, rtol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_every_loss_has_intervals_of_several_outputs(table, loss):
    X, y = table
    counts = np.round(np.column_stack([y, y[::-1]]) / 20)
    model = SCARegressor(loss=loss, **SMALL).fit(X, counts)
    bounds = model.predict_interval(X, 0.9)
    assert bounds.shape == (120, 2, 2)
    inside = (bounds[:, :, 0] <= counts) & (counts <= bounds[:, :, 1])
    assert np.all(inside.mean(axis=0) > 0.88)  # trained on them: more than 0.9, but not all
    assert not np.all(inside)
    assert loss == "huber" or bounds.min() >= 0


def test_corrected_probabilities_are_probabilities_near_the_plain_ones():
    X, y = load_iris(return_X_y=True)
    model = SCAClassifier(**SMALL).fit(X, y)
    plain, corrected = model.predict_proba(X), model.predict_proba(X, calibrated=True)
    np.testing.assert_allclose(corrected.sum(axis=1), 1)
    assert not np.array_equal(plain, corrected)
    loss = lambda p: -np.mean(np.log(p[np.arange(len(y)), y]))
    assert loss(corrected) < loss(plain) + 0.02


def test_bad_input_is_a_sentence(table, model):
    X, y = table
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.predict_interval(X, 95)
    with pytest.raises(ValueError, match="partial_fit keeps none"):
        SCARegressor(**SMALL).partial_fit(X, y).predict(X, return_std=True)
    with pytest.raises(ValueError, match="at least two different rows"):
        SCARegressor(**SMALL).fit(X[[0, 0]], y[[0, 0]]).predict_interval(X)
    with pytest.raises(ValueError, match="20 rows do not determine 49 weights"):
        SCARegressor(**SMALL | {"alpha": 0}).fit(X[:20], y[:20]).predict_interval(X)
    assert np.isfinite(SCARegressor(**SMALL | {"alpha": 0}).fit(X, y).predict_interval(X)).all()


def test_a_network_without_weights_has_the_noise_alone(table):
    X, y = table
    model = SCARegressor(**SMALL | {"penalty": "l1", "alpha": 100.0}).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, y.mean())
    np.testing.assert_allclose(std, y.std(), rtol=0.02)  # each row's residual is from the mean of other rows
    description, arrays = model.error_bars_.to_arrays()
    np.testing.assert_array_equal(
        ErrorBars.from_arrays(description, arrays).predict(X)[1], model.error_bars_.predict(X)[1]
    )


def test_the_evidence_finds_the_curve_where_a_strong_penalty_is_a_line(table):
    X, labels = make_moons(1200, noise=0.3, random_state=0)
    model = SCAClassifier(8, alpha="evidence", random_state=0, n_members=4).fit(X[:200], labels[:200])
    assert 1e-4 < model.alpha_ < 1e-2
    assert model.score(X[200:], labels[200:]) > 0.88  # a line: 0.85
    # targets of noise alone: the stronger the better
    X, y = table
    noise = SCARegressor(**SMALL | {"alpha": "evidence"}).fit(X, np.random.default_rng(0).permutation(y))
    assert noise.alpha_ > 0.1


def test_auto_is_the_evidence_for_regressions_on_few_rows():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (90, 2))
    y = np.sin(3 * X[:, 0])
    options = {"hidden_layer_sizes": 4, "max_iter": 5, "n_members": 1, "random_state": 0}
    fit = lambda rows=90, **more: SCARegressor(**options, **more).fit(X[:rows], y[:rows])
    by_default = fit()
    np.testing.assert_array_equal(by_default.relevance_, fit(alpha="evidence").relevance_)
    assert by_default.relevance_[0] > by_default.relevance_[1]
    for other in (fit(39), fit(loss="huber"), fit(numbers="bins"), fit(early_stopping=True), fit(alpha="held_out")):
        np.testing.assert_array_equal(other.relevance_, 1)
    for weight in (np.where(np.arange(90) < 39, 1.0, 0.0), np.full(90, 1 / 90), np.full(90, 100.0)):
        few = SCARegressor(**options).fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(few.relevance_, 1)


def test_a_constant_column_is_not_needed():
    random = np.random.default_rng(0)
    X = np.c_[random.uniform(-1, 1, (90, 1)), np.ones(90)]
    model = SCARegressor(4, n_members=1, random_state=0).fit(X, np.sin(3 * X[:, 0]))
    assert model.relevance_[1] <= 0.01 < 0.1 < model.relevance_[0]


def test_a_strength_that_is_given_is_that_of_every_column():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (90, 2))
    model = SCARegressor(4, n_members=1, random_state=0, warm_start=True, max_iter=20).fit(X, np.sin(3 * X[:, 0]))
    assert model.relevance_[0] != 1
    before = model.predict(X)
    model.set_params(alpha=model.alpha_, max_iter=1).fit(X, np.sin(3 * X[:, 0]))
    np.testing.assert_array_equal(model.relevance_, 1)
    np.testing.assert_allclose(model.predict(X), before, atol=0.3)


def test_the_evidence_tells_which_columns_matter():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (450, 6))
    curve = np.sin(3 * X[:, 1]) + X[:, 4] ** 2
    y, new = curve + 0.2 * random.standard_normal(450), slice(150, None)
    models = [
        SCARegressor(16, alpha=alpha, random_state=0, n_members=4).fit(X[:150], y[:150])
        for alpha in ("auto", "held_out")
    ]
    relevance = models[0].relevance_
    assert relevance[[1, 4]].min() > 4 * np.delete(relevance, [1, 4]).max()
    np.testing.assert_array_equal(models[1].relevance_, 1)
    error = [np.mean((model.predict(X[new]) - curve[new]) ** 2) for model in models]
    assert error[0] < 0.7 * error[1]
    bounds = pickle.loads(pickle.dumps(models[0])).predict_interval(X[new], 0.9)
    assert 0.85 < np.mean((bounds[:, 0] <= y[new]) & (y[new] <= bounds[:, 1])) < 0.95


def test_the_evidence_of_many_outputs_stays_small_or_is_refused(monkeypatch):
    """Its matrix has a row for every row and output: with 1,000 outputs of 128 rows it would take 131 GB."""
    random = np.random.default_rng(0)
    X, sides = random.standard_normal((200, 3)), []
    gram = NetworkJacobian.gram
    monkeypatch.setattr(
        NetworkJacobian, "gram", lambda self, x: sides.append(len(x) * len(self.offset)) or gram(self, x)
    )
    quick = SMALL | {"alpha": "evidence", "max_iter": 2}
    SCARegressor(**quick).fit(X, random.standard_normal((200, 40)))
    assert 1000 < max(sides) <= 1280
    with pytest.raises(ValueError, match=r"at most 40 outputs.*has 1,000: use alpha='auto'"):
        SCARegressor(**quick).fit(X, random.standard_normal((200, 1000)))
    with pytest.raises(ValueError, match="at most 40 outputs"):
        SCAClassifier(**quick).fit(X, np.arange(200) % 50)


def test_a_line_by_evidence_has_the_bars_of_ridge_regression_with_a_strength_for_every_column():
    random = np.random.default_rng(0)
    X = random.standard_normal((80, 3))
    y = X @ [1.0, 0.0, 0.2] + 0.5 * random.standard_normal(80)
    line = SCARegressor((), alpha="evidence", n_members=1, random_state=0, tol=1e-8, max_iter=400, batch_size=80).fit(
        X, y
    )
    assert line.relevance_[1] < 0.5 * line.relevance_[0]
    design = np.column_stack([np.ones(80), (X - X.mean(0)) / X.std(0)])
    strengths = line.alpha_ / np.append(1, line.relevance_) ** 2
    inverse = np.linalg.inv(design.T @ design + 80 / 2 * np.diag(strengths))
    np.testing.assert_allclose(line.predict(X) - y.mean(), (design @ inverse @ design.T @ (y - y.mean())), atol=2e-3)
    leverage = np.einsum("nq,qr,nr->n", design, inverse, design)
    noise = np.mean((y - line.predict(X)) ** 2 / (1 - leverage))
    np.testing.assert_allclose(line.predict(X, return_std=True)[1], np.sqrt(noise * (1 + leverage)), rtol=1e-5)

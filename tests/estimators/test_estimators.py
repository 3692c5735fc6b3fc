"""What the estimators do beyond scikit-learn's own checks."""

import pickle
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_linnerud
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scax
from scax.estimators import SCAClassifier, SCARegressor
from scax.models.compact import weights_used

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SMALL = {"hidden_layer_sizes": 4, "alpha": 1e-2, "max_iter": 20, "random_state": 0}


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_defaults_beat_a_constant_and_a_line_has_no_hidden_layer(diabetes):
    assert SCARegressor(random_state=0).fit(*diabetes).score(*diabetes) > 0.5
    line = SCARegressor((), alpha=0.0, random_state=0).fit(*diabetes)
    assert [w.shape for w in line.coefs_] == [(10, 1)]
    np.testing.assert_allclose(line.score(*diabetes), 0.51775, atol=2e-3)  # least squares


def test_units_do_not_matter(diabetes):
    x, y = diabetes
    units = 10.0 ** np.arange(-5, 5)
    model = SCARegressor(**SMALL, batch_size=len(x))  # all rows at once: their order depends on the numbers
    plain = clone(model).fit(x, y).predict(x)
    other = clone(model).fit(x * units + units, 1e4 * y - 7).predict(x * units + units)
    np.testing.assert_allclose((other + 7) / 1e4, plain, rtol=1e-6)


def test_standardize_off_trains_on_the_data_as_given(diabetes):
    x, y = diabetes
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    raw = SCARegressor(**SMALL, standardize=False).fit(x, y)
    np.testing.assert_allclose(raw.predict(x), SCARegressor(**SMALL).fit(x, y).predict(x), rtol=1e-5, atol=1e-7)
    assert not np.allclose(raw.set_params(standardize=True).fit(1 + 9 * x, y).predict(1 + 9 * x), 0)


@pytest.mark.parametrize("batch_size", ["auto", 16])
def test_weights_are_repetitions_to_the_bit(iris, batch_size):
    x, y = iris
    times = np.random.RandomState(0).randint(0, 3, len(x))
    weighted = SCAClassifier(**SMALL, batch_size=batch_size).fit(x, y, sample_weight=times)
    repeated = SCAClassifier(**SMALL, batch_size=batch_size).fit(x.repeat(times, axis=0), y.repeat(times))
    for a, b in zip(weighted.coefs_, repeated.coefs_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_order_of_the_rows_does_not_matter(diabetes):
    x, y = diabetes
    order = np.random.RandomState(0).permutation(len(x))
    np.testing.assert_array_equal(
        SCARegressor(**SMALL).fit(x, y).predict(x), SCARegressor(**SMALL).fit(x[order], y[order]).predict(x)
    )


def test_random_state_decides(iris):
    one, same = (SCAClassifier(**SMALL).fit(*iris) for _ in range(2))
    np.testing.assert_array_equal(one.coefs_[0], same.coefs_[0])
    assert not np.allclose(one.coefs_[0], SCAClassifier(**SMALL | {"random_state": 1}).fit(*iris).coefs_[0])


def test_several_outputs():
    x, y = load_linnerud(return_X_y=True)
    model = SCARegressor(**SMALL).fit(x, y)
    assert model.predict(x).shape == y.shape
    assert model.n_outputs_ == 3
    assert model.score(x, y) > 0.3
    assert SCARegressor(**SMALL).fit(x, y[:, :1]).predict(x).shape == (20, 1)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_labels_and_decisions_agree(iris, classes):
    x, y = (a[iris[1] < classes] for a in iris)
    names = np.array(["one", "three", "two"])[y]
    model = SCAClassifier(**SMALL).fit(x, names)
    p = model.predict_proba(x)
    assert p.shape == (len(x), classes)
    assert model.score(x, names) > 0.95
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(x)), p)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(x))
    decision = model.decision_function(x)
    if classes == 2:
        np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-decision)))
    else:
        np.testing.assert_array_equal(decision.argmax(axis=1), p.argmax(axis=1))


def test_class_weights_are_sample_weights(iris):
    x, y = (a[:110] for a in iris)  # 50, 50 and 10 rows
    by_class = SCAClassifier(**SMALL, class_weight={2: 5.0}).fit(x, y)
    by_row = SCAClassifier(**SMALL).fit(x, y, sample_weight=np.where(y == 2, 5.0, 1.0))
    np.testing.assert_allclose(by_class.coefs_[0], by_row.coefs_[0])
    balanced = SCAClassifier(**SMALL, class_weight="balanced").fit(x, y)
    assert balanced.predict_proba(x)[:, 2].mean() > SCAClassifier(**SMALL).fit(x, y).predict_proba(x)[:, 2].mean()


def test_several_labels_per_row_each_have_their_probability():
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 3))
    y = np.column_stack([x[:, 0] > 0, x[:, 1] > 0.5]).astype(int)
    model = SCAClassifier(**SMALL).fit(x, csr_matrix(y))
    p = model.predict_proba(x)
    assert p.shape == y.shape
    assert np.abs(p.sum(axis=1) - 1).max() > 0.2  # they do not exclude each other
    np.testing.assert_array_equal(model.predict(x), p > 0.5)
    assert np.mean(model.predict(x) == y) > 0.9
    parts = SCAClassifier(**SMALL).partial_fit(x, y)
    for bad, message in ((y + 1, "values such as 2"), (np.ones((80, 3)), "unlike the y of the first call")):
        with pytest.raises(ValueError, match=message):
            parts.partial_fit(x, bad)
    for refused in (lambda: model.predict_proba(x, calibrated=True), model.to_model):
        with pytest.raises(ValueError, match="labels"):
            refused()


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_huber_forgives_outliers(loss):
    random = np.random.RandomState(0)
    x = random.uniform(-1, 1, (200, 1))
    y = 2 * x[:, 0]
    dirty = y.copy()
    dirty[:20] += 10
    model = SCARegressor(**SMALL | {"alpha": 1e-4}, loss=loss, huber_delta=0.1).fit(x, dirty)
    error = np.abs(model.predict(x) - y).mean()
    assert error < 0.3 if loss == "huber" else error > 0.5


def test_poisson_predicts_rates_in_any_unit():
    random = np.random.RandomState(0)
    x = random.normal(size=(300, 2))
    y = random.poisson(np.exp(1 + x[:, 0]))
    model = SCARegressor(**SMALL, loss="poisson", batch_size=300).fit(x, y)
    assert model.predict(x).min() > 0
    assert np.corrcoef(np.log(model.predict(x)), x[:, 0])[0, 1] > 0.9
    np.testing.assert_allclose(model.predict(x).mean(), y.mean(), rtol=0.2)
    scaled = clone(model).fit(x, 50 * y)
    np.testing.assert_allclose(scaled.predict(x), 50 * model.predict(x), rtol=1e-6)


class _Untrained(SCARegressor):
    """As it is when training begins."""

    def _train(self, *_):
        self._converged = True


def test_a_sparse_strength_is_the_strongest_within_one_standard_error():
    random = np.random.RandomState(0)
    x = random.normal(size=(120, 5))
    y = np.tanh(x[:, 0] - x[:, 3]) + 0.1 * random.normal(size=120)
    model = SCARegressor(**SMALL | {"alpha": "auto"}, penalty="group").fit(x, y)
    path = model.path_
    assert path is not None
    fine = path["excess"] <= path["error"]
    best = int(np.argmin(path["loss"]))
    assert model.alpha_ == path["alpha"][best:][fine[best:]].max()
    assert path["weights"][-1] < path["weights"][0]
    assert path["neurons"][-1] < path["neurons"][0]
    assert path["features"][best][[0, 3]].all()
    assert path["features"].shape == (len(path["alpha"]), 5)
    assert model.sparsity_ > 0.2
    assert model.features_used_[[0, 3]].all()
    assert model.score(x, y) > 0.8
    dense = SCARegressor(**SMALL).fit(x, y)
    assert dense.path_ is None
    assert dense.sparsity_ == 0
    # the fit goes on from the path's network
    untrained = _Untrained(**SMALL | {"alpha": "auto"}, penalty="group").fit(x, y)
    assert weights_used(untrained.coefs_) == path["weights"][list(path["alpha"]).index(model.alpha_)]
    # a warm start goes on from the last fit, and its path from a network that has not seen the rows held out
    first = model.predict(x)
    again = model.set_params(warm_start=True).fit(x, y)
    assert again.path_ is not None
    assert not np.array_equal(again.path_["loss"], path["loss"])
    assert np.corrcoef(first, again.predict(x))[0, 1] > 0.9


@pytest.mark.parametrize("penalty", ["elasticnet", "group", "log"])
def test_sparse_penalties_leave_exact_zeros(penalty):
    random = np.random.RandomState(0)
    x = random.normal(size=(200, 8))
    y = np.sin(x[:, 0]) + 0.1 * random.normal(size=200)
    model = SCARegressor(**SMALL | {"alpha": 3e-2}, penalty=penalty, l1_ratio=0.9).fit(x, y)
    assert model.score(x, y) > 0.7
    params = [{"weight": w, "bias": b} for w, b in zip(model.coefs_, model.intercepts_, strict=True)]
    small = scax.compact(scax.MLP((8, 4, 1), "tanh"), params)
    stored = sum(np.count_nonzero(layer["weight"]) for layer in small.params)
    assert model.sparsity_ == pytest.approx(1 - stored / sum(w.size for w in model.coefs_))
    assert model.sparsity_ >= np.mean(np.concatenate([w.ravel() for w in model.coefs_]) == 0) > 0.3
    assert model.n_neurons_used_ == small.net.widths[1:-1]
    assert model.features_used_[0]
    assert model.n_features_used_ == model.features_used_.sum() <= 3
    assert len(model.n_neurons_used_) == 1
    assert 1 <= model.n_neurons_used_[0] <= 4


def test_early_stopping_keeps_the_best(diabetes):
    model = SCARegressor(8, alpha=0.0, early_stopping=True, n_members=1, random_state=0).fit(*diabetes)
    curve = model.validation_loss_curve_
    assert model.best_validation_loss_ == min(curve) < curve[-1]
    assert len(curve) == len(model.loss_curve_) == model.n_iter_ < model.recipe_.epochs
    assert model.score(*diabetes) > 0.4


def test_training_stops_when_the_loss_does_not_fall_and_the_curve_falls(diabetes):
    model = SCARegressor(**SMALL | {"max_iter": 100}).fit(*diabetes)
    assert model.n_iter_ == len(model.loss_curve_) < 100
    assert model.loss_ == model.loss_curve_[-1]
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    longer = SCARegressor(**SMALL | {"max_iter": 100}, tol=0.0, n_iter_no_change=40).fit(*diabetes)
    assert longer.n_iter_ > model.n_iter_


def test_warm_start_goes_on(diabetes):
    model = SCARegressor(**SMALL | {"max_iter": 2}, warm_start=True).fit(*diabetes)
    before = model.loss_
    model.set_params(max_iter=5).fit(*diabetes)  # the weights go on; steps are as long as at any start
    assert model.loss_ < before
    assert clone(model).set_params(warm_start=False).fit(*diabetes).loss_curve_[0] > model.loss_curve_[0]


def test_partial_fit_goes_on_with_other_options(diabetes):
    """Parts of the method's state that the new options have, and the old had not, begin anew."""
    x, y = diabetes
    model = SCARegressor(hidden_layer_sizes=(4,), random_state=0).partial_fit(x, y)
    weights = [layer.copy() for layer in model.coefs_]
    for options in ({"penalty": "l1"}, {"penalty": "l2"}, {"sca_params": {"metric": scax.LowRank(rank=3)}}):
        model.set_params(**options).partial_fit(x, y)
        assert np.isfinite(model.loss_)
    assert all(np.linalg.norm(a - b) < np.linalg.norm(a) for a, b in zip(weights, model.coefs_, strict=True))


def test_partial_fit_learns_from_parts(iris):
    x, y = iris
    order = np.random.RandomState(0).permutation(len(x))
    model = SCAClassifier(**SMALL)
    for part in np.array_split(np.tile(order, 5), 15):
        model.partial_fit(x[part], y[part], classes=[0, 1, 2])
        model = pickle.loads(pickle.dumps(model))
    assert model.score(x, y) > 0.93
    assert len(model.loss_curve_) == 15
    with pytest.raises(ValueError, match="classes"):
        SCAClassifier().partial_fit(x, y)
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(x, y + 1)


def test_alpha_auto_is_strong_for_noise_and_weak_without():
    random = np.random.RandomState(0)
    x = random.normal(size=(120, 3))
    signal = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    clear = SCARegressor(random_state=0).fit(x, signal).alpha_
    noisy = SCARegressor(random_state=0).fit(x, signal + 20 * random.normal(size=120)).alpha_
    assert clear <= 1e-2 < 1e-1 <= noisy
    assert SCARegressor(**SMALL).fit(x, signal).alpha_ == SMALL["alpha"]


@pytest.mark.parametrize(
    "option",
    [{"damping": 10.0}, {"activation": "relu"}, {"batch_size": 32}, {"penalty": "l1"}, {"sca_params": {"carry": 0.0}}],
)
def test_options_change_the_result(diabetes, option):
    x, y = diabetes
    plain = SCARegressor(**SMALL | {"max_iter": 3}).fit(x, y).predict(x)
    assert not np.allclose(SCARegressor(**SMALL | {"max_iter": 3} | option).fit(x, y).predict(x), plain, rtol=1e-4)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"activation": "tanhh"}, "Did you mean 'tanh'"),
        ({"penalty": "ridge"}, "penalty='ridge'"),
        ({"alpha": -1.0}, "alpha must be"),
        ({"alpha": "none"}, "alpha must be a number ≥ 0 or one of 'auto', 'held_out', 'evidence', got 'none'"),
        ({"hidden_layer_sizes": (3, 0)}, "hidden_layer_sizes"),
        ({"batch_size": 0}, "batch_size"),
        ({"max_iter": 1.5}, "max_iter"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"sca_params": {"cary": 0.0}}, "cary"),
        ({"loss": "mse"}, "loss='mse'"),
    ],
)
def test_a_bad_option_is_refused_by_name(option, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SCARegressor(**option).fit(np.eye(3), np.arange(3.0))


def test_other_refusals(iris):
    x, y = iris
    with pytest.raises(ValueError, match="only one class"):
        SCAClassifier().fit(x, np.zeros(150))
    with pytest.raises(ValueError, match="do not occur"):
        SCAClassifier(class_weight={9: 2.0}).fit(x, y)
    with pytest.raises(ValueError, match="negative"):
        SCARegressor(loss="poisson").fit(x, y - 1)
    with pytest.raises(ValueError, match="at least one"):
        SCAClassifier(class_weight=dict.fromkeys(range(3), 0.0)).fit(x, y)
    with pytest.raises(ValueError, match="leaves none"):
        SCARegressor(early_stopping=True).fit(x[:1], y[:1])


def test_verbose_prints_every_epoch(iris, capsys):
    model = SCAClassifier(**SMALL, verbose=True).fit(*iris)
    assert capsys.readouterr().out.count("Iteration ") == model.n_iter_


def test_in_scikit_learns_tools(iris, tmp_path):
    x, y = iris
    pipeline = make_pipeline(StandardScaler(), SCAClassifier(**SMALL)).set_output(transform="default")
    search = GridSearchCV(pipeline, {"scaclassifier__alpha": [1e-3, 1.0]}, cv=3).fit(x, y)
    assert search.best_params_ == {"scaclassifier__alpha": 1e-3}
    assert search.best_score_ > 0.9
    assert cross_val_score(SCAClassifier(**SMALL), x, y, cv=3, n_jobs=1).min() > 0.9
    joblib.dump(search, tmp_path / "model.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model.joblib").predict(x), search.predict(x))


def test_import_scax_does_not_load_scikit_learn():
    subprocess.run([sys.executable, "-c", "import sys, scax; assert 'sklearn' not in sys.modules"], check=True)


def test_the_automatic_batch_with_many_classes():
    """It falls to its least, not to nothing, where there are more classes than the system has rows."""
    assert SCAClassifier()._batch_size(5000, 150) == 16
    assert SCAClassifier()._batch_size(5000, 1) > 16


def test_members_are_averaged_and_one_network_stands_for_them():
    random = np.random.RandomState(0)
    x = random.normal(size=(1100, 4))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    options = {"alpha": 1e-4, "max_iter": 2, "numbers": "clipped", "random_state": 0}
    fit = lambda members: SCARegressor((6, 5), n_members=members, **options).fit(x, y)
    model = fit(3)
    assert [w.shape for w in model.coefs_] == [(4, 18), (18, 15), (15, 1)]
    each = []
    for weights, biases in model._members:
        model.coefs_, model.intercepts_ = weights, biases
        each.append(model.predict(x))
    assert not np.allclose(each[0], each[1])
    np.testing.assert_allclose(fit(3).predict(x), np.mean(each, axis=0))
    assert fit(1).coefs_[0].shape == (4, 6)
    assert str(fit(1).recipe_).startswith("1 network of 6/5, up to 2 epochs, the best epoch by 20%")


def test_a_fit_that_is_no_better_than_the_mean_says_so():
    random = np.random.RandomState(0)
    with pytest.warns(UserWarning, match="no better"):
        SCARegressor(64, alpha=0.0, max_iter=1, random_state=0).fit(
            random.normal(size=(1000, 30)), random.normal(size=1000)
        )


def test_a_fit_of_which_nothing_can_be_learned_says_so():
    y, options = np.arange(6.0), {"alpha": 1e-3, "max_iter": 2, "n_members": 1}
    with pytest.warns(UserWarning, match="every column of X is the same in all rows"):
        SCARegressor(4, **options).fit(np.ones((6, 2)), y)
    with pytest.warns(UserWarning, match="another class in every row"):
        SCAClassifier(4, **options).fit(y[:, None], y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        SCAClassifier(4, **options).partial_fit(y[:, None], y, classes=y)
        SCARegressor(4, **options).fit(np.c_[np.ones(6), y], y)

"""A fit that goes on: what was held out stays held out, and what was found is kept."""

import pickle

import numpy as np
import pytest

from scax.estimators import SCAClassifier, SCARegressor
from scax.estimators.pool import Pool

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
QUICK = {"hidden_layer_sizes": 8, "max_iter": 6, "numbers": "clipped", "alpha": 1e-5, "warm_start": True}


@pytest.fixture(scope="module")
def table():
    random = np.random.RandomState(0)
    x = random.uniform(-1, 1, (1100, 3))
    return x, np.sin(3 * x[:, 0]) + x[:, 1] + 0.3 * random.standard_normal(1100)


def _held_out(model) -> set[bytes]:
    return {row.tobytes() for row in model._bar_rows[1].x}


@pytest.mark.parametrize("members", [1, 2])
def test_scores_of_a_fit_that_goes_on_do_not_know_of_the_training_on_all_rows(table, members):
    options = QUICK | {"n_members": members, "validation_fraction": 0.2, "n_iter_no_change": 10, "tol": 0.0}
    models = [
        SCARegressor(**options, early_stopping=early, random_state=np.random.RandomState(0)).fit(*table)
        for early in ("auto", True)
    ]
    held = [_held_out(model) for model in models]
    for model in models:
        model.fit(*table)
    trained_on_all, apart = models
    np.testing.assert_allclose(trained_on_all.validation_loss_curve_, apart.validation_loss_curve_, rtol=1e-5)
    assert not np.allclose(trained_on_all.coefs_[0], apart.coefs_[0], rtol=1e-3)
    # the generator has gone on, and would now draw other rows
    assert [_held_out(model) for model in models] == held


def test_networks_trained_on_all_rows_go_on_from_themselves(table, monkeypatch):
    starts = []
    refit = Pool.refit
    monkeypatch.setattr(
        Pool, "refit", lambda self, members, feed, given: starts.append(given) or refit(self, members, feed, given)
    )
    model = SCARegressor(**QUICK, n_members=2, random_state=0).fit(*table)
    before, judged = model._members, model._judged
    model = pickle.loads(pickle.dumps(model)).partial_fit(*table)
    np.testing.assert_array_equal(model._judged[0][0][0], judged[0][0][0])
    assert len(model.validation_loss_curve_) == 6
    after = model._members
    assert not np.allclose(after[0][0][0], before[0][0][0])
    model.fit(*table)
    np.testing.assert_array_equal(starts[-1][1][0][0], after[1][0][0])
    assert model.validation_loss_curve_[0] < 1.2 * np.var(table[1])


def test_new_rows_are_held_out_in_proportion_and_trained_rows_stay_trained(table):
    x, y = table
    model = SCARegressor(**QUICK, n_members=1).fit(x[:1000], y[:1000])
    held, encode = _held_out(model), model._encoding.apply
    model.fit(x, y)
    now = _held_out(model)
    new = {row.tobytes() for row in encode(x[1000:], np.float32)}
    assert held <= now
    assert now - held <= new
    assert len(now - held) == 20
    some = np.array([row.tobytes() in now for row in encode(x, np.float32)])
    model.set_params(early_stopping=True, validation_fraction=0.2)
    model.fit(x[some], y[some])  # each was held out: some are trained on from now on
    assert len(_held_out(model)) == round(0.2 * some.sum())
    with pytest.warns(UserWarning, match="trained on all of these rows before"):
        model.fit(x[~some], y[~some])
    assert len(_held_out(model)) == round(0.2 * np.sum(~some))


def test_what_was_found_is_kept_and_what_is_given_is_used(table):
    x, y = table
    auto = QUICK | {"alpha": "auto", "activation": "auto", "random_state": 0}
    model = SCARegressor(**auto, n_members=3).fit(x[:900], y[:900])
    assert model.recipe_.activation == "tanh"
    before, alpha = model.predict(x), model.alpha_
    model.set_params(max_iter=1).fit(x, y)  # from 1,000 rows on the recipe is another
    assert model.recipe_.activation == "tanh"
    assert np.corrcoef(before, model.predict(x))[0, 1] > 0.95
    model.partial_fit(x, y)
    assert model.alpha_ == pytest.approx(alpha)
    model = SCARegressor(**auto, n_members=2).fit(x, y)
    strengths = model._alphas
    model.fit(x, y)
    assert model._alphas == strengths
    assert model.alpha_ in strengths
    model.set_params(alpha=0.5).fit(x, y)
    assert model.alpha_ == 0.5


def test_a_search_on_few_rows_starts_from_a_network_that_has_not_seen_them():
    random = np.random.RandomState(0)
    x, y = random.standard_normal((120, 8)), random.standard_normal(120)
    options = {"loss": "huber", "max_iter": 300, "tol": 0.0, "n_members": 1, "random_state": 0}
    model = SCARegressor((64,), alpha=1e-6, warm_start=True, **options).fit(x, y)
    assert model.score(x, y) > 0.9  # noise, learned by heart
    model.set_params(alpha="auto").fit(x, y)
    assert model.alpha_ > 0.01


def test_classes_keep_the_rows_held_out_too(table):
    x, y = table
    model = SCAClassifier(**QUICK, n_members=1).fit(x, y > 0)
    held = _held_out(model)
    assert _held_out(model.fit(x, y > 0)) == held


def _rows(model, x) -> set[bytes]:
    return {row.tobytes() for row in model._encoding.apply(x, np.float32)}


def test_rows_of_partial_fit_are_trained_on_and_do_not_judge(table):
    x, y = table
    model = SCARegressor(**QUICK, n_members=1, early_stopping=True, validation_fraction=0.2).fit(x[:1000], y[:1000])
    held = _held_out(model)
    part = slice(900, 1100)  # some that were held out, and new ones
    model.set_params(early_stopping="auto").partial_fit(x[part], y[part]).fit(x, y)
    assert held & _rows(model, x[part])
    assert _held_out(model) == held - _rows(model, x[part])
    first = SCARegressor(**QUICK, n_members=1).partial_fit(x[part], y[part]).fit(x, y)
    assert not _held_out(first) & _rows(first, x[part])


@pytest.mark.parametrize("other", [{"early_stopping": False}, {"penalty": "l1", "early_stopping": True}])
def test_a_fit_that_goes_on_from_networks_all_rows_made_knows_it(table, other):
    x, y = table
    model = SCARegressor(**QUICK, n_members=1).fit(x[:1000], y[:1000])
    old = _rows(model, x[:1000])
    model.set_params(**other).fit(x[900:1050], y[900:1050])  # goes on from the network of all 1,000 rows
    model.set_params(penalty="l2", early_stopping=True).fit(x, y)
    assert not _held_out(model) & old

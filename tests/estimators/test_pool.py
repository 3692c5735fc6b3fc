"""Networks of a fit that holds rows out: which strengths are tried, and which networks are averaged."""

import numpy as np
import pytest

from scax.estimators import SCAClassifier, SCARegressor
from scax.estimators.pool import LEAST, MOST, Pool, Trained


def _trained(view, alpha, loss, outputs):
    return Trained(view, alpha, ([], []), np.uint32(0), ([], []), loss, outputs, [], [])


class _Measured(Pool):
    """Losses from a formula instead of trainings."""

    def __init__(self, loss, views):
        self.loss, self.views, self.trained, self.groups = loss, views, [], []

    def train(self, jobs, starts=None):
        self.groups.append(jobs)
        made = [_trained(v, a, self.loss(v, np.log10(a)), np.zeros(0)) for v, a in jobs]
        self.trained += made
        return made


@pytest.mark.parametrize("at", [-6.0, -4.6, -3, -1.2, 2.0])
def test_the_search_ends_beside_the_best_strength(at):
    pool = _Measured(lambda view, e: (1 + view) * (1 + (e - at) ** 2 / 50), [0, 0])
    pool.search()
    best = min(pool.trained, key=lambda each: each.loss)
    assert best.view == 0
    assert abs(np.log10(best.alpha) - at) <= 0.5
    assert all(len(group) <= 4 for group in pool.groups)
    assert len(pool.trained) == len({(each.view, each.alpha) for each in pool.trained}) <= 20


def test_the_search_says_where_it_ends_at_an_edge():
    for at, edge in ((-9, LEAST), (9, MOST)):
        pool = _Measured(lambda view, e, at=at: abs(e - at), [0])
        with pytest.warns(UserWarning, match="ended at its edge"):
            pool.search()
        assert np.isclose(min(pool.trained, key=lambda each: each.loss).alpha, 10 ** (edge / 2))


def test_a_short_search_ends_where_strengths_make_little_difference():
    for bend, groups in ((1e-3, 1), (1, 2)):
        pool = _Measured(lambda view, e, bend=bend: 1 + view + bend * (e + 4) ** 2, [0, 0])
        pool.search(is_short=True)
        assert len(pool.groups) == groups
        assert all(view == 0 for group in pool.groups[1:] for view, _ in group)


def test_members_are_those_whose_average_is_best():
    outputs = np.array([[1.0, 0, 0], [-1.1, 0, 0], [0.5, 1, 1], [np.nan, 0, 0]])
    value = lambda z: float(np.mean(z**2))
    pool = _Measured(None, [0])
    pool.value = value
    pool.trained = [_trained(0, 1.0, value(z), z) for z in outputs]
    chosen = pool.members(4)
    assert [each.outputs[0] for each in chosen] == [1.0, -1.1]  # a third would make it worse
    assert len(pool.members(1)) == 1


def test_members_trained_again_on_the_same_rows_are_the_same(monkeypatch):
    pools = []
    refit = Pool.refit
    monkeypatch.setattr(
        Pool, "refit", lambda self, members, *rest: pools.append((self, rest[0])) or refit(self, members, *rest)
    )
    random = np.random.RandomState(0)
    x = random.uniform(-1, 1, (1100, 2))
    y = np.sin(3 * x[:, 0]) + x[:, 1]
    options = {"hidden_layer_sizes": 4, "max_iter": 4, "random_state": 0, "numbers": "clipped", "alpha": 1e-3}
    model = SCARegressor(**options).fit(x, y)
    ((pool, feed),) = pools
    assert int(feed.count) == 1100
    with pool.trainer.programs():
        second = refit(pool, pool.trained, pool.feed, [each.start for each in pool.trained])
        for one, again in zip(pool.trained, second, strict=True):
            for was, now in zip([*one.network[0], *one.network[1]], [*again[0], *again[1]], strict=True):
                np.testing.assert_allclose(now, was, rtol=2e-3, atol=2e-3)
    assert not np.allclose(model._members[0][0][0], model._judged[0][0][0])
    apart = SCARegressor(**options, early_stopping=True).fit(x, y)
    np.testing.assert_allclose(apart._members[0][0][0], model._judged[0][0][0], rtol=1e-4, atol=1e-4)


def test_bins_are_used_where_they_help_and_left_out_where_they_do_not():
    random = np.random.RandomState(0)
    x = random.uniform(-1, 1, (1200, 2))
    steps = np.floor(6 * x[:, 0]) % 2
    options = {"hidden_layer_sizes": 8, "max_iter": 12, "random_state": 0, "n_members": 2, "alpha": 1e-3}
    model = SCARegressor(**options).fit(x, steps)
    plain = SCARegressor(**options, numbers="clipped").fit(x, steps)
    assert model.score(x, steps) > plain.score(x, steps) + 0.1
    assert {int(mask.sum()) for mask in model._masks} <= {2, 34}
    labels = (x[:, 0] > x[:, 1]).astype(int)
    found = SCAClassifier(**options).fit(x, labels)
    assert found.score(x, labels) > 0.97
    np.testing.assert_allclose(found.loss_curve_[-1], found.loss_)
    assert found.best_validation_loss_ == pytest.approx(min(found.validation_loss_curve_))

"""`train` against a loop by hand: history, validation, callbacks, keys, weights, feeds of one's own."""

import dataclasses
import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scax
from scax.tables.shuffle import Shuffle
from tests.cases import mlp, rows, start
from tests.test_sca import vector

NET = mlp(1)
X = rows(0, 40, dtype=np.float32)
Y = np.sin(2 * X[:, 0])
PROBLEM = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-3))
PARAMS = start(NET, 0, np.float32)
KEY = jax.random.key(1)


@pytest.mark.parametrize("make", [scax.SCA, lambda p: scax.baseline(optax.adam(1e-2), p)], ids=["sca", "adam"])
def test_train_is_a_loop_by_hand(make):
    problem, params, (x, y) = PROBLEM, PARAMS, (X[:30], Y[:30])
    method = make(problem)
    key = jax.random.key(3)
    result = scax.train(method, params, (x, y), steps=9, batch_size=7, key=key, records=2)
    state, stream, losses = method.init(params), Shuffle.start(key, len(x)), []
    for _ in range(9):
        stream, index = stream.draw(7)
        state, info = method.step(state, (x[index], y[index]))
        losses.append(float(info.loss))
    np.testing.assert_allclose(vector(result.params), vector(method.solution(state)), rtol=2e-3, atol=2e-4)
    history = result.history
    np.testing.assert_array_equal(history["step"], [5, 9])
    np.testing.assert_allclose(history["batch_loss"], [np.mean(losses[:5]), np.mean(losses[5:])], rtol=1e-3)
    np.testing.assert_allclose(history["objective"][-1], problem.objective(result.params, x, y), rtol=1e-5)
    assert np.all(history.get("accepted", 1) == 1)
    assert np.all(np.diff(history["seconds"]) > 0)


def test_validation_callback_and_going_on():
    problem, params, (x, y) = PROBLEM, PARAMS, (X[:30], Y[:30])
    sca = scax.SCA(problem)
    seen = []

    def stop(record):
        seen.append(record)
        return len(seen) == 2

    part = scax.train(sca, params, (x, y), steps=40, batch_size=8, records=8, validation=(x[:9], y[:9]), callback=stop)
    assert [r["step"] for r in seen] == [5, 10]
    np.testing.assert_array_equal(part.history["step"], [5, 10])
    z = np.asarray(problem.apply(part.params, x[:9]))[:, 0]
    np.testing.assert_allclose(part.history["validation_loss"][-1], np.mean((z - y[:9]) ** 2), rtol=1e-4)
    more = scax.train(sca, params, (x, y), steps=5, batch_size=8, records=1, state=part.state)
    assert int(more.state.count) == 15
    assert int(part.state.count) == 10  # the state handed in was copied, not consumed


def test_the_key_decides_the_batches():
    problem, params, data = PROBLEM, PARAMS, (X[:30], Y[:30])
    run = lambda key: vector(scax.train(scax.SCA(problem), params, data, steps=4, batch_size=5, key=key).params)
    a, again, b = run(jax.random.key(0)), run(None), run(jax.random.key(1))
    np.testing.assert_array_equal(a, again)
    assert not np.array_equal(a, b)


def test_sample_weights_reach_the_objective():
    problem, params, (x, y) = PROBLEM, PARAMS, (X[:30], Y[:30])
    weight = np.where(np.arange(30) < 10, 1.0, 0.0).astype(np.float32)
    sca = scax.SCA(problem)
    weighted = scax.train(sca, params, (x, y, weight), steps=3, batch_size=30, records=1)
    np.testing.assert_allclose(
        weighted.history["objective"][-1], problem.objective(weighted.params, x[:10], y[:10]), rtol=1e-5
    )


def test_sca_keeps_the_box():
    problem, params, (x, y) = scax.Problem(NET.apply, scax.Squared(), scax.Box(0.4)), PARAMS, (X[:30], Y[:30])
    result = scax.train(scax.SCA(problem), params, (x, y), steps=15, batch_size=10, records=1)
    assert np.abs(vector(result.params)).max() <= 0.4 * (1 + 1e-6)
    assert result.history["objective"][-1] < float(problem.objective(params, x, y))


def test_all_rows_in_every_step():
    """SCA's steps are then Levenberg–Marquardt's."""
    sca = scax.SCA(PROBLEM)
    result = scax.train(sca, PARAMS, (X, Y), steps=6, batch_size=None, records=2)
    state = (whole := scax.SCA(PROBLEM, all_rows=True)).init(PARAMS)
    for _ in range(6):
        state, _ = whole.step(state, (X, Y))
    np.testing.assert_allclose(result.state.w, state.w, rtol=1e-3, atol=1e-4)
    assert result.status == "steps"
    more = scax.train(sca, PARAMS, (X, Y), steps=2, batch_size=None, records=1, state=result.state)
    assert int(more.state.count) == 8
    with pytest.raises(ValueError, match="state is none of this method's: make it with the same options"):
        scax.train(sca, PARAMS, (X, Y), steps=2, batch_size=6, state=result.state)


def test_a_run_on_all_rows_ends_where_nothing_is_left_to_gain():
    """A linear model and a ridge: two steps or so, whatever was asked for."""
    problem = scax.Problem(lambda w, x: x @ w, scax.Squared(), scax.L2(0.1))
    result = scax.train(scax.SCA(problem), jnp.zeros((3, 1)), (X, Y), steps=500, batch_size=None, records=5)
    assert result.status == "converged"
    assert result.steps < 100
    assert result.history["step"][-1] == result.steps
    best = np.linalg.solve(X.T @ X / len(X) + 0.05 * np.eye(3), X.T @ Y / len(X))
    np.testing.assert_allclose(np.asarray(result.params)[:, 0], best, rtol=1e-3, atol=1e-4)


def test_a_batch_of_all_rows_is_all_rows():
    sca = scax.SCA(PROBLEM)
    whole, large = (scax.train(sca, PARAMS, (X, Y), steps=6, batch_size=size, records=2) for size in (None, len(X)))
    np.testing.assert_array_equal(whole.state.w, large.state.w)
    keys = jax.random.split(jax.random.key(0), 2)
    many = (scax.train_many(sca, NET.init, (X, Y), keys=keys, steps=6, batch_size=size) for size in (None, len(X) + 1))
    np.testing.assert_array_equal(*(vector(result.params) for result in many))


def test_a_run_on_all_rows_says_that_rounding_ended_it():
    """Without a penalty, and with as many weights as rows, only the precision ends the fall."""
    problem = scax.Problem(NET.apply, scax.Squared())
    result = scax.train(scax.SCA(problem), PARAMS, (X[:4], Y[:4]), steps=2000, batch_size=4, records=5)
    assert result.status == "precision_reached"
    assert result.steps < 2000


def test_how_a_run_ended():
    run = functools.partial(scax.train, scax.SCA(PROBLEM), PARAMS, (X, Y), steps=20, batch_size=6, records=4)
    assert (run().steps, run().status) == (20, "steps")
    stopped = run(callback=lambda record: record["step"] == 10)
    assert (stopped.steps, stopped.status) == (10, "callback")
    assert stopped.history["step"].tolist() == [5, 10]


def test_steps_of_records():
    run = functools.partial(scax.train, scax.SCA(PROBLEM), PARAMS, (X, Y), steps=20, batch_size=6)
    assert run(records=[3, 17]).history["step"].tolist() == [3, 17, 20]
    with pytest.raises(ValueError, match="records has step 21, beyond the last of 20"):
        run(records=[21])
    with pytest.raises(ValueError, match="a step of records must be a whole number ≥ 1, got 0"):
        run(records=[0, 3])


def test_the_objective_is_watched_on_some_rows_and_ends_on_all(monkeypatch):
    monkeypatch.setattr(importlib.import_module("scax.training.run"), "WATCHED", 8)
    options = {"steps": 4, "batch_size": 2, "records": 4}
    some = scax.train(scax.SCA(PROBLEM), PARAMS, (X, Y), **options)
    each = scax.train(scax.SCA(PROBLEM), PARAMS, (X, Y), **(options | {"records": [1, 2, 3, 4]}))
    assert some.history["objective"][-1] == pytest.approx(each.history["objective"][-1], rel=1e-6)
    assert some.history["objective"][0] != pytest.approx(each.history["objective"][0], rel=1e-6)
    assert each.history["objective"][-1] == pytest.approx(float(PROBLEM.objective(each.params, X, Y)), rel=1e-5)


def test_a_feed_of_ones_own():
    """Points drawn anew at every step, by a function of the step's key."""
    result = scax.train(scax.SCA(PROBLEM), PARAMS, Points(6), steps=30, records=2, key=KEY)
    again = scax.train(scax.SCA(PROBLEM), PARAMS, Points(6), steps=30, records=3, key=KEY)
    np.testing.assert_array_equal(result.state.w, again.state.w)
    new = Points(64).batch(jax.random.split(jax.random.key(5), 1), 0)
    assert PROBLEM.objective(result.params, new.x, new.y) < 0.8 * PROBLEM.objective(PARAMS, new.x, new.y)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Points:
    rows: int

    def start(self, key):
        return key, jnp.zeros((), jnp.int32)

    def load(self, position, steps):
        return self, steps

    def plan(self, position, count):
        return jax.vmap(lambda i: jax.random.fold_in(position[0], position[1] + i))(jnp.arange(count))

    def batch(self, plan, i):
        x = jax.random.normal(plan[i], (self.rows, 3))
        return scax.Batch(x, jnp.sin(2 * x[:, 0]))

    def skip(self, position, steps):
        return position[0], position[1] + steps

    def sample(self, count):
        x = jax.random.normal(jax.random.key(7), (count, 3))
        return scax.Batch(x, jnp.sin(2 * x[:, 0]))

"""The one loop: where it pauses changes nothing, what it compiles, what it records, when it ends."""

import dataclasses
import functools
import importlib
import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scax
from scax.training import engine
from scax.training.evaluation import Objective
from scax.training.feed import rows_in_memory
from scax.training.method import check_method
from scax.training.stopping import Stopping
from tests.cases import mlp, rows, start

NET = mlp(1)
X = rows(0, 40, dtype=np.float32)
Y = np.sin(2 * X[:, 0])
PROBLEM = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-3))
PARAMS = start(NET, 0, np.float32)
KEY = jax.random.key(1)


@functools.cache
def feed():
    return rows_in_memory(PROBLEM, PARAMS, (X, Y), 6)


@functools.cache
def method(name="sca"):
    return scax.SCA(PROBLEM) if name == "sca" else scax.baseline(optax.adam(1e-2), PROBLEM)


def call(name, goals, stops, carry=None):
    """The run paused at each of `stops`: its carry, and all records."""
    run = engine.run(method(name), Objective(feed().data))
    carry = engine.start(method(name), PARAMS, feed(), KEY) if carry is None else carry
    records = []
    for stop in stops:
        ahead = [goal for goal in goals if goal > int(carry.step)]
        carry, made = run(carry, feed(), engine._padded(ahead), np.int32(stop))
        for i in range(int(made.count)):
            records.append((int(made.steps[i]), {k: float(v[i]) for k, v in made.values.items()}))
    return carry, records


@pytest.mark.parametrize("name", ["sca", "adam"])
def test_pauses_change_nothing(name):
    goals = [1, 5, 20, 21, 45]
    whole, records = call(name, goals, [45])
    parts, again = call(name, goals, [0, 3, 5, 6, 21, 40, 45])
    jax.tree.map(np.testing.assert_array_equal, whole, parts)
    assert [step for step, _ in records] == goals
    assert records == again


def test_a_saved_run_goes_on_to_the_bit(tmp_path):
    from scax.storage import load_checkpoint, save_checkpoint

    whole, _ = call("sca", [30], [30])
    half, _ = call("sca", [30], [13])
    save_checkpoint(tmp_path / "c", half)
    back, _ = load_checkpoint(tmp_path / "c", engine.start(method(), PARAMS, feed(), jax.random.key(9)))
    jax.tree.map(np.testing.assert_array_equal, whole, call("sca", [30], [30], back)[0])


def test_records_are_averages_and_measures():
    """By hand: batches as the feed gives them, one step after the other."""
    sca, source = method(), feed()
    position, state, losses = source.start(KEY), sca.init(PARAMS), []
    step = jax.jit(sca.step)
    for _ in range(7):
        state, info = step(state, source.batch(source.plan(position, 1), 0))
        position = source.skip(position, 1)
        losses.append(float(info.loss))
    carry, records = call("sca", [3, 7], [7])
    np.testing.assert_allclose(carry.state.w, state.w, rtol=1e-3, atol=1e-4)
    for (_, record), part in zip(records, (losses[:3], losses[3:]), strict=True):
        assert record["batch_loss"] == pytest.approx(np.mean(part), rel=1e-3)
    assert records[-1][1]["objective"] == pytest.approx(
        float(PROBLEM.objective(sca.solution(carry.state), X, Y)), rel=1e-5
    )
    assert set(records[0][1]) == {"batch_loss", "accepted", "damping", "step_size", "objective"}


def test_a_record_before_the_first_step_and_twice_at_one():
    _, records = call("sca", [0, 2, 2, 4], [0])
    assert records == []  # goals at or before the position are the caller's to leave out
    carry = engine.start(method(), PARAMS, feed(), KEY)
    goals = np.asarray([0, 2, 2, 4], np.int32)
    carry, made = engine.compiled(method(), carry, feed(), goals, np.int32(4), Objective(feed().data))
    np.testing.assert_array_equal(made.steps, goals)
    assert made.values["objective"][0] == pytest.approx(float(PROBLEM.objective(PARAMS, X, Y)), rel=1e-5)
    assert made.values["objective"][1] == made.values["objective"][2]


def test_nothing_compiles_anew():
    """For another number of steps or records, a short last stretch, another strength, key or learning rate."""
    engine.compiled.clear_cache()
    for steps, records, strength, seed in [(40, 4, 1e-3, 0), (3, 1, 1e-1, 1), (61, 13, 0.0, 2), (20, [7, 11], 1.0, 3)]:
        sca = scax.SCA(scax.Problem(NET.apply, scax.Squared(), scax.L2(strength)), damping=0.1 + strength)
        result = scax.train(
            sca, PARAMS, (X, Y), steps=steps, batch_size=6, records=records, key=jax.random.key(seed),
            callback=(lambda record: None) if seed else None,
        )  # fmt: skip
        assert result.steps == steps
    assert engine.compiled._cache_size() == 1


def test_until_ends_a_run_after_its_step():
    carry = engine.start(method(), PARAMS, feed(), KEY, until=_third_step)
    run = engine.run(method(), until=_third_step)
    (part,) = engine.drive(run, carry, feed(), [10, 20])
    assert part.is_over
    assert part.step == 3
    assert [record["step"] for record in part.records] == [3]


def _third_step(state, info):
    return state.count >= 3


@pytest.mark.parametrize("by_validation", [False, True])
def test_stopping(by_validation):
    """A value that falls to 1 and rises again: the least is kept, or the last."""
    values = [5.0, 2.0, 1.0, 1.5, 1.5, 1.5, 1.5, 1.5]
    toy = check_method(Counter())
    stopping = Stopping(0.1, 2, by_validation)
    carry = engine.start(toy, jnp.zeros(1), feed(), KEY, stopping=stopping)
    run = engine.run(toy, Falling(jnp.asarray(values)), stopping)
    parts = list(engine.drive(run, carry, feed(), range(1, 9)))
    assert parts[-1].is_over
    assert parts[-1].step == 5  # 1 at the third, two records without a fall
    best = parts[-1].carry.best
    assert float(best.value) == 1.0
    np.testing.assert_array_equal(best.params, [3.0 if by_validation else 5.0])


def test_a_value_that_is_not_a_number_is_no_improvement():
    toy, stopping = check_method(Counter()), Stopping(0.0, 9, True)
    carry = engine.start(toy, jnp.zeros(1), feed(), KEY, stopping=stopping)
    run = engine.run(toy, Falling(jnp.asarray([2.0, np.nan, 1.0, np.nan])), stopping)
    *_, last = engine.drive(run, carry, feed(), range(1, 5))
    np.testing.assert_array_equal(last.carry.best.params, [3.0])
    assert float(last.carry.best.value) == 1.0


@dataclasses.dataclass(frozen=True)
class Counter:
    """A method that counts its steps in its only weight."""

    problem = PROBLEM

    def init(self, params):
        return params

    def step(self, state, batch):
        return state + 1, types.SimpleNamespace(records={})

    def solution(self, state):
        return state


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Falling:
    values: jax.Array

    def __call__(self, method, state):
        value = self.values[state[0].astype(int) - 1]
        return {"objective": value, "validation_loss": value}


def test_drive_looks_in_between(monkeypatch):
    """A slow run is paused often, and after each record if wanted; seconds rise."""
    run = engine.run(method(), Objective(feed().data))
    ticks = itertools.count()
    monkeypatch.setattr(engine.time, "perf_counter", lambda: float(next(ticks)))  # every look takes a second or more
    begin = lambda: engine.start(method(), PARAMS, feed(), KEY)
    steps = [part.step for part in engine.drive(run, begin(), feed(), [10, 20, 40])]
    assert steps == [16, 20, *range(21, 41)]  # a quarter of a second would be fewer and fewer steps
    parts = list(engine.drive(run, begin(), feed(), [10, 20, 40], each_record=True))
    assert {10, 20, 40} <= {part.step for part in parts}
    assert all(len(part.records) <= 1 for part in parts)
    seconds = [record["seconds"] for part in parts for record in part.records]
    assert np.all(np.diff(seconds) > 0)


def test_agreed_lengths(monkeypatch):
    """Several processes take the length that one of them found."""
    monkeypatch.setattr(engine, "STRETCH", 1e9)
    run = engine.run(method())
    carry = engine.start(method(), PARAMS, feed(), KEY)
    steps = [part.step for part in engine.drive(run, carry, feed(), [9], agree=lambda count: min(count, 2))]
    assert steps == [2, 4, 6, 8, 9]


def test_more_records_than_a_call_holds(monkeypatch):
    monkeypatch.setattr(engine, "CAPACITY", 3)
    run = engine.run(method("adam"))
    carry = engine.start(method("adam"), PARAMS, feed(), KEY)
    records = [r["step"] for part in engine.drive(run, carry, feed(), range(1, 12)) for r in part.records]
    assert records == list(range(1, 12))


# -- train -------------------------------------------------------------------------------------------


def test_all_rows_in_every_step():
    sca = scax.SCA(PROBLEM)
    result = scax.train(sca, PARAMS, (X, Y), steps=6, batch_size=None, records=2)
    state = sca.init(PARAMS)
    for _ in range(6):
        state, _ = sca.step(state, (X, Y))
    np.testing.assert_allclose(result.state.w, state.w, rtol=1e-3, atol=1e-4)
    assert result.status == "steps"


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

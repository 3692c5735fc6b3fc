"""The one loop: where it pauses changes nothing, what it compiles, what it records, when it ends."""

import ast
import functools
import itertools
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

import scax
from scax.training import engine
from scax.training.evaluation import Objective
from scax.training.feed import rows_in_memory
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
    assert set(records[0][1]) == {"batch_loss", "accepted", "damping", "step_size", "clock", "multiplier", "objective"}


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


def test_steps_are_taken_in_one_place():
    """Nobody else calls a method's step, but the asynchronous worker and those who take a single one."""
    root = Path(scax.__file__).parent
    callers, askers = set(), set()
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = file.relative_to(root).as_posix()
            if isinstance(node.func, ast.Attribute) and node.func.attr == "step" and name != "report/charts.py":
                callers.add(name)
            if ast.unparse(node.func) == "isinstance" and "SCA" in ast.unparse(node.args[1]).split("."):
                askers.add(name)
    single = {"bridges/optax.py", "reproduce/speedup.py", "training/method.py"}
    assert callers == {"training/engine.py", "cluster/stale.py"} | single
    assert askers == {"sca.py"}  # the door of what nothing else can serve

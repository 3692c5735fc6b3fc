"""A run in its folder: pauses, checkpoints, records, the solution that becomes the model."""

import dataclasses
import itertools
import json

import jax
import numpy as np
import pytest

import scax
from scax.runs import folds, uncertainty
from scax.runs import session as sessions
from scax.runs.config import TrainConfig
from scax.runs.reading import survey
from scax.runs.results import finish
from scax.storage import load
from scax.storage.run_files import MODEL
from scax.storage.run_folder import RunFolderError

STEPS = 30


@pytest.fixture
def begin(tmp_path):
    """A function that starts a run in a folder of that name; all have one network, and share its programs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    rows = "".join(f"{a:.4f},{b:.4f},{np.sin(a) - b:.4f}\n" for a, b in x)
    (tmp_path / "t.csv").write_text("a,b,y\n" + rows)

    def start(name, **options):
        config = TrainConfig(str(tmp_path / "t.csv"), "y", hidden=[4], batch_size=8, **({"steps": STEPS} | options))
        return sessions.start(tmp_path / name, config, *survey(config), "scax train")

    return start


def go(session, on_record=lambda record: None, should_stop=lambda: False):
    return session.go(on_record, lambda step: None, should_stop, save_every=1e9)


def test_a_stopped_run_goes_on_to_the_bit(begin):
    whole, part = begin("whole"), begin("part")
    assert go(whole)
    assert not go(part, should_stop=lambda: part.step >= 10)
    assert 10 <= part.step < STEPS
    resumed = sessions.resume(part.folder)
    assert resumed.step == part.step
    assert go(resumed)
    jax.tree.map(np.testing.assert_array_equal, whole.carry, resumed.carry)
    without = lambda record: {name: value for name, value in record.items() if name != "seconds"}
    records = [[without(r) for r in sessions.read_metrics(s.folder)] for s in (whole, resumed)]
    assert records[0] == records[1]
    assert [r["step"] for r in records[0]] == sessions.goals(STEPS)


def test_records_hold_what_the_method_reports_and_what_is_measured(begin):
    session, seen = begin("run"), []
    go(session, on_record=seen.append)
    assert seen == sessions.read_metrics(session.folder)
    reported = {"batch_loss", "accepted", "damping", "step_size", "clock", "multiplier"}
    assert set(seen[0]) == reported | {"step", "seconds", "objective", "validation_loss", "RMSE"}
    assert seen[-1]["objective"] < 0.5 * seen[0]["objective"]
    assert all(a["seconds"] <= b["seconds"] for a, b in itertools.pairwise(seen))


def test_records_after_the_checkpoint_are_written_again(begin):
    session = begin("run")
    assert not go(session, should_stop=lambda: session.step >= 10)
    at = session.step
    last = sessions.read_metrics(session.folder)[-1]
    with open(session.folder / sessions.METRICS, "a") as metrics:
        metrics.write(json.dumps(last | {"step": at + 1}) + '\n{"step": 2')  # one too many, and one cut off
    assert sessions.resume(session.folder).step == at
    assert sessions.read_metrics(session.folder)[-1]["step"] <= at


@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_best_or_the_last_becomes_the_model(begin, keep):
    session = begin("run", keep=keep)
    go(session)
    results = finish(session)
    assert session.keep == keep
    records = sessions.read_metrics(session.folder)
    chosen = min(records, key=lambda r: r["validation_loss"]) if keep == "best" else records[-1]
    assert results["final"]["step"] == chosen["step"]
    weights = load(session.folder / MODEL).params
    expected = session.best.params if keep == "best" else session.method.solution(session.carry.state)
    sums = lambda tree: sorted(float(np.sum(np.asarray(leaf))) for leaf in jax.tree.leaves(tree))
    np.testing.assert_allclose(sums(weights), sums(expected), rtol=1e-6)


def test_a_changed_table_is_refused(begin):
    session = begin("run")
    table = dataclasses.asdict(session.config)["table"]
    with open(table, "a") as rows:
        rows.write("0,0,0\n")
    with pytest.raises(RunFolderError, match="has changed since the run was started"):
        sessions.resume(session.folder)


def test_goals_are_dense_at_first():
    assert sessions.goals(5) == [1, 2, 3, 4, 5]
    goals = sessions.goals(2000)
    assert goals[:4] == [1, 2, 3, 4]
    assert goals[-3:] == [1960, 1980, 2000]
    assert len(goals) < 115


def test_folds_are_scored_by_networks_that_have_not_seen_them(begin):
    whole, seen = begin("run"), []
    config = dataclasses.replace(whole.config, folds=2, test=0.0, steps=3)

    def on_step():
        seen.extend(whole.folder.glob(".fold-*.part/run/config.toml"))
        return False

    found = folds.scores(config, (), lambda fold, scores: seen.append(fold), on_step, whole.folder)
    assert [one for one in seen if one in (1, 2)] == [1, 2]
    assert len(seen) > 2  # in the run's folder, where the next command removes what a killed process has left
    assert not list(whole.folder.glob(".fold-*"))
    summary = folds.summary(found)
    assert summary["mean"]["RMSE"] == pytest.approx(np.mean([each["RMSE"] for each in found]))
    assert found[0]["RMSE"] != found[1]["RMSE"]
    assert folds.scores(config, (), lambda fold, scores: None, lambda: True, whole.folder) is None


def test_hundreds_of_classes_have_no_error_bars():
    net = scax.MLP((2, 4, 900))
    problem = scax.Problem(net.apply, scax.Softmax(), scax.L2(1e-3))
    rows = scax.Batch(np.zeros((200, 2), np.float32), np.zeros(200, np.int32))
    found = uncertainty.of_run(problem, net, net.init(jax.random.key(0)), rows, None, 200)
    assert found == "900 outputs are too many for error bars."

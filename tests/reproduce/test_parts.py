"""What the experiments are made of: data as the paper scales them, its baselines, repetitions that can be paired."""

import dataclasses
import gzip

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scax
from scax.reproduce import tables
from scax.reproduce.configs import PAPER_SETTINGS, TABLE2, Setting
from scax.reproduce.follow import folds, marks
from scax.reproduce.optimizers import optimizer, settings
from scax.tables import datasets

from .generated import table_of

LENGTH = 12


@pytest.mark.parametrize("row", TABLE2, ids=lambda row: row.label)
def test_tables_are_scaled_as_in_the_paper(row, tmp_path, monkeypatch):
    table_of(row, tmp_path, monkeypatch)
    x, y = tables.load(row, tmp_path)
    assert x.shape[1] == row.widths[0]
    assert x.dtype == y.dtype == np.float32
    np.testing.assert_allclose((x.min(axis=0), x.max(axis=0)), np.full((2, x.shape[1]), [[-0.5], [0.5]]), atol=1e-6)
    assert (y.min(), y.max()) == pytest.approx((-0.9, 0.9))
    if row.label == "SkillCraft1":  # one missing value, at the median of the others
        raw = np.arange(1, 40) % 7
        assert x[0, 0] == pytest.approx((np.median(raw) - raw.min()) / np.ptp(raw) - 0.5)


def test_missing_data_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SCAX_DATA", raising=False)
    with pytest.raises(datasets.DatasetError, match="scax datasets fetch casp"):
        tables.load(TABLE2[0], tmp_path)
    with pytest.raises(datasets.DatasetError, match="scax datasets fetch susy"):
        tables.susy(tmp_path)


def test_susy_whole_or_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tables, "SUSY_PIECES", dict.fromkeys(tables.SUSY_PIECES))  # no sums for generated events
    rng = np.random.default_rng(0)
    events = np.column_stack([np.arange(30) % 2, rng.normal(size=(30, 18)).round(3)])
    first, second = tables.SUSY_PIECES
    line = lambda values: ",".join(f"{v:g}" for v in values)
    head = ",".join(["label", *(f"f{i}" for i in range(18))])
    write = lambda extra, rows: "\n".join([f"{extra},{head}", *(f"0,{line(r)}" for r in rows)]) + "\n"
    (tmp_path / first).write_text(write("uci_row", events[:20]))
    (tmp_path / f"{second}.gz").write_bytes(gzip.compress(write("split", events[15:]).encode()))
    found, about = tables.susy(tmp_path)
    assert found.x.shape == (30, 18)  # five events are in both pieces
    assert "30 of 5,000,000" in about
    scaled = tables.scaled(found, "standard", "squared")
    np.testing.assert_allclose(scaled.x.std(axis=0), 1, atol=1e-5)
    assert set(np.round(scaled.y, 6)) == {np.float32(-0.9), np.float32(0.9)}

    entry = dataclasses.replace(datasets.REMOTE["susy"], rows=30)
    monkeypatch.setitem(datasets.REMOTE, "susy", entry)
    (tmp_path / "SUSY.csv").write_text("\n".join(line(row) for row in events) + "\n")
    for _ in range(2):  # read, then mapped from the cache
        whole, about = tables.susy(tmp_path)
        assert "all 30 events" in about
        np.testing.assert_allclose(whole.x, events[:, 1:], rtol=1e-6)
        np.testing.assert_array_equal(whole.y, events[:, 0])
    assert isinstance(whole.x, np.memmap)


@pytest.mark.parametrize("name", PAPER_SETTINGS)
def test_a_rate_in_the_state_is_the_optimizer_itself(name):
    """The same updates as optax's optimizer made with that rate or schedule."""
    rule = {"sgd": optax.sgd, "adam": optax.adam}
    rule["adagrad"] = lambda rate: optax.adagrad(rate, initial_accumulator_value=0.0)
    rule["rmsprop"] = lambda rate: optax.rmsprop(rate, decay=0.9)
    quadratic = [0.1]
    for _ in range(LENGTH):
        quadratic.append(quadratic[-1] * (1 - 0.01 * quadratic[-1]))
    schedules = {
        "constant": lambda n: 0.1,
        "cosine": lambda n: 0.05 * (1 + np.cos(np.pi * n / LENGTH)),
        "quadratic": lambda n: quadratic[n],
    }
    for decay, schedule in schedules.items():
        ours = optimizer(name)
        params = jnp.asarray([1.0, -2.0, 0.5])
        state = ours.init(params)
        chosen = settings([Setting(0.1, decay)], LENGTH)
        state = state._replace(hyperparams=jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), chosen))
        w = v = params
        for n in range(5):
            theirs = rule[name](float(schedule(n)))
            past = theirs.init(v) if n == 0 else past
            gradient = lambda w: jnp.sin(3 * w)
            updates, state = ours.update(gradient(w), state, w)
            w = w + updates
            updates, past = theirs.update(gradient(v), past, v)
            v = v + updates
        np.testing.assert_allclose(w - params, v - params, rtol=1e-5)  # of what both have moved


def test_a_repetition_is_the_same_whatever_runs_beside_it():
    net = scax.MLP((3, 4, 1))
    many, few = folds(net, 40, 10, range(5), 0), folds(net, 40, 10, [3, 1], 0)
    for a, b in zip(jax.tree.leaves(many.take([3, 1])), jax.tree.leaves(few), strict=True):
        np.testing.assert_array_equal(a, b)
    other = folds(net, 40, 10, [3, 1], 1)
    assert not np.array_equal(other.order, few.order)
    assert not np.array_equal(other.params[0]["weight"], few.params[0]["weight"])
    assert all(np.array_equal(np.sort(order), np.arange(40)) for order in many.order)


def test_marks_go_from_the_start_to_the_end():
    for steps in (1, 7, 500):
        found = marks(steps)
        assert (found[0], found[-1]) == (0, steps)
        assert len(found) == len(marks(2000))  # one compiled program whatever the length
        assert np.all(np.diff(found) >= 0)

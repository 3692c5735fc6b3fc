"""Everything a user can get wrong: one or two lines that say what, where and what to do; exit code 2; nothing left."""

import errno
import json
import os
from pathlib import Path

import pytest

from .tables import lines, numbered, regression

TABLES = {
    "a directory": (lambda p: p.mkdir() or p, "y", ["is a directory"]),
    "an empty file": (lambda p: p.touch() or p, "y", ["is empty"]),
    "a header only": (lambda p: lines(p, "a,y"), "y", ["row"]),
    "one row": (lambda p: lines(p, "a,y", "1,2"), "y", ["row"]),
    "no such target": (lambda p: numbered(p, "a,price", lambda i: f"{i},{i}.5"), "prize", ["'prize'", "'price'"]),
    "a constant target": (lambda p: numbered(p, "a,y", lambda i: f"{i},7"), "y", ["'y'"]),
    "inf in a column": (lambda p: numbered(p, "a,y", lambda i: f"{'inf' if i == 9 else i},{i}.5"), "y", ["'a'", "10"]),
    "inf in the target": (lambda p: numbered(p, "a,y", lambda i: f"{i},{'inf' if i == 9 else i}"), "y", ["'y'", "10"]),
    "a missing target": (lambda p: numbered(p, "a,y", lambda i: f"{i},{'' if i == 9 else i}"), "y", ["'y'", "10"]),
    "text in the target": (
        lambda p: numbered(p, "a,y", lambda i: f"{i},{'oops' if i == 9 else i + 0.5}"), "y", ["'y'", "oops"],
    ),
    "only missing columns": (lambda p: numbered(p, "a,y", lambda i: f",{i}.5"), "y", ["'a'"]),
    "ragged rows": (lambda p: numbered(p, "a,b,y", lambda i: "1,2" if i == 9 else f"{i},2,{i}.5"), "y", ["11"]),
    "a quote never closed": (lambda p: numbered(p, "a,y", lambda i: f'"{i},1' if i == 9 else f"{i},{i}.5"), "y", []),
    "two columns of one name": (lambda p: numbered(p, "a,a,y", lambda i: f"{i},1,{i}.5"), "y", ["'a'"]),
    "dates": (lambda p: numbered(p, "day,y", lambda i: f"2024-01-{i % 40 + 1:02d},{i}.5"), "y", ["'day'", "date"]),
    "an Excel workbook": (lambda p: p.write_bytes(b"PK\x03\x04" + b"0" * 100) and p, "y", ["Excel"]),
    "a truncated gzip file": (lambda p: p.write_bytes(b"\x1f\x8b\x08\x00" + b"0" * 30) and p, "y", []),
    "a wrong encoding": (lambda p: p.write_bytes(b"a,y\n" + b"caf\xe9,1\nth\xe9,2\n" * 30) and p, "y", ["encoding"]),
    "names as categories": (
        lambda p: numbered(p, "name,y", lambda i: f"person {i},{i}.5", rows=500), "y", ["'name'"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_bad_tables(refused, case):
    make, target, words = TABLES[case]
    table = make(Path("table.csv"))
    told = refused("train", table, "--target", target, "--steps", "5")
    for word in words:
        assert word in told, told


def test_missing_file(refused):
    assert "nowhere.csv" in refused("train", "nowhere.csv", "--target", "y")
    assert "nowhere.csv" in refused("compare", "nowhere.csv", "--target", "y")


def test_unreadable_file(refused, monkeypatch):
    import builtins

    regression(Path("secret.csv"))
    really = builtins.open

    def closed(path, *args, **kwargs):
        if str(path).endswith("secret.csv"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return really(path, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", closed)
    assert "may not be read" in refused("train", "secret.csv", "--target", "price")


def test_a_million_categories(refused):
    """A column of names that are all different would become a million inputs."""
    numbered(Path("names.csv"), "name,a,y", lambda i: f"n{i},{i % 7},{i % 11}.5", rows=1_000_000)
    assert "'name'" in refused("train", "names.csv", "--target", "y")


def test_leakage_is_a_warning(scax):
    numbered(Path("t.csv"), "a,again,y", lambda i: f"{i * i % 7},{i}.5,{i}.5")
    outcome = scax("train", "t.csv", "--target", "y", "--steps", "2", "--out", "run")
    assert outcome.code == 0, outcome.err
    assert "warning" in outcome.err
    assert "'again'" in outcome.err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--steps", "0"), ("--steps", "-5"), ("--steps", "1e99"), ("--batch-size", "0"), ("--l2", "-1"),
        ("--l2", "inf"),
        ("--l1", "nan"), ("--validation", "0.95"), ("--validation", "-0.1"), ("--seed", "-1"), ("--hidden", "0"),
        ("--hidden", "ten"), ("--hidden", "1000000000"), ("--activation", "tan"), ("--task", "regresion"),
        ("--keep", "all"), ("--save-every", "-1"), ("--encoding", "klingon"), ("--drop", "nothing"), ("--bogus", "1"),
    ],
)  # fmt: skip
def test_absurd_options(refused, option, value):
    regression(Path("t.csv"))
    told = refused("train", "t.csv", "--target", "price", option, value)
    assert option.lstrip("-").split("-")[0] in told or value in told


def test_no_penalty_at_all(refused):
    regression(Path("t.csv"))
    assert "--l2" in refused("train", "t.csv", "--target", "price", "--l2", "0")


def test_missing_arguments(refused):
    assert "TABLE" in refused("train")
    assert "--target" in refused("train", "t.csv")
    assert "RUN" in refused("resume")
    assert "?." not in (said := refused("trian"))
    assert "No such command" in said


def test_run_folder_exists(refused):
    regression(Path("t.csv"))
    Path("run").mkdir()
    assert "exists already" in refused("train", "t.csv", "--target", "price", "--out", "run")


def test_unknown_config_key(refused):
    regression(Path("t.csv"))
    lines(Path("c.toml"), "stepz = 5")
    told = refused("train", "t.csv", "--target", "price", "--config", "c.toml")
    assert "'stepz'" in told
    assert "'steps'" in told
    lines(Path("c.toml"), "steps = ")
    assert "TOML" in refused("train", "t.csv", "--target", "price", "--config", "c.toml")
    lines(Path("c.toml"), 'steps = "many"')
    assert "steps" in refused("train", "t.csv", "--target", "price", "--config", "c.toml")
    assert "nowhere.toml" in refused("train", "t.csv", "--target", "price", "--config", "nowhere.toml")


def test_disk_full(refused, monkeypatch):
    regression(Path("t.csv"))

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    told = refused("train", "t.csv", "--target", "price", "--steps", "2", "--out", "run")
    assert "disk is full" in told


def test_not_a_run_folder(refused):
    Path("other").mkdir()
    for command in ("resume", "report"):
        assert "not a" in refused(command, "other")
        assert "nowhere" in refused(command, "nowhere")
    regression(Path("t.csv"))
    assert "other" in refused("predict", "other", "t.csv")
    assert "nowhere" in refused("predict", "nowhere", "t.csv")
    assert "t.csv" in refused("predict", "t.csv", "t.csv")


def test_damaged_results(refused):
    for content in ("{", "[]", '{"kind": "compare"}', '{"kind": "compare", "methods": 3, "settings": {}}'):
        Path("run").mkdir(exist_ok=True)
        lines(Path("run/results.json"), content)
        assert "results.json" in refused("report", "run")
    Path("run/results.json").write_text(json.dumps({"kind": "compare", "format": 99}))
    assert "newer" in refused("report", "run")


def test_what_is_complained_of_is_what_was_given(refused):
    regression(Path("t.csv"))
    start = ("train", "t.csv", "--target", "price")
    assert "--strength is -1: it must be between 0 and 1,000,000" in refused(
        *start, "--penalty", "l1", "--strength", "-1"
    )
    assert "t.csv is a file" in refused(*start, "--out", "t.csv/run")
    assert "t.csv is a file" in refused("compare", "iris", "--out", "t.csv/run")


def test_a_class_without_rows_to_train_on_is_a_warning(scax):
    from scax.tables import Split

    held = Split(0.3, 0).held_out(0, 40)
    numbered(Path("t.csv"), "a,b,kind", lambda i: f"{i},7,{'rare' if i == held.argmax() else 'ab'[i % 2]}")
    outcome = scax("train", "t.csv", "--target", "kind", "--steps", "2", "--hidden", "2", "--out", "run")
    assert outcome.code == 0, outcome.err
    assert "The class 'rare' has no rows to train on" in outcome.err
    assert "t.csv: 40 rows, 2 columns beside the target, 1 input." in outcome.out
    assert "dropped            always the same value" in outcome.out

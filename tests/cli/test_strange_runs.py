"""Run folders that are damaged, or that a stranger made: one sentence each, and nothing outside is touched."""

import functools
import itertools
import json
import os
import secrets
import shutil
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from benchmarks import fuzz_runs
from scax.storage import container

from .tables import regression

SMALL = ("--steps", "12", "--batch-size", "8", "--hidden", "3")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run and a stopped one."""
    return fuzz_runs.seeds(tmp_path_factory.mktemp("seeds"), few=True)


@pytest.fixture
def copies(made, scax):
    for folder in made:
        shutil.copytree(folder, folder.name)
        Path(folder.name, ".lock").touch()  # stays after the first command
    return [folder.name for folder in made]


def test_mutants():
    """A short run of the fuzzer; python -m benchmarks.fuzz_runs is the long one."""
    assert fuzz_runs.run(60, few=True) == []


def test_the_fuzzer_allows_for_compiling_and_for_nothing_else(monkeypatch):
    monkeypatch.setattr(fuzz_runs, "SECONDS", 0.05)
    with fuzz_runs.limited(), pytest.raises(TimeoutError):
        all(True for _ in itertools.count())
    new = secrets.randbelow(10**6) / 1e6  # a program that no earlier run of the tests has stored
    traced = jax.jit(lambda x: functools.reduce(lambda x, _: jnp.sin(x @ x), range(50), x + new)).trace(jnp.eye(3))
    traced = traced.lower()
    before = time.process_time()
    with fuzz_runs.limited():
        traced.compile({"xla_backend_optimization_level": 1})
    assert time.process_time() - before > fuzz_runs.SECONDS


@pytest.mark.parametrize(
    "name", ["report.html", "metrics.jsonl", "checkpoint.safetensors", "model.safetensors", ".lock"]
)
def test_nothing_is_written_through_links(copies, scax, name):
    Path("precious").write_text("as it was\n")
    for folder in copies:
        file = Path(folder, name)
        file.unlink(missing_ok=True)
        file.symlink_to(Path("precious").absolute())
        for command in ("report", "resume"):
            assert scax(command, folder).code in (0, 2)
        assert Path("precious").read_text() == "as it was\n"


@pytest.mark.parametrize("name", ["config.toml", "environment.json", "metrics.jsonl", "preprocess.json", "schema.json"])
def test_pipes_and_devices_are_not_waited_for(copies, refused, name):
    for folder in copies[1:]:
        file = Path(folder, name)
        file.unlink()
        os.mkfifo(file)
        command = "report" if name == "schema.json" else "resume"
        told = refused(command, folder)
        assert name in told
        file.unlink()
        file.symlink_to("/dev/zero")
        assert name in refused(command, folder)


def test_a_network_of_another_size_is_refused_before_it_takes_memory(copies, refused):
    config = Path(copies[1], "config.toml")
    text = config.read_text()
    for hidden in ("[100000, 100000]", "[4]", "[]", "[3, 3]"):
        config.write_text(text.replace("hidden = [3]", f"hidden = {hidden}"))
        assert "checkpoint.safetensors holds another" in refused("resume", copies[1])
    config.write_text(text.replace("hidden = [3]", f"hidden = [{'3,' * 5000}]"))
    assert "5,000 layers" in refused("resume", copies[1])


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("steps = 5", "at step 12 of 5"),
        ("steps = '12'", "steps is a text"),
        ("hidden = ['3']", "hidden[0] is a text"),
        (f"steps = {'9' * 400}", "steps is too large"),
        (f"steps = {'9' * 5000}", "TOML"),
        ("drop = " + "[" * 5000, "nested too deeply"),
        (f"{'k' * 9000} = 3", "there is no option"),
        ("table = 'a\\u0000b'", "table"),
        (f"keep = '{'n' * 5000}'", "choose best or last"),
        (f"strength = '{'n' * 5000}'", "only auto is left"),
        (f"encoding = '{'x' * 5000}'", "use utf-8"),
    ],
)
def test_a_damaged_config(copies, refused, line, word):
    config = Path(copies[1], "config.toml")
    key = line.partition(" = ")[0]
    kept = [old for old in config.read_text().splitlines() if not old.startswith(f"{key} = ")]
    config.write_text("\n".join([*kept, line.replace("'", '"')]) + "\n")
    told = refused("resume", copies[1])
    assert word in told
    assert len(told) < 1000


def test_numbers_of_any_length_in_the_options(refused):
    regression(Path("t.csv"))
    for option in ("--steps", "--seed", "--batch-size"):
        assert f"{option} is too large" in refused("train", "t.csv", "--target", "price", option, "9" * 400)


def test_another_version_says_so(copies, scax):
    file = Path(copies[1], "environment.json")
    about = json.loads(file.read_text())
    about["packages"]["scax"] = "0.0.1"
    file.write_text(json.dumps(about))
    Path(copies[1], ".checkpoint.safetensors.12-abcd.part").touch()  # of a process that was killed
    outcome = scax("resume", copies[1])
    assert outcome.code == 0, outcome.err
    assert "the run was started with scax 0.0.1 (now" in outcome.err
    assert not list(Path(copies[1]).glob(".*.part"))


def test_what_killed_folds_have_left_is_removed(copies, scax):
    Path(copies[0], ".fold-abcd.part", "run").mkdir(parents=True)
    assert "nothing left to do" in scax("resume", copies[0]).out
    assert not list(Path(copies[0]).glob(".fold-*"))


def test_a_run_that_cannot_be_lengthened_stays_as_it_was(copies, refused):
    folder = Path(copies[0])
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.name != ".lock"}
    table, checkpoint = Path(folder, "preprocess.json"), Path(folder, "checkpoint.safetensors")
    table.write_text("{}")
    assert "preprocess.json" in refused("resume", copies[0], "--steps", "24")
    table.write_bytes(before["preprocess.json"])
    whole = container.read(checkpoint)
    container.write(checkpoint, "checkpoint", whole.description | {"info": {"step": "12"}}, whole.arrays)
    assert "step is a text" in refused("resume", copies[0], "--steps", "24")
    checkpoint.write_bytes(before["checkpoint.safetensors"])
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.name != ".lock"} == before

"""The folder of a run: its lock, its files, and what a stranger may have put in their places."""

import json
import math
import os
import subprocess
import sys

import pytest

from scax.storage import save_checkpoint
from scax.storage.run_files import read_comparison, read_environment, read_json, read_metrics, read_path, read_results
from scax.storage.run_folder import RunFolderError, aside, locked, other_versions, remove_stale, write_json
from tests.report.results import results

RECORD = {"step": 1, "seconds": 0.1, "objective": None}
PATH = {
    "strengths": [0.1, 0.2], "loss": [1.0, None], "error": [0.1, 0.1], "weights": [3, 2], "neurons": [1, 1],
    "inputs": [[0, 1], [1]], "best": 0, "chosen": 1, "penalty": "l1", "names": ["a", "b"],
}  # fmt: skip
TRAINED = {
    "kind": "train", "task": "multiclass", "score": {"name": "accuracy", "larger_is_better": True},
    "network": [4, 3], "weights": 15, "rows": {"train": 9, "validation": 2}, "kept": "best", "final": {"step": 3},
    "outputs": [[0, 1, 2.5], [None, 0, 1]], "truth": [0, 2],
}  # fmt: skip


def test_links_are_replaced_and_never_written_through(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    for name in ("results.json", "checkpoint.safetensors"):
        (tmp_path / name).symlink_to(precious)
    write_json(tmp_path / "results.json", {"a": math.inf})
    save_checkpoint(tmp_path / "checkpoint.safetensors", {"w": 1.0}, follow=False)
    assert precious.read_text() == "as it was"
    assert json.loads((tmp_path / "results.json").read_text()) == {"a": None}
    assert not (tmp_path / "checkpoint.safetensors").is_symlink()


@pytest.mark.parametrize("kind", ["link", "nowhere", "pipe"])
def test_a_lock_is_a_regular_file(tmp_path, kind):
    lock = tmp_path / ".lock"
    if kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(tmp_path / "elsewhere")
        if kind == "link":
            (tmp_path / "elsewhere").touch()
    with pytest.raises(RunFolderError, match=r"\.lock is .*: remove it"), locked(tmp_path):
        pytest.fail("locked")
    assert (tmp_path / "elsewhere").exists() == (kind == "link")


def test_one_process_at_a_time(tmp_path):
    with locked(tmp_path), pytest.raises(RunFolderError, match="in use"), locked(tmp_path):
        pytest.fail("locked twice")
    with locked(tmp_path):
        pass


def test_metrics(tmp_path):
    assert read_metrics(tmp_path) == []
    file = tmp_path / "metrics.jsonl"
    whole = json.dumps(RECORD) + "\n"
    file.write_text(whole + json.dumps(RECORD)[:10])
    assert read_metrics(tmp_path) == [RECORD]  # a last line that was cut off is left out
    for line in ("", "3", "{}", '{"step": 1.5}', '{"step": -1, "seconds": 0}', '{"step": 1, "seconds": 0, "a": []}'):
        file.write_text(whole + line + "\n")
        with pytest.raises(RunFolderError, match=r"metrics\.jsonl is damaged in line 2"):
            read_metrics(tmp_path)
    file.write_text(whole * 30_000)
    with pytest.raises(RunFolderError, match="30,000 records"):
        read_metrics(tmp_path)


def test_a_newer_format_is_not_called_damaged(tmp_path):
    write_json(tmp_path / "environment.json", {"format": 99})
    with pytest.raises(RunFolderError, match=r"newer scax \(format 99\)"):
        read_environment(tmp_path)
    write_json(tmp_path / "environment.json", {"format": 10**400})
    with pytest.raises(RunFolderError, match=r"environment\.json is damaged"):
        read_environment(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"loss": [1.0]}, "loss has 1 entries for 2 strengths"),
        ({"chosen": 2}, "chosen is 2"),
        ({"inputs": [[0], [2]]}, "without a name"),
        ({"inputs": [[0], [-1]]}, "without a name"),
        ({"penalty": "l2"}, "penalty is 'l2'"),
    ],
)
def test_path(tmp_path, change, why):
    assert read_path(tmp_path) is None
    write_json(tmp_path / "path.json", PATH)
    assert read_path(tmp_path) == PATH
    write_json(tmp_path / "path.json", PATH | change)
    with pytest.raises(RunFolderError, match=rf"path\.json is damaged: .*{why}"):
        read_path(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"truth": [0]}, "outputs for each of 1 rows"),
        ({"truth": [0, 3]}, "no class"),
        ({"truth": [0, 0.5]}, "no class"),
        ({"outputs": [[0, 1], [1, 1]]}, "3 outputs"),
        ({"task": "binary"}, "3 outputs for binary"),
        ({"final": {}}, "final has no step"),
        ({"network": [3]}, "no layers"),
        ({"linear": {"RMSE": "none"}}, "linear.RMSE is a text"),
        ({"test": {"classes": [{"class": "a", "recall": 1.0, "precision": 1.0}]}}, "has no 'rows'"),
    ],
)
def test_results_of_a_training(tmp_path, change, why):
    assert read_results(tmp_path) is None
    write_json(tmp_path / "results.json", TRAINED)
    assert read_results(tmp_path) == TRAINED
    write_json(tmp_path / "results.json", TRAINED | change)
    with pytest.raises(RunFolderError, match=rf"results\.json is damaged: .*{why}"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"methods": {}}, "is empty"),
        ({"ends": [1, 2, 4, 8, 16, 16]}, "does not rise"),
        ({"ends": [1, 2]}, "has not 3 times 2 values"),
        ({"one_class": [3]}, "no repeat"),
        ({"truth": [1.0]}, "outputs for each of 1 rows"),
        ({"score": {"name": 3, "larger_is_better": True}}, "score.name is a whole number"),
    ],
)
def test_results_of_a_comparison(tmp_path, change, why):
    with pytest.raises(RunFolderError, match="not a run folder"):
        read_comparison(tmp_path)
    write_json(tmp_path / "results.json", results())
    assert read_comparison(tmp_path)["settings"]["repeats"] == 3
    write_json(tmp_path / "results.json", results() | change)
    with pytest.raises(RunFolderError, match=rf"results\.json is damaged: .*{why}"):
        read_comparison(tmp_path)


def test_links_and_pipes_are_not_read(tmp_path):
    write_json(tmp_path / "real", {})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("link", "is a link"), ("pipe", "is not a regular file"), ("none", "is missing")):
        with pytest.raises(RunFolderError, match=why):
            read_json(tmp_path / name)


FILLING = """
import sys, time
from pathlib import Path
from scax.storage.run_folder import aside
with aside(Path(sys.argv[1])) as working:
    (working / "big").write_bytes(b"0" * 1000)
    print("filling", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_start_leaves_is_removed_by_the_next(tmp_path):
    processes = []
    for name in ("killed", "alive"):
        process = subprocess.Popen([sys.executable, "-c", FILLING, tmp_path / name], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "filling\n"
        processes.append(process)
    killed, alive = processes
    try:
        killed.kill()
        killed.wait()
        (tmp_path / ".empty.123-0123abcd.new").mkdir()  # killed before it was locked
        (tmp_path / ".other.123-0123abcd.new").write_text("a file")
        (tmp_path / ".mine.new").mkdir()
        assert len(os.listdir(tmp_path)) == 5
        with aside(tmp_path / "run") as working:
            (working / "results.json").touch()
            left = sorted(name.split(".")[1] for name in os.listdir(tmp_path))
            assert left == ["alive", "mine", "other", "run"]
        assert (tmp_path / "run/results.json").exists()
    finally:
        alive.kill()
        alive.wait()
    assert remove_stale(tmp_path) == 1
    assert sorted(os.listdir(tmp_path)) == [".mine.new", ".other.123-0123abcd.new", "run"]


def test_an_error_leaves_nothing(tmp_path):
    def fill():
        with aside(tmp_path / "a/run") as working:
            (working / "file").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fill()
    assert os.listdir(tmp_path / "a") == []


def test_a_lock_taken_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    from scax.storage import run_folder

    really, stolen = run_folder._open_lock, []

    def open_lock(path, make=True):
        if not stolen:  # another process is quicker
            stolen.append(path)
            os.rmdir(path.parent)
        return really(path, make)

    monkeypatch.setattr(run_folder, "_open_lock", open_lock)
    with aside(tmp_path / "run") as working:
        assert working != stolen[0].parent
    assert os.listdir(tmp_path) == ["run"]


def test_other_versions():
    from importlib.metadata import version

    here = {name: version(name) for name in ("scax", "jax", "jaxlib", "numpy")}
    assert other_versions(here) is None
    assert other_versions(here | {"scax": "0.0.1"}) == f"scax 0.0.1 (now {here['scax']})"
    assert "jax of an unknown version" in str(other_versions(here | {"jax": None}))

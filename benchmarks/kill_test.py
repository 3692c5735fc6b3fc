"""Kill a training run again and again at random moments, resume it each time, and compare with an undisturbed one.

    python -m benchmarks.kill_test --kills 100 --starts 20

Every kill is SIGKILL, anywhere between the start of the process and its end; `--starts` of them while the run folder is
being made. Passed if the final checkpoint and model are bit-identical to those of the run that was never stopped, if no
file was unreadable on the way, and if in the end nothing is there that the undisturbed run has not left, too.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def table(path: Path, rows: int = 400, seed: int = 0) -> None:
    """A small regression problem with a category and missing values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=rows)
    lines = ["a,b,c,kind,y"]
    for row, value in zip(x, y, strict=True):
        b = "" if rng.random() < 0.05 else f"{row[1]:.6f}"
        lines.append(f"{row[0]:.6f},{b},{row[2]:.6f},{'red' if row[3] > 0 else 'blue'},{value:.6f}")
    path.write_text("\n".join(lines) + "\n")


def scax(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "scax", *map(str, arguments)]


def run(kills: int, steps: int, seed: int, folder: Path, say=print, starts: int = 0) -> int:
    """Returns the number of kills that hit a running process; raises if anything differs or is left behind."""
    rng, options = random.Random(seed), ("--steps", steps, "--save-every", "0.02", "--hidden", "8,8")
    data = folder / "table.csv"
    table(data)
    calm, wild = folder / "calm", folder / "wild"
    began = time.monotonic()
    start = lambda place: scax("train", data, "--target", "y", "--out", place, *map(str, options))
    subprocess.run(start(calm), check=True, capture_output=True)
    whole = time.monotonic() - began
    say(f"undisturbed: {whole:.1f} s")
    hits = hits_at_start = 0
    while hits < kills:
        begun = (wild / "config.toml").exists()
        if not begun and hits_at_start < starts:
            process = _open(start(wild))
            if wait_for_start(process, wild, rng, whole):
                hits, hits_at_start = hits + 1, hits_at_start + 1
                say(f"kill {hits}, during the start: {len(os.listdir(folder)) - 2} folder(s) left for the next start")
            continue
        process = _open(scax("resume", wild, "--save-every", "0.02") if begun else start(wild))
        if wait(process, wild / "metrics.jsonl", rng, whole):
            _kill(process)
            hits += 1
            say(f"kill {hits}: {records(wild / 'metrics.jsonl')} records written")
            continue
        _, err = process.communicate()
        if process.returncode:
            raise SystemExit(f"after {hits} kills: {err.decode()}")
        compare(calm, wild)
        check_beside(folder)
        say(f"finished after {hits} kills, identical; starting over")
        shutil.rmtree(wild)
    if not (wild / "model.safetensors").exists():
        command = scax("resume", wild) if (wild / "config.toml").exists() else start(wild)
        subprocess.run(command, check=True, capture_output=True)
    compare(calm, wild)
    check_beside(folder)
    return hits


def _open(command: list[str]) -> subprocess.Popen:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def _kill(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def wait_for_start(process: subprocess.Popen, wild: Path, rng: random.Random, whole: float) -> bool:
    """Kill before the run folder has its name, half of the times while it is being filled; False if it was too late."""
    filled, goal = rng.random() < 0.5, None
    end = time.monotonic() + (10 if filled else rng.uniform(0.02, 0.6)) * whole
    while time.monotonic() < end and process.poll() is None and not wild.exists():
        if filled and goal is None and list(wild.parent.glob(f".{wild.name}.*.new")):
            goal = time.monotonic() + rng.expovariate(1 / (0.02 * whole))
        if goal is not None and time.monotonic() >= goal:
            break
        time.sleep(0.001)
    late = process.poll() is not None
    _kill(process) if not late else process.communicate()
    return not late and not wild.exists()


def wait(process: subprocess.Popen, metrics: Path, rng: random.Random, whole: float) -> bool:
    """Until the moment of the kill; False if the process ended before. Half of the moments are any, from reading the
    table on; the others are between two records, since starting up and compiling take most of a short run."""
    anywhen = rng.random() < 0.5
    goal = rng.randint(records(metrics) + 1, 100) if records(metrics) < 100 else 100
    end = time.monotonic() + (rng.uniform(0.05, 1.0) if anywhen else 10) * whole
    while time.monotonic() < end and process.poll() is None:
        if not anywhen and records(metrics) >= goal:
            time.sleep(rng.uniform(0, 0.03))
            break
        time.sleep(0.002)
    return process.poll() is None


def records(metrics: Path) -> int:
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def compare(calm: Path, wild: Path) -> None:
    """Weights, the state of the method and the records, to the bit; and the same files."""
    import json

    from scax.storage import read

    for name in ("checkpoint.safetensors", "model.safetensors"):
        a, b = read(calm / name), read(wild / name)
        assert a.arrays.keys() == b.arrays.keys(), name
        for key, value in a.arrays.items():
            assert value.dtype == b.arrays[key].dtype, (name, key)
            assert value.tobytes() == b.arrays[key].tobytes(), (name, key)
    told = [
        [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in folder.open()]
        for folder in (calm / "metrics.jsonl", wild / "metrics.jsonl")
    ]
    assert told[0] == told[1], "metrics.jsonl"
    assert sorted(os.listdir(calm)) == sorted(os.listdir(wild)), os.listdir(wild)


def check_beside(folder: Path) -> None:
    """Nothing is left beside the two runs and their table."""
    left = set(os.listdir(folder)) - {"table.csv", "calm", "wild"}
    assert not left, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--starts", type=int, default=20, help="kills among them while the run folder is being made")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        hits = run(options.kills, options.steps, options.seed, Path(folder), starts=options.starts)
    print(f"{hits} kills; final weights, state and records identical every time, and nothing left behind")


if __name__ == "__main__":
    main()

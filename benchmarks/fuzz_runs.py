"""Damage run folders in many ways and see that each is reported, resumed or refused: python -m benchmarks.fuzz_runs

A mutated folder goes through `scax report` and `scax resume`. Each must end with a result or with a sentence, within
seconds and without much memory; nothing outside the folder may be written, and no pipe or device read. Damage is of
bytes, of JSON and TOML values, of whole files (missing, empty, huge, deeply nested) and of their kind (links, pipes,
devices, folders). `--mutants 10000` is the full run; every failure is printed with the number that makes it again
(`--only NUMBER`). Work is done in processes that are started anew after a crash.
"""

import argparse
import contextlib
import hashlib
import inspect
import io
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from benchmarks.fuzz_files import STRANGE, edit, mutate, mutate_header

SECONDS = 5  # of processor time for one folder
WALL = 60  # seconds, on a machine that others use as well
MEMORY = 1 << 30  # bytes that one folder may add
BATCH = 500  # folders for one process
#: A mutant with another network or penalty compiles anew: what reading takes is limited here, not what XLA takes.
QUICKLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
NAMES = [
    "$x_1$",
    "\x1b[31mred",
    'font: 10px x; id="a"',
    "#010203",
    "</svg><script>",
    "a\nb",
    "\u202eabc",
    "n" * 5000,
    "{0}",
]
ODD_TOML = ["", "1e400", "-1", "[[[[1]]]]", "[" * 3000, '"' + "x" * 100_000 + '"', "true", "nan", "inf", "9" * 5000,
            "1979-05-27", "{ a = 1 }", '["\\u0000"]', "100000", "[100000, 100000]", "999999"]  # fmt: skip


def seeds(folder: Path, few: bool = False) -> list[Path]:
    """Whole run folders: trainings, finished and not, and a comparison."""
    from scax.cli.main import app

    def scax(*words: str) -> None:
        sys.argv = ["scax", *words]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            app()

    rng = np.random.default_rng(0)
    rows = [
        (a, b, "uvw"[i % 3], a - b, "pqr"[int(a > 0) + int(b > 0)]) for i, (a, b) in enumerate(rng.normal(size=(60, 2)))
    ]
    table = folder / "table.csv"
    table.write_text("a,b,c,y,k\n" + "".join(f"{a:.4f},{b:.4f},{c},{y:.4f},{k}\n" for a, b, c, y, k in rows))
    dated = folder / "dated.csv"
    comma = lambda value: f"{value:.4f}".replace(".", ",")
    lines = (f"{i % 28 + 1:02}.{i % 9 + 1:02}.2024;{comma(a)};{comma(y)}" for i, (a, _, _, y, _) in enumerate(rows))
    dated.write_text("\n".join(["day;a;y", *lines]) + "\n")
    small = ("--steps", "12", "--batch-size", "8", "--hidden", "3")
    plans = {
        "numbers": (str(table), "--target", "y", "--drop", "k"),
        "classes": (str(table), "--target", "k", "--drop", "y"),
        "path": (str(table), "--target", "y", "--drop", "k", "--penalty", "l1", "--strength", "auto"),
        "dates": (str(dated), "--target", "y", "--numbers", "bins", "--folds", "2"),
    }
    made = []
    for name, words in list(plans.items())[: 1 if few else None]:
        scax("train", *words, *small, "--out", str(folder / name))
        shutil.copytree(folder / name, folder / f"{name}-stopped")
        for file in ("results.json", "model.safetensors"):
            (folder / f"{name}-stopped" / file).unlink()
        config = folder / f"{name}-stopped" / "config.toml"
        config.write_text(config.read_text().replace("steps = 12", "steps = 24"))
        made += [folder / name, folder / f"{name}-stopped"]
    if not few:
        for name in ("iris", "diabetes"):
            scax(
                "compare", name, "--methods", "sca,adam", "--steps", "8", "--repeats", "2", "--out", str(folder / name)
            )
            made.append(folder / name)
    for place in made:
        for file in ("report.html", ".lock"):
            (place / file).unlink(missing_ok=True)
        assert any(place.iterdir()), place
    return made


def damage(folder: Path, rng: random.Random, outside: Path) -> None:
    """Change one or two files of a run folder."""
    for _ in range(rng.choice([1, 1, 1, 2])):
        files = sorted(p for p in folder.iterdir() if p.is_file() and not p.is_symlink() and _is_ordinary(p))
        if not files:
            return
        path = rng.choice([*files, folder / "report.html", folder / ".lock"])
        how = rng.random()
        if how < 0.15 or path not in files:
            _replace(path, rng, outside)
        elif how < 0.4:
            path.write_bytes(mutate(path.read_bytes(), rng, [f.read_bytes() for f in files]))
        else:
            _edit_values(path, rng)


def _is_ordinary(path: Path) -> bool:
    """Whether the file has not been replaced by a huge one, or by another name of a file outside."""
    return path.stat().st_size < 1 << 27 and path.stat().st_nlink == 1


def _replace(path: Path, rng: random.Random, outside: Path) -> None:
    """Something else under the file's name."""
    if os.path.lexists(path):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    how = rng.randrange(11)
    if how == 0:
        path.symlink_to(outside)
    elif how == 1:
        path.symlink_to(path.parent / "nowhere")
    elif how == 2:
        path.symlink_to(path.name)
    elif how == 3:
        path.symlink_to(rng.choice(["/dev/zero", "/dev/full", "/dev/null", "/dev/stdin", "/proc/self/mem"]))
    elif how == 4:
        os.mkfifo(path)
    elif how == 5:
        path.mkdir()
    elif how == 6:
        path.touch()
    elif how == 7:
        with open(path, "wb") as file:
            file.truncate(rng.choice([1 << 28, 1 << 34, 1 << 40]))  # of zeros that take no space
    elif how == 8:
        path.write_text(rng.choice(["[", '{"a":', "a = [", "[[[]],"]) * rng.choice([100, 100_000, 2_000_000]))
    elif how == 9:
        os.link(outside, path)


def _edit_values(path: Path, rng: random.Random) -> None:
    """A file that can still be parsed, with other values in it."""
    data = path.read_bytes()
    if path.suffix == ".safetensors":
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # damaged before
            path.write_bytes(mutate_header(data, rng))
    elif path.suffix == ".toml":
        path.write_text("\n".join(_edit_toml(data.decode(errors="replace").splitlines(), rng)) + "\n")
    elif path.suffix == ".jsonl":
        lines = data.decode(errors="replace").splitlines()
        if lines:
            at = rng.randrange(len(lines))
            lines[at] = _edit_json(lines[at], rng)
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text(_edit_json(data.decode(errors="replace"), rng))


def _edit_json(text: str, rng: random.Random) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text + "]"
    for _ in range(rng.choice([1, 1, 2, 3])):
        edit(value, rng, [*STRANGE, *NAMES, 10**400, 1e-300, -1e300, "\ud800", [1] * 1000, {"a": {"b": [{}]}}])
    return json.dumps(value)


def _edit_toml(lines: list[str], rng: random.Random) -> list[str]:
    at = rng.randrange(len(lines)) if lines else 0
    key = lines[at].partition(" = ")[0] if lines else "steps"
    choice = rng.randrange(4)
    if choice == 0:
        return lines[:at] + lines[at + 1 :]
    if choice == 1:
        return [*lines, f"{rng.choice(['x', key, 'a.b.c', 'hidden.a'])} = {rng.choice(ODD_TOML)}"]
    value = rng.choice([*ODD_TOML, *(json.dumps(name) for name in NAMES)])
    return [*lines[:at], f"{key} = {value}", *lines[at + 1 :]]


@contextlib.contextmanager
def remembered_charts() -> Iterator[None]:
    """Draw each chart once: a mutant leaves most of them as they were, and drawing takes nearly all of the time."""
    from scax.report import charts

    def remember(draw: Callable[..., str]) -> Callable[..., str]:
        drawn: dict[bytes, str] = {}

        def recall(*given: Any, **options: Any) -> str:
            key = hashlib.sha256(pickle.dumps((given, options))).digest()
            if key not in drawn:
                drawn[key] = draw(*given, **options)
            return drawn[key]

        return recall

    mine = lambda one: inspect.isfunction(one) and one.__module__ == charts.__name__
    functions = inspect.getmembers(charts, mine)
    before = {name: draw for name, draw in functions if draw.__annotations__.get("return") is str}
    assert before
    for name, draw in before.items():
        setattr(charts, name, remember(draw))
    try:
        yield
    finally:
        for name, draw in before.items():
            setattr(charts, name, draw)


def try_folder(folder: Path) -> None:
    """`scax report` and `scax resume`, of a finished run with `--steps`; stopped after its first steps. Anything but a
    sentence gets out."""
    from scax.cli import interrupts, train_run
    from scax.cli.errors import explain
    from scax.report.build import build

    steps = 36 if os.path.lexists(folder / "model.safetensors") else None
    for command in (lambda: build(folder), lambda: train_run.again(folder, 1e6, False, None, steps)):
        told = io.StringIO()
        asked, interrupts.asked = interrupts.asked, lambda: True
        try:
            with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
                command()
        except SystemExit as end:
            if end.code != 130:
                raise AssertionError(f"exit code {end.code}") from None
        except Exception as error:
            sentence = explain(error)
            if sentence is None:
                raise
            if len(sentence) > 1000 or len(sentence.splitlines()) > 2:
                raise AssertionError(f"not a sentence: {sentence[:100]!r}") from None
        finally:
            interrupts.asked = asked
        if "\x1b" in told.getvalue() or "Traceback" in told.getvalue():
            raise AssertionError(f"in the terminal: {told.getvalue()[:200]!r}")


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Too much time, by the processor or by the clock, is an exception; after compiling, time starts anew."""

    def start(number: int = signal.SIGALRM, frame: FrameType | None = None) -> None:
        if frame is not None and not _is_compiling(frame):
            raise TimeoutError("took too long")
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(WALL)

    before = {number: signal.signal(number, start) for number in (signal.SIGALRM, signal.SIGPROF)}
    start()
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_compiling(frame: FrameType | None) -> bool:
    """Whether XLA is compiling where a signal came: Python's handlers wait until it has."""
    while frame is not None and frame.f_globals.get("__name__") != "jax._src.compiler":
        frame = frame.f_back
    return frame is not None


def fuzz(made: list[Path], numbers: range, seed: int, work: Path) -> Iterator[tuple[int, str | None]]:
    """(number, what went wrong) of each mutant; work/at holds the number at which a process died."""
    outside = work / "outside"
    for whole in made:  # import and compile before the clock counts
        shutil.copytree(whole, work / "run")
        try_folder(work / "run")
        shutil.rmtree(work / "run")
    for number in numbers:
        (work / "at").write_text(str(number))
        rng = random.Random(f"run {seed} {number}")
        outside.write_text("precious\n")
        folder = work / "run"
        shutil.copytree(rng.choice(made), folder)
        damage(folder, rng, outside)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wrong = None
        try:
            with limited(), warnings.catch_warnings():
                warnings.simplefilter("error")
                try_folder(folder)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            wrong = f"{type(error).__name__}: {str(error)[:300]} {_where(error)}"
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        if wrong is None and grown > MEMORY:
            wrong = f"{grown:,} bytes of memory"
        if wrong is None and outside.read_text() != "precious\n":
            wrong = "a file outside was written"
        yield number, wrong
        shutil.rmtree(folder)
        for other in work.iterdir():
            if other.name not in {"at", "outside"}:
                wrong = f"left behind: {other.name}"
                yield number, wrong
                shutil.rmtree(other) if other.is_dir() else other.unlink()


def _where(error: BaseException) -> str:
    """The innermost line of ours."""
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if f"{os.sep}scax{os.sep}" in code.co_filename:
            place = f"({Path(code.co_filename).name}:{trace.tb_lineno} {code.co_name})"
        trace = trace.tb_next
    return place


def run(mutants: int, seed: int = 0, few: bool = False) -> list[str]:
    """All failures of a short run in this process: for the test suite."""
    with tempfile.TemporaryDirectory() as folder:
        places = Path(folder, "seeds"), Path(folder, "work")
        for place in places:
            place.mkdir()
        made = seeds(places[0], few)
        with remembered_charts():
            return [f"{n}: {wrong}" for n, wrong in fuzz(made, range(mutants), seed, places[1]) if wrong]


def worker(made: Path, start: int, stop: int, seed: int, work: Path) -> None:
    """One line per failure on stdout."""
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
    folders = sorted(p for p in made.iterdir() if p.is_dir())
    with remembered_charts():
        for number, wrong in fuzz(folders, range(start, stop), seed, work):
            if wrong:
                print(f"{number}: {wrong}", flush=True)
    (work / "at").write_text(str(stop))


def main() -> int:
    parser = argparse.ArgumentParser(description="Damage run folders in many ways and see that each is refused.")
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one mutant, with its traceback")
    parser.add_argument("--seeds", type=Path, help="a folder to make the whole run folders in, or to take them from")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after these")
    parser.add_argument("--worker", nargs=4, metavar=("SEEDS", "START", "STOP", "WORK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        made, start, stop, work = options.worker
        worker(Path(made), int(start), int(stop), options.seed, Path(work))
        return 0
    began, failures, done = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        made, work = options.seeds or Path(folder, "seeds"), Path(folder, "work")
        work.mkdir()
        if not made.exists():
            made.mkdir()
            seeds(made)
        found = [p for p in made.iterdir() if p.is_dir()]
        if options.only is not None:
            rng = random.Random(f"run {options.seed} {options.only}")
            (work / "outside").write_text("precious\n")
            shutil.copytree(rng.choice(sorted(found)), work / "run")
            damage(work / "run", rng, work / "outside")
            subprocess.run(["ls", "-la", str(work / "run")], check=True)
            try_folder(work / "run")
            return 0
        while done < options.mutants and time.monotonic() - began < 60 * options.minutes:
            stop = min(done + BATCH, options.mutants)
            command = [sys.executable, "-m", "benchmarks.fuzz_runs", "--seed", str(options.seed), "--worker"]
            ended = subprocess.run(
                [*command, str(made), str(done), str(stop), str(work)],
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {QUICKLY}"},
            )
            print(ended.stdout, end="", flush=True)
            failures += ended.stdout.count("\n")
            done = stop
            if ended.returncode:
                if not (work / "at").exists():
                    sys.exit(f"the whole folders are not read as they should be:\n{ended.stderr}")
                at = int((work / "at").read_text())
                last = ended.stderr.strip().splitlines()[-1:] or [""]
                print(f"{at}: the process died ({ended.returncode}): {last[0][:200]}", flush=True)
                failures, done = failures + 1, at + 1
                shutil.rmtree(work / "run", ignore_errors=True)
    spent = time.monotonic() - began
    print(f"{done:,} run folders through report and resume, {failures} failures, {spent:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

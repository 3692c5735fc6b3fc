"""The first `SCARegressor().fit` of a process, on 1,000 rows, its programs compiled or stored by an earlier process.

    python -m benchmarks.first_fit [--rows 1000] [--repeats 3] [--out docs/results] [--show]

Each fit has a process of its own. Seconds are those of `fit` alone, wall and processor, the least of the repeats; the
second fit of the same process, in which everything is compiled already, says what is left of them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import pages

TARGET = 2.0  # seconds of wall time
#: Where the programs come from.
PROGRAMS = ("none stored", "stored by an earlier process")


def fit_twice(rows: int) -> dict[str, float]:
    """In this process: seconds of importing, of the first fit, and of the second."""
    began = time.perf_counter()
    from scax.estimators import SCARegressor

    seconds = {"import": time.perf_counter() - began}
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 8))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=rows)
    for name in ("first", "second"):
        wall, processor = time.perf_counter(), time.process_time()
        model = SCARegressor().fit(x, y)
        seconds |= {name: time.perf_counter() - wall, f"{name}_processor": time.process_time() - processor}
    return seconds | {"r2": model.score(x, y)}


def in_process(rows: int, folder: str) -> dict[str, float]:
    """The same in a new process with this folder of programs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_COMPILATION_CACHE")}
    command = [sys.executable, "-m", "benchmarks.first_fit", "--rows", str(rows), "--here"]
    done = subprocess.run(command, env=environment | {"SCAX_CACHE": folder}, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def markdown(fits: list[dict]) -> str:
    body = []
    for least in fits:
        verdict = f", ≤ {TARGET:g} {'met' if least['first'] <= TARGET else 'missed'}"
        seconds = [f"{least[key]:.2f}" for key in ("first", "first_processor", "second", "second_processor")]
        body.append([least["programs"], seconds[0] + verdict, *seconds[1:]])
    head = ["compiled programs", "first fit, s (wall)", "(processor)", "second fit, s (wall)", "(processor)"]
    return pages.table(head, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--show", action="store_true", help="write the table of docs/measurements/speed.md, no more")
    options = parser.parse_args()
    if options.show:
        fits = json.loads((pages.DOCS / "results/first-fit.json").read_text())["rows"]
        pages.write_tables(pages.DOCS / "measurements/speed.md", {"first-fit": markdown(fits)})
        return
    if options.here:
        print(json.dumps(fit_twice(options.rows)))
        return
    measured: list[list[dict]] = [[], []]
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as folder:  # the first process fills it for the second
            for fits in measured:
                fits.append(in_process(options.rows, folder))
    rows = []
    for programs, fits in zip(PROGRAMS, measured, strict=True):
        rows.append({"programs": programs, **{key: min(fit[key] for fit in fits) for key in fits[0]}})
    print(markdown(rows))
    if options.out is not None:
        command = f"python -m benchmarks.first_fit --rows {options.rows} --repeats {options.repeats}"
        options.out.mkdir(parents=True, exist_ok=True)
        pages.write_rows(options.out / "first-fit.json", rows, command)


if __name__ == "__main__":
    main()

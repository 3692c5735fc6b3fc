"""The tables of docs/measurements/outputs.md, from the results of the benchmarks of many outputs.

python -m benchmarks.outputs_page
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import outputs, outputs_batches, outputs_study
from benchmarks.pages import DOCS, table, write_tables
from benchmarks.steps import CASES

PAGE, RESULTS = DOCS / "measurements/outputs.md", DOCS / "results"
TARGETS = {case.name: case.target for case in CASES}


def read(name: str) -> Any:
    """A results file, None where there is none yet."""
    file: Path = RESULTS / name
    return json.loads(file.read_text()) if file.exists() else None


def verdict(name: str, ratio: float, platform: str) -> str:
    target = TARGETS[name].get(platform)
    return "" if target is None else f"{target:g}" + ("" if ratio <= target else ", missed")


def cpu_steps(results: dict) -> str:
    """Of the default, in the loop of `train`; the processor's time decides on a busy machine."""
    body = []
    for row in results["steps"]:
        own, bare = row["methods"]["auto"], row["methods"]["auto, no acceptance"]
        cells = [f"{own['processor_ratio']:.1f}", f"{bare['processor_ratio']:.1f}"]
        cells += [f"{own['ratio']:.1f}", f"{own['ratio_low']:.1f}–{own['ratio_high']:.1f}"]
        body.append((row["case"], str(row["batch"]), *cells, verdict(row["case"], own["processor_ratio"], "cpu")))
    return table(("network", "L", "processor", "without acceptance", "wall", "range", "target"), body)


def loop(results: dict) -> str:
    """Of the default, in one scan, and the same with XLA's autotuning."""
    body, platform = [], results["machine"]["platform"]
    for case in dict.fromkeys(row["case"] for row in results["steps"]):
        cells = [case]
        for rows in (results["steps"], results["autotuned"]):
            own = {row["method"]: row for row in rows if row["case"] == case}
            cells += [f"{own[name]['microseconds']:.0f}" if name in own else "" for name in ("Adam", "auto")]
            cells += [f"{own['auto']['ratio']:.2f}" if "auto" in own else ""]
        plain = next(row for row in results["steps"] if row["case"] == case and row["method"] == "auto")
        cells[4:4] = [f"{plain['low']:.2f}–{plain['high']:.2f}", verdict(case, plain["ratio"], platform)]
        body.append(cells)
    head = ("network", "Adam, µs", "SCA, µs", "step / Adam's", "range", "target")
    return table((*head, "autotuned: Adam", "SCA", "step / Adam's"), body)


def parts(results: dict) -> str:
    """Of the cases that were measured without their parts."""
    rows = results["steps"]
    cases = dict.fromkeys(row["case"] for row in rows if row["method"] not in ("Adam", "auto"))
    body = [
        (row["case"], row["method"], f"{row['microseconds']:.0f}", f"{row['ratio']:.2f}", str(row["fusion"]))
        for row in rows
        if row["case"] in cases
    ]
    return table(("network", "step", "µs", "/ Adam's", "fusions"), body)


def systems(results: dict) -> str:
    """Large systems of equations."""
    ms = lambda seconds: f"{1e3 * seconds:.1f}"
    body = [
        (f"{row['equations']:,}", row["dtype"], ms(row["cho_factor, cho_solve"]), ms(row["step"]))
        for row in results["systems"]
    ]
    return table(("equations", "precision", "cho_factor and cho_solve, ms", "whole step, ms"), body)


def damping(results: dict) -> str:
    """Objectives by the share."""
    body, rows = [], results["rows"]
    for name in dict.fromkeys(row["set"] for row in rows):
        own = {row["share"]: row["objectives"] for row in rows if row["set"] == name}
        for i, steps in enumerate(outputs_study.ENDS):
            reached = [own[share][i] if len(own.get(share, ())) > i else None for share in outputs_study.SHARES]
            body.append((name, f"{steps:,}", *("" if value is None else f"{value:.3g}" for value in reached)))
    return table(("set", "steps", *(f"{share:g}" for share in outputs_study.SHARES)), body)


#: name between the marks -> (results file, what makes the table of it)
TABLES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "trainings": ("outputs-cpu.json", lambda results: outputs.tabulate(results["trainings"])),
    "steps": ("outputs-cpu.json", cpu_steps),
    "loop": ("loop-gpu.json", loop),
    "parts": ("loop-gpu.json", parts),
    "systems": ("loop-gpu.json", systems),
    "batches": ("batches-gpu.json", lambda results: outputs_batches.tabulate(results["rows"])),
    "directions": ("outputs-directions.json", lambda results: outputs_study.tabulate(results["rows"])),
    "damping": ("outputs-damping.json", damping),
}


def main() -> None:
    made = {name: (read(file), make) for name, (file, make) in TABLES.items()}
    write_tables(PAGE, {name: make(results) for name, (results, make) in made.items() if results is not None})


if __name__ == "__main__":
    main()

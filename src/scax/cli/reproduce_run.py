"""What `scax reproduce` does once its options are read: run with a progress bar, write, show."""

import json
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .._untrusted import Unreadable, check
from ..reproduce.configs import SUSY_ITERATIONS, TABLE2
from ..reproduce.page import page
from ..reproduce.page_table2 import baselines
from ..reproduce.regression import regression
from ..reproduce.speedup import speedup
from ..reproduce.susy import susy
from ..reproduce.tables import load
from ..reproduce.tables import susy as susy_table
from ..reproduce.words import mse, score, seconds
from ..storage.run_files import read_json
from ..storage.run_folder import FORMAT, RunFolderError, environment, free, locked
from ..storage.whole import remove_parts, write_text
from . import interrupts
from .words import say

KIND = "reproduce"
RESULTS = "results.json"
FEWER = 5  # SUSY, with 70 times the weights, gets a fifth of the repetitions
Tick = Callable[[str, int, int], Any]


class Results(TypedDict):
    """results.json: what each part gave, that of table2 by the number of iterations."""

    kind: Literal["reproduce"]
    table2: NotRequired[dict[str, dict[str, Any]]]
    susy: NotRequired[dict[str, Any]]
    speedup: NotRequired[dict[str, Any]]


def read(place: Path) -> Any:
    """The results in a folder."""
    file = place / RESULTS
    results = read_json(file)
    if not isinstance(results, dict) or results.get("kind") != KIND:
        raise RunFolderError(f"{place} holds results of another command. Give another --out.")
    try:
        check(results, Results)
    except Unreadable as error:
        raise RunFolderError(f"{file} {error}. Restore it, or run again.") from None
    if not all(steps.isascii() and steps.isdigit() and len(steps) < 10 for steps in results.get("table2", {})):
        raise RunFolderError(f"{file} is damaged: table2 has a number of iterations that is none. Restore it.")
    return results


def folder(out: Path | None, fresh: bool) -> Path:
    """The folder of the results: a new one, or one that has results of this command."""
    if out is None:
        return free("reproduce")
    if out.exists() and any(path.name != ".lock" for path in out.iterdir()):
        read(out)
    elif not fresh:
        raise RunFolderError(f"{out} holds no results. Run scax reproduce table2 --out {out} first.")
    return out


def run(
    place: Path,
    parts: Sequence[str],
    repeats: int,
    lengths: Sequence[int],
    data_dir: Path | None,
    seed: int,
    workers: int,
) -> None:
    """Run the parts; results.json is written after each, so that a stop loses one part at most."""
    workers = workers or os.cpu_count() or 1
    # what is not here is said before anything is made
    tables = [load(row, data_dir) for row in TABLE2] if "table2" in parts else []
    events = susy_table(data_dir) if "susy" in parts else None
    place.mkdir(parents=True, exist_ok=True)
    with locked(place), _progress() as progress:
        remove_parts(place)
        file = place / RESULTS
        results = read(place) if file.exists() else {"format": FORMAT, "kind": KIND}

        def save(keys: Sequence[str], study: dict[str, Any]) -> None:
            study |= {"command": _command(*keys, repeats=repeats, seed=seed), "environment": environment()}
            where = results
            for key in keys[:-1]:
                where = where.setdefault(key, {})
            where[keys[-1]] = study
            text = json.dumps(results, indent=None, separators=(",", ":"), ensure_ascii=False)
            write_text(file, text + "\n", follow=False)

        if "table2" in parts:
            for steps in lengths:
                tick = _ticker(progress, f"{steps:,} iterations")
                study = regression(TABLE2, tables, repeats=repeats, steps=steps, seed=seed, tick=tick, workers=workers)
                save(("table2", str(steps)), study)
        if events is not None:
            few = max(1, repeats // FEWER)
            tick = _ticker(progress, "SUSY")
            study = susy(*events, repeats=few, steps=SUSY_ITERATIONS, seed=seed, tick=tick)
            save(("susy",), study)
        if "speedup" in parts:
            save(("speedup",), speedup(tick=_ticker(progress, "speed-up")))


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.completed:.0f}/{task.total:.0f} runs"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _ticker(progress: Progress, about: str) -> Tick:
    bars: dict[str, Any] = {}

    def tick(name: str, done: int, total: int) -> None:
        if name not in bars:
            bars[name] = progress.add_task(f"{name}, {about}", total=total)
        progress.update(bars[name], completed=done)
        interrupts.check()

    return tick


def write(place: Path) -> Path:
    """reproduction.md and its figures, from results.json; what matters most in the terminal."""
    results = read(place)
    try:
        return _write(place, results)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration) as error:
        why = f"{place / RESULTS} is damaged, or of another version of scax ({type(error).__name__})"
        raise RunFolderError(f"{why}. Restore it, or run again.") from error


def _write(place: Path, results: dict[str, Any]) -> Path:
    from ..reproduce.figures import figures

    for name, svg in figures(results):
        write_text(place / f"{name}.svg", svg, follow=False)
    text = page(results, lambda name, alt: f"![{alt}]({name}.svg)")
    write_text(place / "reproduction.md", text, follow=False)
    for steps, study in results.get("table2", {}).items():
        _show_table2(int(steps), study)
    for problem in results.get("susy", {"problems": {}})["problems"].values():
        cells = [f"{m['label']} {score(m['auc'])}" for m in problem["methods"].values()]
        say(f"SUSY, {problem['about']}, test AUC: {'; '.join(cells)}")
    if "speedup" in results:
        study = results["speedup"]
        cells = [f"C = {c} {seconds(unit)}" for c, unit in zip(study["blocks"], study["unit"], strict=True)]
        cells += [f"{name} {seconds(value)}" for name, value in study["lines"].items()]
        say(f"Processor seconds per iteration of one unit: {'; '.join(cells)}")
    return place / "reproduction.md"


def _show_table2(steps: int, study: dict[str, Any]) -> None:
    shown = Table(
        title=f"Test MSE after {steps:,} iterations, {study['repeats']} repetitions", title_justify="left",
        title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    shown.add_column("")
    for label in study["rows"]:
        shown.add_column(label, justify="right", no_wrap=True)
    rows = study["rows"].values()
    short = lambda text: text.replace(" ± ", "±").replace("0.", ".")
    printed = lambda name: [short(f"{row['paper'][name][0]:.4f} ± {row['paper'][name][1]:.4f}") for row in rows]
    shown.add_row("printed, Adam", *printed("adam"))
    shown.add_row("printed, SCA", *printed("sca"))
    rivals = baselines(study)
    names = [*(f"{n}-paper" for n in rivals), *(f"{n}-tuned" for n in rivals), "sca-paper", "sca-damped", "sca"]
    for name in names:
        label = next(iter(rows))["methods"][name]["label"].replace("the paper's settings", "the paper's")
        cells = [short(mse(row["methods"][name]["test"])) for row in rows]
        shown.add_row(label, *cells, style="bold" if name == "sca" else None)
    Console().print(shown)


def _command(part: str, steps: str = "500", *, repeats: int, seed: int) -> str:
    """The command that gives these results, and no others; where the data lie is left to the reader."""
    words = ["scax", "reproduce", part]
    if part != "speedup":
        words += ["--repeats", str(repeats)]
    if steps != "500":
        words += ["--iterations", steps]
    if seed:
        words += ["--seed", str(seed)]
    return shlex.join(words)

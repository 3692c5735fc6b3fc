"""What `scax compare` does once its options are read: load, run with a progress bar, show."""

import dataclasses
import math
from pathlib import Path
from typing import Any, cast

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .._text import printable
from ..report.numbers import margin
from ..report.summary import NEAR, Interval, best, headline, missing, places, rows, without_score
from ..storage.run_files import Comparison
from ..storage.run_folder import FORMAT, environment
from ..tables import Preprocess, open_table
from ..tables.bundled import BUNDLED, Arrays, bundled
from ..tables.datasets import REMOTE, find
from ..training import methods as available
from ..training.compare import Settings, compare
from . import interrupts
from .errors import UserError
from .words import count, near

MOST_BYTES = 256 << 20  # of the encoded rows of a table: each repeat makes copies of its own


def methods(wanted: list[str]) -> list[str]:
    """The methods by name, SCA's rivals in the order given."""
    if wanted == ["default"]:
        return list(available.DEFAULT)
    if wanted == ["all"]:
        return list(available.LABELS)
    for name in wanted:
        if name not in available.LABELS:
            raise UserError(f"--methods: {name!r} is not known.{near(name, available.LABELS)}")
    return list(dict.fromkeys(wanted))


def load(table: str, target: str | None, task: str, data_dir: Path | None) -> Arrays:
    """A bundled data set, a downloaded one, or a table from a file."""
    if table in BUNDLED:
        if target is not None and target != BUNDLED[table].target:
            raise UserError(f"{table} predicts {BUNDLED[table].target!r}: leave --target out.")
        return bundled(table)
    if table in REMOTE and not Path(table).exists():
        about, path = REMOTE[table], find(table, data_dir)
        if path is None:
            raise UserError(f"{table} is not here yet. Get it: scax datasets fetch {table}")
        return _from_table(table, path, target or about.target, about.task, about.drop, about.header)
    if not Path(table).exists():
        names = [*BUNDLED, *REMOTE]
        raise UserError(f"{table!r} is neither a file nor a data set.{near(table, names)}")
    if target is None:
        raise UserError(f"{table}: which column is to be predicted? Give --target.")
    stem = Path(table).name.removesuffix(".gz").rpartition(".")[0] or Path(table).name
    return _from_table(stem, Path(table), target, task, (), True)


def _from_table(name: str, path: Path, target: str, task: str, drop: tuple[str, ...], header: bool) -> Arrays:
    """All rows, encoded; each repeat standardizes its own training rows once more."""
    opened = open_table(path, header=header)
    preprocess = Preprocess.fit(opened, target, task=None if task == "auto" else task, drop=drop)
    x, y = preprocess.arrays(opened, most=MOST_BYTES)
    goal = preprocess.schema.target
    if goal.task == "regression":
        return Arrays(name, x.astype(float), preprocess.restore(y), target, "regression")
    kind = "binary" if len(goal.classes) == 2 else "multiclass"
    return Arrays(name, x.astype(float), y.astype(int), target, kind, tuple(map(str, goal.classes)))


def run(data: Arrays, settings: dict[str, Any], *, quiet: bool, command: str) -> Comparison:
    """Run all methods; the content of results.json."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", table_column=None),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[runs]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as progress:
        bars = {
            name: progress.add_task(available.LABELS[name], total=None, runs="compiling")
            for name in settings["methods"]
        }

        def tick(name: str, done: int, total: int) -> None:
            progress.update(bars[name], completed=done, total=total, runs=f"{done}/{total} runs")
            interrupts.check()

        results = compare(data.x, data.y, data.task, Settings(**settings), tick)
    about = {
        "name": data.name, "target": data.target, "rows": len(data.x), "columns": data.x.shape[1],
        "classes": list(data.classes),
    }  # fmt: skip
    whole = {
        "format": FORMAT,
        "kind": "compare",
        "command": command,
        "dataset": about,
        "settings": dataclasses.asdict(Settings(**settings)),
        "environment": environment(),
        **results,
    }
    return cast(Comparison, whole)


def show(results: Comparison) -> None:
    """The table in the terminal."""
    console = Console()
    data, run = results["dataset"], results["settings"]
    score = results["score"]["name"]
    table_rows = rows(results)
    network = "/".join(map(str, results["network"]))
    title = (
        f"{escape(printable(data['name'], 60))}: {count(data['rows'], 'row')}, {count(data['columns'], 'input')}, "
        f"{network} network, {run['steps']:,} iterations, {_times(run['repeats'])}"
    )
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=False
    )
    table.add_column("", vertical="bottom", no_wrap=True)
    heads = (
        "objective",
        f"test {score}",
        f"steps to\nbest+{NEAR:.0%}",
        "steps to\nAdam's end",
        "seconds",
        "learning\nrate",
    )
    for name in heads:
        # where the terminal is narrow the rate and its decay go on two lines
        table.add_column(name, justify="right", vertical="bottom", no_wrap=name != heads[-1])
    digits = places(r.objective.mean for r in table_rows), places(r.score.mean for r in table_rows)
    leading = best(table_rows, results["score"]["larger_is_better"])
    for row in table_rows:
        bold = lambda column, text, name=row.name: f"[bold]{text}[/]" if name in leading[column] else text
        table.add_row(
            f"[bold]{row.label}[/]" if row.name == "sca" else row.label,
            bold("objective", _interval(row.objective, digits[0])),
            bold("score", _interval(row.score, digits[1], missing(results))),
            bold("near", "–" if row.near is None else f"{row.near:,}"),
            bold("iterations", "–" if row.iterations is None else f"{row.iterations:,}"),
            bold("seconds", f"{row.seconds:.3f}"),
            row.setting.split(" (")[0].replace(",", ""),
        )
    console.print(table)
    whole = not console.is_terminal  # a terminal gets lines that end between words
    console.print(headline(results, table_rows), soft_wrap=whole, markup=False)
    if note := without_score(results):
        console.print(note, soft_wrap=whole, markup=False)
    console.print(
        "Baselines: best of the learning rates and decays tried, by training objective; ±: half a 95% interval; "
        "bold: the best.",
        style="dim",
        soft_wrap=whole,
    )


def brief(results: Comparison, folder: Path) -> dict[str, Any]:
    """The final table for machines."""
    return {
        "dataset": results["dataset"]["name"],
        "report": str(folder / "report.html"),
        "results": str(folder / "results.json"),
        "score": results["score"]["name"],
        "methods": {
            row.name: {
                "objective": _finite(row.objective.mean),
                "objective_half_interval": _finite(row.objective.half),
                "score": _finite(row.score.mean),
                "score_half_interval": _finite(row.score.half),
                "iterations_to_near_best": row.near,
                "iterations_to_adam": row.iterations,
                "seconds": row.seconds,
                "setting": row.setting,
            }
            for row in rows(results)
        },
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _interval(value: Interval, digits: int, otherwise: str = "diverged") -> str:
    if value.mean != value.mean:
        return otherwise
    return f"{value.mean:,.{digits}f}" + ("" if value.half is None else f" ±{margin(value.half)}")

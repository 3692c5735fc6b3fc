"""What a terminal shows while a network trains: the last records as a table, the objective as a sparkline, a bar."""

import math
import time
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..report.numbers import number
from .words import say

ROWS = 6
BLOCKS = "▁▂▃▄▅▆▇█"
#: key of a record → head of its column
COLUMNS = {
    "step": "step",
    "seconds": "seconds",
    "objective": "objective",
    "validation_loss": "held-out loss",
    "accepted": "taken",
    "damping": "damping",
}


def sparkline(values: Iterable[float | None], width: int = 48) -> str:
    """The values as blocks of eight heights, on a logarithmic scale where all are positive; · where one is missing.

    More values than `width` are thinned evenly; the last one is always shown.
    """
    known = [v if v is not None and math.isfinite(v) else None for v in values]
    if len(known) > width:
        known = [known[round(i * (len(known) - 1) / (width - 1))] for i in range(width)]
    finite = [v for v in known if v is not None]
    if not finite:
        return "·" * len(known)
    scale = math.log if min(finite) > 0 else float
    low, high = scale(min(finite)), scale(max(finite))
    height = lambda v: round(7 * (scale(v) - low) / (high - low)) if high > low else 0
    return "".join("·" if v is None else BLOCKS[height(v)] for v in known)


class Lines:
    """A line on stderr every few seconds, where a live view cannot be shown."""

    def __init__(self, seconds: float = 5.0):
        self.seconds, self.last = seconds, time.monotonic()

    def __call__(self, line: str) -> None:
        if time.monotonic() - self.last >= self.seconds:
            say(line, to_stderr=True, flush=True)
            self.last = time.monotonic()


class Display:
    """A live view of one run; does nothing where stderr is no terminal."""

    def __init__(self, console: Console, shown: bool, steps: int, done: int, score: str):
        self.shown, self.score, self.records = shown, score, []
        self.bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            disable=not shown,
        )
        self.task = self.bar.add_task("", total=steps, completed=done, rate="compiling")
        self.live = Live(self.view(), console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> "Display":
        if self.shown:
            self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.shown:
            self.live.update(self.view())
            self.live.__exit__(*error)

    def on_record(self, record: dict[str, Any]) -> None:
        self.records.append(record)
        if self.shown:
            self.live.update(self.view())

    def on_step(self, step: int) -> None:
        speed = self.bar.tasks[0].speed
        self.bar.update(self.task, completed=step, rate="" if speed is None else f"{speed:,.0f} steps/s")

    def view(self) -> Group:
        """Table, sparkline, bar."""
        if not self.records:
            return Group(self.bar)
        heads = {k: v for k, v in {**COLUMNS, self.score: self.score}.items() if k in self.records[-1]}
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
        for head in heads.values():
            table.add_column(head, justify="right", no_wrap=True)
        for record in self.records[-ROWS:]:
            table.add_row(*(_cell(key, record[key]) for key in heads))
        curve = [record["objective"] for record in self.records]
        line = Text.assemble(("objective ", "dim"), sparkline(curve), (f" {_cell('objective', curve[-1])}", "bold"))
        return Group(table, line, self.bar)


def _cell(key: str, value: Any) -> str:
    if key == "step":
        return f"{value:,}"
    if key == "accepted" and value is not None:
        return f"{100 * value:.0f}%"
    return f"{value:.1f}" if key == "seconds" and value is not None else number(value)

"""The schema and the statistics of a table, from one pass over it."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import infer, infer_readings
from .encode import BINS, KINDS, LIMIT, MOST_BINNED, Sorted
from .errors import TableError, near, together
from .preprocess import Preprocess
from .readings import COMMA, ISO, Reading, ReadTable
from .schema import TASKS, Column, Schema
from .split import Split
from .survey import TEXTS, Survey, Tallied
from .table import Table

MOST_WARNINGS = 20
#: Rows to train on from which numbers are clipped and have bins, and bytes that the encoded table may then take.
MANY_ROWS, MOST_BYTES = 1000, 400 << 20


def fit(
    table: Table,
    target: str,
    task: str | None,
    drop: tuple[str, ...],
    categories: tuple[str, ...],
    max_levels: int,
    split: Split,
    progress: Callable[[int], Any] | None,
    numbers: str = "standard",
) -> Preprocess:
    """See Preprocess.fit."""
    _check(table, target, task, drop, categories, max_levels)
    if numbers not in ("auto", *KINDS):
        raise TableError(f"numbers={numbers!r} is not known: use 'auto', {', '.join(map(repr, KINDS))}.")
    chosen = {target, *categories}

    def look(table: Table, counted: Callable[[str], bool]) -> Survey:
        names = tuple(name for name in table.columns if name not in set(drop))
        return Survey.of(table, names, target, split, counted, progress)

    survey = look(table, lambda name: name in chosen or infer.is_id(name))
    if survey.rows < 2:
        raise TableError(f"{table.name} has one row: training needs at least two, and hundreds to be of use.")
    if survey.train_rows < 1:
        raise TableError(
            f"{table.name} has {survey.rows} rows, all of them held out: give more rows, or hold out fewer."
        )
    readings, warnings, problems = infer_readings.readings(
        table.name, survey.columns, target, task, categories, table.separator not in (None, ",")
    )
    if readings:
        if any(reading.form == COMMA for reading in readings.values()):
            everything = look(table, lambda name: True).columns
            readings = infer_readings.grouped_by_points(everything, {target, *categories}) | readings
        table = ReadTable(table, readings)
        survey = look(table, lambda name: name in chosen or infer.is_id(name))
    place = {name: j for j, name in enumerate(survey.columns)}
    on_a_line = infer.on_a_line(survey.sample, place[target])
    columns, goal = [], None
    for name, found in survey.columns.items():
        if name in problems:
            continue
        try:
            reading = readings.get(name)
            if reading is not None and found.words:
                raise infer_readings.unreadable(table.name, reading, found)
            if reading is not None and not reading.leads:
                found = dataclasses.replace(found, missing=0)
            if name == target:
                goal = infer.target(table.name, target, found, task)
                goal = goal if reading is None else dataclasses.replace(goal, form=reading.form)
                continue
            column = infer.column(table.name, name, found, max_levels, name in chosen)
        except TableError as error:
            problems[name] = error
            continue
        columns.append(column if reading is None or column.kind == "dropped" else _with_reading(column, reading))
        if column.kind != "dropped":
            told = (infer.leaks(name, found.equal, bool(on_a_line[place[name]])), infer.counts_rows(name, found))
            warnings += [each for each in told if each]
    if problems:
        raise together(table.name, list({str(problem): problem for problem in problems.values()}.values()))
    assert goal is not None
    dropped = set(drop)
    columns += [Column(name, "dropped", note="dropped: as asked") for name in table.columns if name in dropped]
    schema = Schema(tuple(columns), goal, survey.rows, tuple(warnings[:MOST_WARNINGS]))
    if not schema.used:
        raise TableError(
            f"{table.name} has no column to predict {target!r} from: all others are constant, ids or dropped."
        )
    medians = _medians(survey.sample)
    statistics = [_statistics(c, survey, float(medians[place[c.name]])) for c in schema.used]
    median, mean, scale = (np.array(column, np.float64) for column in zip(*statistics, strict=True))
    limit, kind = np.zeros(len(median)), _kind(numbers, schema, survey.train_rows)
    if kind != "standard":
        edges: dict[str, tuple[float, ...]] = {}
        for j, c in enumerate(schema.used):
            sample = survey.sample[:, place[c.name]]
            sample = sample[np.isfinite(sample)]
            if c.kind == "number" and len(sample):
                mean[j], scale[j], limit[j], edges[c.name] = _robust(Sorted.of(sample), kind)
        with_bins = (dataclasses.replace(c, edges=edges.get(c.name, ())) for c in schema.columns)
        schema = dataclasses.replace(schema, columns=tuple(with_bins))
    if goal.task == "classification":
        return Preprocess(schema, median, mean, scale, limit=limit)
    found = survey.columns[target]
    return Preprocess(schema, median, mean, scale, found.mean, _unit(found.squares, found.count, found.mean), limit)


def _with_reading(column: Column, reading: Reading) -> Column:
    """The column, and how it is read; said once of a date."""
    form = "2024-01-31" if reading.form == ISO else reading.form
    note = f"written as {form}" if reading.leads else ""
    return dataclasses.replace(
        column, kind="number", source=reading.source, form=reading.form, part=reading.part, note=note
    )


def _kind(numbers: str, schema: Schema, rows: int) -> str:
    """How columns of numbers enter: "auto" has bins, for many rows, unless they would fill the memory."""
    if numbers != "auto":
        return numbers
    if rows < MANY_ROWS:
        return "standard"
    binned = BINS * sum(c.kind == "number" for c in schema.used)
    return "bins" if binned <= MOST_BINNED and 4 * schema.rows * (schema.width + binned) <= MOST_BYTES else "clipped"


def _robust(sample: Sorted, kind: str) -> tuple[float, float, float, tuple[float, ...]]:
    """Center, scale, limit and bins of a column of numbers."""
    center, scale = sample.center_and_scale()
    edges = tuple(sample.edges(BINS).tolist()) if kind == "bins" else ()
    return center, scale if np.isfinite(scale) else 1.0, LIMIT, edges


def _medians(sample: np.ndarray) -> np.ndarray:
    """Of each column of the sample, a few columns at a time; NaN where it has no numbers."""
    out = np.full(sample.shape[1], np.nan)
    step = max(1, (1 << 20) // max(len(sample), 1))
    for start in range(0, sample.shape[1], step):
        part = np.sort(sample[:, start : start + step], axis=0)  # NaN last
        n = (~np.isnan(part)).sum(axis=0)
        each = np.arange(part.shape[1])
        low, high = part[np.maximum(n - 1, 0) // 2, each], part[np.minimum(n // 2, len(part) - 1), each]
        out[start : start + step] = np.where(n > 0, (low + high) / 2, np.nan)
    return out


def _statistics(column: Column, survey: Survey, median: float) -> tuple[float, float, float]:
    """(median, mean, scale) of a column, missing values counted as the median that stands in for them."""
    found = survey.columns[column.name]
    if column.kind == "category":
        return 0.0, 0.0, 1.0
    if column.kind == "boolean":
        return float(_mostly_true(found)), 0.0, 1.0
    if math.isnan(median):
        median = found.mean if found.count else (found.low + found.high) / 2
    absent, n = survey.train_rows - found.count, survey.train_rows
    mean = (found.count * found.mean + absent * median) / n
    squares = found.squares + found.count * (found.mean - mean) ** 2 + absent * (median - mean) ** 2
    return median, mean, _unit(squares, n, mean)


def _unit(squares: float, count: int, mean: float) -> float:
    """The standard deviation; 1 where the values are equal but for rounding."""
    deviation = float(np.sqrt(squares / max(count, 1)))
    return deviation if deviation > 1e-12 * abs(mean) and deviation > 1e-300 else 1.0


def _mostly_true(found: Tallied) -> bool:
    true = sum(n for text, n in found.counts.items() if text.lower() in ("1", "true", "yes", "t", "y"))
    return 2 * true > sum(found.counts.values())


def _check(table: Table, target: str, task: Any, drop: tuple, categories: tuple, max_levels: Any) -> None:
    if target not in table.columns:
        raise TableError(f"{table.name} has no column {target!r}.{near(target, table.columns)}")
    there = set(table.columns)
    for what, names in (("drop", drop), ("categories", categories)):
        for name in names:
            if name not in there:
                raise TableError(f"{what}: {table.name} has no column {name!r}.{near(name, table.columns)}")
    if target in drop:
        raise TableError(f"{target!r} is the target and is to be dropped: choose one.")
    if len(table.columns) < 2:
        raise TableError(f"{table.name} has one column, {target!r}: it needs others to predict it from.")
    if task is not None and task not in TASKS:
        raise TableError(f"task={task!r} is not known: use 'regression' or 'classification'.")
    if isinstance(max_levels, bool) or not isinstance(max_levels, int) or not 2 <= max_levels <= TEXTS:
        raise TableError(f"max_levels must be a whole number from 2 to {TEXTS:,}, got {max_levels!r}.")

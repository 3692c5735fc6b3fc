"""From a table to the network's numbers, and from its outputs back to the table's units. NumPy alone."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np

from .._untrusted import Unreadable, check
from .columns import BOOLEANS, MISSING_CODE, UNSEEN_CODE, Values
from .encode import places
from .errors import TableError, near
from .readings import ReadTable
from .schema import Column, Schema
from .split import Split
from .table import Block, Table, open_table

ENCODED_BYTES = 64 << 20  # of encoded rows at a time


@dataclasses.dataclass
class Tally:
    """What was out of the ordinary while encoding, counted: {column: rows}. `sentences()` tells a person."""

    unseen: dict[str, int] = dataclasses.field(default_factory=dict)
    filled: dict[str, int] = dataclasses.field(default_factory=dict)
    extra: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """One sentence per kind of surprise and column."""
        told = [f"Column {name!r} has {n:,} value(s) new or rare in training: they count as none of its levels."
                for name, n in self.unseen.items()]  # fmt: skip
        told += [f"Column {name!r} has {n:,} missing value(s) and had none in training: the median stands in."
                 for name, n in self.filled.items()]  # fmt: skip
        if self.extra:
            more = ", …" if len(self.extra) > 5 else ""
            told.append(f"Ignored, because the model does not know them: {', '.join(map(repr, self.extra[:5]))}{more}.")
        return told


@dataclasses.dataclass(frozen=True)
class Preprocess:
    """The schema, and the numbers learned from the training rows.

    Numbers become z = (value − mean)/scale, missing ones the median first, or z/√(1 + (z/limit)²) where a limit is set,
    and a column with bins (`Column.edges`) adds its place within each of them; booleans 0/1; a category one 0/1 feature
    per level, all 0 where the level is new or missing; columns with missing values add an indicator. A regression
    target becomes (y − mean)/scale; two classes become 0 and 1 (float), more become class indices (int32).

    >>> from scax.tables import Preprocess, Split, open_table
    >>> rng = np.random.default_rng(0)
    >>> table = open_table({"size": rng.normal(size=50), "kind": ["flat", "house"] * 25, "price": rng.normal(size=50)})
    >>> pre = Preprocess.fit(table, "price", split=Split(0.2))
    >>> x_train, y_train, x_held_out, y_held_out = pre.arrays(table, Split(0.2))
    >>> x_train.shape[1]  # size, and one column per kind
    3
    """

    schema: Schema
    median: np.ndarray  # one per used column, 0 for categories
    mean: np.ndarray  # one per used column, 0 where it is not standardized
    scale: np.ndarray  # one per used column, 1 where it is not standardized
    target_mean: float = 0.0
    target_scale: float = 1.0
    limit: np.ndarray | None = None  # one per used column, 0 where nothing is clipped

    @staticmethod
    def fit(
        table: Any,
        target: str,
        *,
        task: str | None = None,
        drop: Iterable[str] = (),
        categories: Iterable[str] = (),
        max_levels: int = 100,
        standardize_target: bool = True,
        split: Split = Split(0.0),
        progress: Callable[[int], Any] | None = None,
        numbers: str = "standard",
    ) -> "Preprocess":
        """Find the schema and the statistics in one pass over the table (anything `open_table` takes).

        The schema is that of all rows; medians, means and scales are those of the rows that `split` does not hold out.
        `task` is "regression" or "classification", None decides; `drop` leaves columns out; `categories` takes numeric
        columns as categories; a category has at most `max_levels` levels; `standardize_target=False`
        keeps a regression target's units (counts for Poisson). `progress(rows)` is called after each
        block. `numbers`: "standard" (mean 0, deviation 1), "clipped" (median 0, distance of the quartiles 1, clipped
        smoothly), "bins" (that, and the place within each of 16 quantile bins), or "auto" (bins from 1,000 rows on).
        Bad input is a TableError; what a person should know but need not act upon is in `schema.warnings`.
        """
        from .fit import fit

        found = fit(
            open_table(table), target, task, tuple(drop), tuple(categories), max_levels, split, progress, numbers
        )
        return found if standardize_target else dataclasses.replace(found, target_mean=0.0, target_scale=1.0)

    def transform(self, table: Any, tally: Tally | None = None) -> np.ndarray:
        """x: float32 [n, d] of a table (anything `open_table` takes) or of an array [n, used columns] of raw values.

        Columns may be in any order; one that the schema needs and the table lacks is a TableError; others are ignored
        and counted in `tally`, as are levels never seen and missing values where training had none.
        """
        parts = list(self.parts(table, tally))
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def parts(self, table: Any, tally: Tally | None = None) -> Iterator[np.ndarray]:
        """What `transform` gives, a block of rows at a time: for a table larger than memory."""
        table = self.table(table)
        tally = Tally() if tally is None else tally
        self.match(table, tally)
        return self._parts(table, tally)

    def _parts(self, table: Table, tally: Tally) -> Iterator[np.ndarray]:
        empty = True
        for block in self.blocks(table):
            empty = False
            yield self.encode(block, tally)
        if empty:
            raise TableError(f"{table.name} has no rows: there is nothing to predict.")

    def target(self, table: Any) -> np.ndarray:
        """y as the loss wants it: standardized float32 [n], labels 0/1 float32 [n], or class indices int32 [n]."""
        table = self.read(open_table(table))
        self.need_target(table)
        parts = [self.encode_target(block) for block in table.blocks()]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def blocks(self, table: Table) -> Iterator[Block]:
        """The table's rows, so many at a time that encoded they stay small."""
        rows = max(1, ENCODED_BYTES // (4 * self.schema.width))
        for block in self.read(table).blocks():
            yield from block.pieces(rows)

    def bytes(self, rows: int | None = None) -> int:
        """What the encoded rows take in memory; None for those of the table that the schema was found in."""
        return (self.schema.rows if rows is None else rows) * (self.schema.width + 1) * 4

    def arrays(self, table: Any, split: Split | None = None, most: int | None = None) -> tuple[np.ndarray, ...]:
        """(x, y), or with a split (x, y, x held out, y held out), in one pass over the table.

        More than `most` bytes, if given, are refused before they are taken.
        """
        table = open_table(table)
        tally = Tally()
        self.match(table, tally)
        self.need_target(table)
        kept, out = _Grown(self, table, most), _Grown(self, table, most)
        for block in self.blocks(table):
            x, y = self.encode(block, tally), self.encode_target(block)
            held = (split or Split(0.0)).held_out(block.start, block.size)
            kept.add(x[~held], y[~held], out.rows)
            out.add(x[held], y[held], kept.rows)
        if not kept.rows and not out.rows:
            raise TableError(f"{table.name} has no rows.")
        return kept.arrays() if split is None else kept.arrays() + out.arrays()

    def restore(self, outputs: np.ndarray) -> np.ndarray:
        """Regression outputs [n] or [n, 1] back in the target's units, float64 [n]."""
        return np.asarray(outputs, np.float64).reshape(-1) * self.target_scale + self.target_mean

    def table(self, source: Any) -> Table:
        """Any table; the columns of an array are the used ones, in their order."""
        if not (isinstance(source, np.ndarray) or (isinstance(source, list) and source)):
            return open_table(source)
        array, used = np.asarray(source), self.schema.used
        if array.ndim != 2 or array.shape[1] != len(used):
            raise TableError(
                f"x has shape {array.shape}: give one column for each of the {len(used)} of the model, or a table with "
                "named columns."
            )
        return open_table({c.name: array[:, j] for j, c in enumerate(used)})

    def read(self, table: Table) -> Table:
        """The table with its dates and unusual numbers read; those of an array of raw values, or read already, are."""
        there = set(table.columns)
        wanted = {name: reading for name, reading in self.schema.readings.items() if reading.source in there}
        return ReadTable(table, wanted) if wanted and not isinstance(table, ReadTable) else table

    def match(self, table: Table, tally: Tally) -> None:
        """Refuse a table that lacks columns; note those that are not needed."""
        there = {*table.columns, *self.read(table).columns}
        lacking = list(dict.fromkeys(c.source or c.name for c in self.schema.used if c.name not in there))
        if lacking:
            more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
            raise TableError(
                f"{table.name} has no column {lacking[0]!r}{more}, which the model was trained on."
                f"{near(lacking[0], table.columns)}"
            )
        known = {name for c in self.schema.columns for name in (c.name, c.source)} | {self.schema.target.name}
        tally.extra = tuple(name for name in table.columns if name not in known)

    def need_target(self, table: Table) -> None:
        """Refuse a table without the target."""
        name = self.schema.target.name
        if name not in table.columns:
            raise TableError(f"{table.name} has no column {name!r}, the target.{near(name, table.columns)}")

    @functools.cached_property
    def _places(self) -> "_Places":
        used = self.schema.used
        starts = np.cumsum([0, *(c.width for c in used)])[:-1]
        number = np.array([c.kind == "number" for c in used], bool)
        marked = np.array([c.indicator for c in used], bool)
        others = tuple((j, int(starts[j])) for j in np.flatnonzero(~number).tolist())
        return _Places(
            tuple(c.name for c in used if c.kind == "number"),
            np.flatnonzero(number),
            starts[number],
            marked[number],
            others,
            (np.zeros(len(used)) if self.limit is None else self.limit)[number],
        )

    def encode(self, block: Block, tally: Tally) -> np.ndarray:
        """x: float32 [rows, d] of one block."""
        x = np.zeros((block.size, self.schema.width), np.float32)
        self._encode_numbers(x, block, tally)
        used = self.schema.used
        for j, start in self._places.others:
            column = used[j]
            part, values = x[:, start : start + column.width], block.column(column.name)
            if column.kind == "category":
                missing = _encode_levels(part, column, values, tally)
            else:
                numbers = _booleans(block, column, values)
                missing = np.isnan(numbers)
                part[:, 0] = np.where(missing, self.median[j], numbers)
                if not column.indicator and missing.any():
                    tally.filled[column.name] = tally.filled.get(column.name, 0) + int(missing.sum())
            if column.indicator:
                part[:, -1] = missing
        return x

    def _encode_numbers(self, x: np.ndarray, block: Block, tally: Tally) -> None:
        """Standardize all columns of numbers at once: there may be hundreds of thousands."""
        names, used, at, marked, _, limit = self._places
        if not names:
            return
        numbers, words, declared = block.numbers(names)
        bad = words | np.isinf(numbers)
        odd = bad.any(axis=0) | np.array([kind not in ("number", "boolean", "text") for kind in declared])
        if odd.any():
            first = int(odd.argmax())
            _finite(block, self.schema.used[used[first]], block.column(names[first]))
        missing, numbers = np.isnan(numbers), np.require(numbers, requirements="W")
        np.copyto(numbers, self.median[used], where=missing)
        columns = self.schema.used
        for j in np.flatnonzero(limit):  # only clipped columns have bins
            if edges := columns[used[j]].edges:
                x[:, at[j] + 1 : at[j] + len(edges)] = places(numbers[:, j], np.array(edges))
        with np.errstate(over="ignore"):
            numbers -= self.mean[used]
            numbers /= self.scale[used]
            np.clip(numbers, -1e30, 1e30, out=numbers)
        if limit.any():
            numbers /= np.sqrt(1 + (numbers / np.where(limit > 0, limit, np.inf)) ** 2)
        x[:, at] = numbers
        last = np.array([columns[used[j]].width - 1 for j in np.flatnonzero(marked)], int)
        x[:, at[marked] + last] = missing[:, marked]
        for j in np.flatnonzero(missing.any(axis=0) & ~marked):
            reading = self.schema.readings.get(names[j])
            if reading is None or reading.leads:
                tally.filled[names[j]] = tally.filled.get(names[j], 0) + int(missing[:, j].sum())

    def encode_target(self, block: Block) -> np.ndarray:
        """y of one block, as `target` says."""
        goal = self.schema.target
        values = block.column(goal.name)
        if goal.task == "regression":
            numbers = _finite(block, Column(goal.name, "number"), values)
            self._no_missing(block, np.isnan(numbers))
            with np.errstate(over="ignore"):
                scaled = ((numbers - self.target_mean) / self.target_scale).astype(np.float32)
            if not np.isfinite(scaled).all():
                row = int((~np.isfinite(scaled)).argmax())
                raise TableError(
                    f"The target {goal.name!r} is {numbers[row]:g} in row {block.start + row + 1}, and in training it "
                    f"was {self.target_mean:g} ± {self.target_scale:g}: too far away for float32. Correct it."
                )
            return scaled
        codes = self._classes(block, values)
        self._no_missing(block, codes == MISSING_CODE)
        if (codes == UNSEEN_CODE).any():
            row = int((codes == UNSEEN_CODE).argmax())
            raise TableError(
                f"The target {goal.name!r} is {values.text(row)[:40]!r} in row {block.start + row + 1}, which is none "
                "of the classes of the model."
            )
        return codes.astype(np.float32 if len(goal.classes) == 2 else np.int32)

    def _classes(self, block: Block, values: Values) -> np.ndarray:
        classes = self.schema.target.classes
        if all(isinstance(c, str) for c in classes):
            return values.codes({str(c): i for i, c in enumerate(classes)})
        if classes == (False, True) and all(isinstance(c, bool) for c in classes):
            numbers = _booleans(block, Column(self.schema.target.name, "boolean"), values)
        else:
            numbers = _finite(block, Column(self.schema.target.name, "number"), values)
        known = np.array([float(c) for c in classes])
        found = np.searchsorted(known, np.nan_to_num(numbers)).clip(0, len(known) - 1)
        codes = np.where(known[found] == numbers, found, UNSEEN_CODE)
        return np.where(np.isnan(numbers), MISSING_CODE, codes)

    def _no_missing(self, block: Block, missing: np.ndarray) -> None:
        if missing.any():
            row = block.start + int(missing.argmax()) + 1
            raise TableError(f"The target {self.schema.target.name!r} is missing in row {row}: remove such rows.")

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; numbers come back to the bit."""
        return {
            "schema": self.schema.to_json(),
            "median": self.median.tolist(),
            "mean": self.mean.tolist(),
            "scale": self.scale.tolist(),
            "target_mean": self.target_mean,
            "target_scale": self.target_scale,
        } | ({} if self.limit is None else {"limit": self.limit.tolist()})

    @staticmethod
    def from_json(value: Any) -> "Preprocess":
        """From what `to_json` gave; anything else is a TableError."""
        try:
            check(value, PreprocessJson)
        except Unreadable as error:
            raise TableError(f"The preprocessing {error}: write it again with the scax that made it.") from None
        schema = Schema.from_json(value["schema"])
        median, mean, scale = (np.array(value[name], np.float64) for name in ("median", "mean", "scale"))
        center, unit = float(value["target_mean"]), float(value["target_scale"])
        limit = np.array(value.get("limit", np.zeros(len(median))), np.float64)
        fits = all(a.shape == (len(schema.used),) and np.isfinite(a).all() for a in (median, mean, scale, limit))
        fits = fits and all(on > 0 or not c.edges for on, c in zip(limit, schema.used, strict=True))
        if not (
            fits
            and (limit >= 0).all()
            and (scale > 0).all()
            and math.isfinite(center)
            and math.isfinite(unit)
            and unit > 0
        ):
            raise TableError("The preprocessing does not fit its schema: write it again with the scax that made it.")
        return Preprocess(schema, median, mean, scale, center, unit, limit)


class _Places(NamedTuple):
    """Where the used columns go: names, places among the used ones, features, indicators and limits of the columns of
    numbers; (place, feature) of the others."""

    names: tuple[str, ...]
    used: np.ndarray
    at: np.ndarray
    marked: np.ndarray
    others: tuple[tuple[int, int], ...]
    limit: np.ndarray


class _Grown:
    """Encoded rows in one pair of arrays: room for as many as the schema was found in, which takes no memory until it
    is filled, and more where more come."""

    def __init__(self, preprocess: Preprocess, table: Table, most: int | None):
        self.preprocess, self.name, self.most, self.rows = preprocess, table.name, most, 0
        room = min(preprocess.schema.rows, (most or 1 << 28) // preprocess.bytes(1))
        label = np.int32 if len(preprocess.schema.target.classes) > 2 else np.float32
        self.x, self.y = np.empty((room, preprocess.schema.width), np.float32), np.empty(room, label)

    def add(self, x: np.ndarray, y: np.ndarray, others: int) -> None:
        """Append rows; `others` are rows elsewhere that count for the limit as well."""
        end = self.rows + len(x)
        if self.most is not None and self.preprocess.bytes(end + others) > self.most:
            raise TableError(
                f"{self.name} takes more than {self.most:,} bytes encoded: give fewer rows, drop columns, or group "
                "levels."
            )
        if end > len(self.x):
            size = max(end, len(self.x) + len(self.x) // 4)
            self.x.resize((size, self.x.shape[1]), refcheck=False)
            self.y.resize(size, refcheck=False)
        self.x[self.rows : end], self.y[self.rows : end] = x, y
        self.rows = end

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        self.x.resize((self.rows, self.x.shape[1]), refcheck=False)
        self.y.resize(self.rows, refcheck=False)
        return self.x, self.y


class PreprocessJson(TypedDict):
    """What `Preprocess.to_json` gives."""

    schema: Any
    median: list[float]
    mean: list[float]
    scale: list[float]
    target_mean: float
    target_scale: float
    limit: NotRequired[list[float]]


def _encode_levels(part: np.ndarray, column: Column, values: Values, tally: Tally) -> np.ndarray:
    """Set the feature of each row's level; which rows are missing."""
    codes = values.codes({level: i for i, level in enumerate(column.levels)})
    seen = codes >= 0
    part[np.flatnonzero(seen), codes[seen]] = 1
    missing = codes == MISSING_CODE
    unseen = int((codes == UNSEEN_CODE).sum()) + (0 if column.indicator else int(missing.sum()))
    if unseen:
        tally.unseen[column.name] = tally.unseen.get(column.name, 0) + unseen
    return missing


def _finite(block: Block, column: Column, values: Values) -> np.ndarray:
    """Numbers, NaN where missing; text or infinity is a TableError."""
    numbers, words = values.numbers()
    bad = words | np.isinf(numbers)
    if bad.any() or values.declared not in ("number", "boolean", "text"):
        row = int(bad.argmax())
        what = "a date" if column.part else "a finite number"
        how = f", written as in {column.form}" if column.form else ""
        raise TableError(
            f"Column {column.source or column.name!r} is {values.text(row)[:40]!r} in row {block.start + row + 1}, "
            f"where the model expects {what}{how}: correct it, or leave it empty."
        )
    return numbers


def _booleans(block: Block, column: Column, values: Values) -> np.ndarray:
    """0, 1, or NaN where missing; anything else is a TableError."""
    codes = values.codes(BOOLEANS)
    if (codes == UNSEEN_CODE).any():
        row = int((codes == UNSEEN_CODE).argmax())
        raise TableError(
            f"Column {column.name!r} is {values.text(row)[:40]!r} in row {block.start + row + 1}, where the model "
            "expects true or false: correct it, or leave it empty."
        )
    return np.where(codes == MISSING_CODE, np.nan, codes)

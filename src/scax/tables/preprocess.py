"""From a table to the network's numbers, and from its outputs back to the table's units. NumPy alone."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NotRequired, TypedDict

import numpy as np

from .._untrusted import Unreadable, check
from .encoded_rows import EncodedRows, row_bytes
from .errors import TableError, near
from .features import Features
from .labels import Labels
from .readings import ReadTable
from .schema import Schema
from .split import Split
from .table import Block, Table, open_table
from .tally import Tally

ENCODED_BYTES = 64 << 20  # of encoded rows at a time


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
        return (self.schema.rows if rows is None else rows) * row_bytes(self.schema)

    def arrays(self, table: Any, split: Split | None = None, most: int | None = None) -> tuple[np.ndarray, ...]:
        """(x, y), or with a split (x, y, x held out, y held out), in one pass over the table.

        More than `most` bytes, if given, are refused before they are taken.
        """
        table = open_table(table)
        tally = Tally()
        self.match(table, tally)
        self.need_target(table)
        train, out = EncodedRows(self.schema, table.name, most), EncodedRows(self.schema, table.name, most)
        for block in self.blocks(table):
            x, y = self.encode(block, tally), self.encode_target(block)
            held = (split or Split(0.0)).held_out(block.start, block.size)
            train.add(x[~held], y[~held], out.rows)
            out.add(x[held], y[held], train.rows)
        if not train.rows and not out.rows:
            raise TableError(f"{table.name} has no rows.")
        return train.arrays() if split is None else train.arrays() + out.arrays()

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
    def _features(self) -> Features:
        limit = np.zeros(len(self.schema.used)) if self.limit is None else self.limit
        return Features(self.schema, self.median, self.mean, self.scale, limit)

    def encode(self, block: Block, tally: Tally) -> np.ndarray:
        """x: float32 [rows, d] of one block."""
        return self._features.encode(block, tally)

    def encode_target(self, block: Block) -> np.ndarray:
        """y of one block, as `target` says."""
        return Labels(self.schema.target, self.target_mean, self.target_scale).encode(block)

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


class PreprocessJson(TypedDict):
    """What `Preprocess.to_json` gives."""

    schema: Any
    median: list[float]
    mean: list[float]
    scale: list[float]
    target_mean: float
    target_scale: float
    limit: NotRequired[list[float]]

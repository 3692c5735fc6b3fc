"""From a block of a table to the network's inputs. NumPy alone."""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from .columns import BOOLEANS, MISSING_CODE, UNSEEN_CODE, Values
from .encode import places
from .errors import TableError
from .schema import Column, Schema
from .table import Block
from .tally import Tally


@dataclasses.dataclass(frozen=True)
class Features:
    """The used columns of a schema, encoded; for the arrays see `Preprocess`, which learns them."""

    schema: Schema
    median: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    limit: np.ndarray

    @functools.cached_property
    def _columns(self) -> "_Columns":
        used = self.schema.used
        starts = np.cumsum([0, *(c.width for c in used)])[:-1]
        number = np.array([c.kind == "number" for c in used], bool)
        marked = np.array([c.indicator for c in used], bool)
        others = tuple((j, int(starts[j])) for j in np.flatnonzero(~number).tolist())
        return _Columns(
            tuple(c.name for c in used if c.kind == "number"),
            np.flatnonzero(number),
            starts[number],
            marked[number],
            others,
            self.limit[number],
        )

    def encode(self, block: Block, tally: Tally) -> np.ndarray:
        """x: float32 [rows, d] of one block."""
        x = np.zeros((block.size, self.schema.width), np.float32)
        self._encode_numbers(x, block, tally)
        used = self.schema.used
        for j, start in self._columns.others:
            column = used[j]
            part, values = x[:, start : start + column.width], block.column(column.name)
            if column.kind == "category":
                missing = _encode_levels(part, column, values, tally)
            else:
                numbers = booleans(block, column, values)
                missing = np.isnan(numbers)
                part[:, 0] = np.where(missing, self.median[j], numbers)
                if not column.indicator and missing.any():
                    tally.filled[column.name] = tally.filled.get(column.name, 0) + int(missing.sum())
            if column.indicator:
                part[:, -1] = missing
        return x

    def _encode_numbers(self, x: np.ndarray, block: Block, tally: Tally) -> None:
        """Standardize all columns of numbers at once: there may be hundreds of thousands."""
        names, used, at, marked, _, limit = self._columns
        if not names:
            return
        numbers, words, declared = block.numbers(names)
        bad = words | np.isinf(numbers)
        odd = bad.any(axis=0) | np.array([kind not in ("number", "boolean", "text") for kind in declared])
        if odd.any():
            first = int(odd.argmax())
            finite(block, self.schema.used[used[first]], block.column(names[first]))
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


class _Columns(NamedTuple):
    """Where the used columns go: names, places among the used ones, features, indicators and limits of the columns of
    numbers; (place, feature) of the others."""

    names: tuple[str, ...]
    used: np.ndarray
    at: np.ndarray
    marked: np.ndarray
    others: tuple[tuple[int, int], ...]
    limit: np.ndarray


def _encode_levels(part: np.ndarray, column: Column, values: Values, tally: Tally) -> np.ndarray:
    """Set the feature of each row's level; which rows are missing."""
    codes = values.codes({level: i for i, level in enumerate(column.levels)})
    seen = codes >= 0
    part[np.flatnonzero(seen), codes[seen]] = 1
    missing = codes == MISSING_CODE
    new = np.flatnonzero(codes == UNSEEN_CODE)
    if len(new):
        tally.examples.setdefault(column.name, values.text(int(new[0])))
    unseen = len(new) + (0 if column.indicator else int(missing.sum()))
    if unseen:
        tally.unseen[column.name] = tally.unseen.get(column.name, 0) + unseen
    return missing


def finite(block: Block, column: Column, values: Values) -> np.ndarray:
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


def booleans(block: Block, column: Column, values: Values) -> np.ndarray:
    """0, 1, or NaN where missing; anything else is a TableError."""
    codes = values.codes(BOOLEANS)
    if (codes == UNSEEN_CODE).any():
        row = int((codes == UNSEEN_CODE).argmax())
        raise TableError(
            f"Column {column.name!r} is {values.text(row)[:40]!r} in row {block.start + row + 1}, where the model "
            "expects true or false: correct it, or leave it empty."
        )
    return np.where(codes == MISSING_CODE, np.nan, codes)

"""One pass over a table: what each column holds, counted in memory that does not grow with the rows.

Counts, means and variances are exact. Medians are those of a sample of rows (all of them, up to 100,000 rows), drawn
uniformly by reservoir sampling. Different texts are counted up to 10,000 per column, more than any category may have;
in columns of numbers only where a name or an option asks for it.

All columns of a block are looked at together, as a matrix [rows, columns]: there may be hundreds of thousands.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .columns import Values
from .errors import TableError
from .split import Split
from .table import Block, Table

TEXTS = 10_000  # different texts that are counted in a column
TEXT_BYTES = 400 << 20  # that the counted texts of all columns may take
SAMPLE_ROWS = 100_000
SAMPLE_BYTES = 64 << 20
MOST_SAMPLE_BYTES = 256 << 20  # of a sample of 1000 rows, or of fewer
VALUES = 1 << 20  # of a block that are looked at together


@dataclasses.dataclass(slots=True)
class Texts:
    """How often each text of a column occurs."""

    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    overflow: bool = False  # more different texts than are counted


@dataclasses.dataclass(frozen=True, slots=True)
class Tallied:
    """What is known of one column. Moments are of the training rows, everything else of all rows."""

    declared: str = "text"
    rows: int = 0
    missing: int = 0
    words: int = 0  # texts that are no number
    first_missing: int | None = None
    first_word: tuple[int, str] | None = None
    first_infinite: tuple[int, str] | None = None
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    overflow: bool = False  # more different texts than are counted
    whole: bool = True  # all numbers are whole
    rising: bool = True  # each number greater than the one before, none missing: an index or an id
    equal: bool = True  # to the target, in every row
    low: float = math.inf
    high: float = -math.inf
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  # Σ (v − mean)²

    @property
    def present(self) -> int:
        return self.rows - self.missing


class Tallies:
    """What is known of all columns so far: arrays with one entry per column, and texts of those that need them."""

    def __init__(self, names: Sequence[str], target: str, counted: Callable[[str], bool]):
        count = len(names)
        self.names, self.target, self.rows = tuple(names), target, 0
        self.declared: list[str] = ["text"] * count
        self.missing, self.words, self.count = (np.zeros(count, np.int64) for _ in range(3))
        self.first_missing = np.full(count, -1, np.int64)
        self.first_word: dict[int, tuple[int, str]] = {}
        self.first_infinite: dict[int, tuple[int, str]] = {}
        self.whole, self.rising, self.equal = (np.ones(count, bool) for _ in range(3))
        self.low, self.high, self.last = np.full(count, np.inf), np.full(count, -np.inf), np.full(count, -np.inf)
        self.mean, self.squares = np.zeros(count), np.zeros(count)
        self.texts = {j: Texts() for j, name in enumerate(names) if counted(name)}
        self.late: set[int] = set()  # columns whose texts were not counted from the first block on
        self.room = TEXT_BYTES

    def add(self, block: Block, train: np.ndarray) -> np.ndarray:
        """One more block; its numbers [rows, columns]."""
        numbers, words, declared = block.numbers(self.names)
        pairs = zip(declared, self.declared, strict=True)
        self.declared = [new if new == old or not self.rows else "text" for new, old in pairs]
        goal = block.column(self.target)
        aim = goal.numbers()[0][:, None]
        step = max(1, VALUES // max(block.size, 1))
        for start in range(0, len(self.names), step):
            part = slice(start, start + step)
            self._add_part(block, part, numbers[:, part], words[:, part], aim, goal, train)
        self._count(block, np.flatnonzero(words.any(axis=0)).tolist())
        self.rows += block.size
        return numbers

    def _add_part(
        self, block: Block, part: slice, numbers: np.ndarray, words: np.ndarray, aim: np.ndarray, goal: Values, train
    ) -> None:
        empty = np.isnan(numbers)
        absent, infinite = empty & ~words, np.isinf(numbers)
        self._firsts(block, part.start, words, absent, infinite)
        self.missing[part] += absent.sum(axis=0)
        self.words[part] += words.sum(axis=0)
        self.whole[part] &= (empty | (numbers == np.floor(numbers))).all(axis=0)
        self.rising[part] &= (numbers[0] > self.last[part]) & (numbers[1:] > numbers[:-1]).all(axis=0)
        self.last[part] = numbers[-1]
        self.low[part] = np.fmin(self.low[part], np.fmin.reduce(numbers, axis=0))
        self.high[part] = np.fmax(self.high[part], np.fmax.reduce(numbers, axis=0))
        same = ((numbers == aim) | (empty & np.isnan(aim))).all(axis=0)
        for j in np.flatnonzero(same & self.equal[part] & words.any(axis=0)):  # by their texts as well
            rows, values = np.flatnonzero(words[:, j])[:1000].tolist(), block.column(self.names[part.start + j])
            same[j] = all(values.text(row) == goal.text(row) for row in rows)
        self.equal[part] &= same
        self._moments(part, numbers[train])

    def _firsts(self, block: Block, start: int, words: np.ndarray, absent: np.ndarray, infinite: np.ndarray) -> None:
        """The row numbers of the first missing value, text and infinity of each column."""
        known = self.first_missing[start : start + absent.shape[1]]
        new = (known < 0) & absent.any(axis=0)
        known[new] = block.start + absent[:, new].argmax(axis=0)
        for seen, firsts in ((words, self.first_word), (infinite, self.first_infinite)):
            for j in np.flatnonzero(seen.any(axis=0)).tolist():
                if start + j not in firsts:
                    row = int(seen[:, j].argmax())
                    firsts[start + j] = (block.start + row, block.column(self.names[start + j]).text(row))

    def _moments(self, part: slice, numbers: np.ndarray) -> None:
        """Chan's rule: the moments of two parts together, without cancellation."""
        there = ~np.isnan(numbers)
        n = there.sum(axis=0)
        total = np.maximum(self.count[part] + n, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.where(there, numbers, 0).sum(axis=0) / np.maximum(n, 1)
            squares = np.where(there, (numbers - mean) ** 2, 0).sum(axis=0)
            shift = np.where(n > 0, mean - self.mean[part], 0)
            self.mean[part] += shift * n / total
            self.squares[part] += squares + shift * shift * self.count[part] * n / total
        self.count[part] += n

    def _count(self, block: Block, wordy: list[int]) -> None:
        """Texts of the columns that were asked for, hold truths, or have texts that are no numbers."""
        boolean = [j for j, declared in enumerate(self.declared) if declared == "boolean"]
        for j in {*wordy, *boolean} - set(self.texts):
            self.texts[j] = Texts()
            if self.rows:
                self.late.add(j)
        for j, texts in self.texts.items():
            if not texts.overflow:
                self._add_texts(texts, block.column(self.names[j]))

    def _add_texts(self, texts: Texts, values: Values) -> None:
        for text, count in values.counts(TEXTS + 1).items():
            if text not in texts.counts:
                self.room -= len(text) + 150
                if self.room < 0 or len(texts.counts) > TEXTS:
                    texts.overflow = True
                    return
            texts.counts[text] = texts.counts.get(text, 0) + count
        texts.overflow = len(texts.counts) > TEXTS

    def recount(self, table: Table) -> None:
        """Count the texts of columns whose first text came late, where there are enough to make a category of it."""
        again = [j for j in self.late if self.words[j] > 0.2 * (self.rows - self.missing[j])]
        for j in again:
            self.texts[j] = Texts()
        for block in table.blocks() if again else ():
            for j in again:
                if not self.texts[j].overflow:
                    self._add_texts(self.texts[j], block.column(self.names[j]))

    def columns(self) -> dict[str, Tallied]:
        """One Tallied for each column."""
        nothing = Texts()
        flags = (self.missing, self.words, self.first_missing, self.whole, self.rising, self.equal)
        numbers = (self.low, self.high, self.count, self.mean, self.squares)
        rows = zip(self.names, *(array.tolist() for array in (*flags, *numbers)), strict=True)
        out = {}
        for j, (name, missing, words, first, whole, rising, equal, *moments) in enumerate(rows):
            texts = self.texts.get(j, nothing)
            out[name] = Tallied(
                self.declared[j], self.rows, missing, words, None if first < 0 else first, self.first_word.get(j),
                self.first_infinite.get(j), texts.counts, texts.overflow, whole, rising, equal, *moments,
            )  # fmt: skip
        return out


class Sample:
    """A uniform sample of rows, of the columns' numbers (NaN where there is none)."""

    def __init__(self, columns: int, seed: int = 0):
        each = 8 * max(columns, 1)  # bytes of a row
        rows = max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // each))
        rows = max(1, min(rows, MOST_SAMPLE_BYTES // each))
        self.kept = np.full((min(rows, 4096), columns), np.nan)
        self.capacity, self.seen, self.rng = rows, 0, np.random.default_rng(seed)

    def add(self, block: np.ndarray) -> None:
        """Row t replaces a kept row with probability capacity/t, whichever falls to it."""
        first = block[: max(0, self.capacity - self.seen)]
        if len(first):
            end = self.seen + len(first)
            if end > len(self.kept):
                grown = np.full((min(self.capacity, max(end, 2 * len(self.kept))), self.kept.shape[1]), np.nan)
                grown[: len(self.kept)] = self.kept
                self.kept = grown
            self.kept[self.seen : end] = first
            self.seen = end
        rest = block[len(first) :]
        if len(rest):
            slot = self.rng.integers(0, self.seen + 1 + np.arange(len(rest)))
            chosen = slot < self.capacity
            self.kept[slot[chosen]] = rest[chosen]  # of two rows for one slot the later stays
            self.seen += len(rest)

    @property
    def values(self) -> np.ndarray:
        return self.kept[: min(self.seen, self.capacity)]


@dataclasses.dataclass
class Survey:
    """What a pass over the table found: one Tallied per column, and the sample of training rows."""

    columns: dict[str, Tallied]
    sample: np.ndarray
    rows: int
    train_rows: int

    @staticmethod
    def of(
        table: Table,
        names: tuple[str, ...],
        target: str,
        split: Split,
        counted: Callable[[str], bool] = lambda name: True,
        progress: Callable[[int], Any] | None = None,
    ) -> "Survey":
        """Go through the table once; `names` are the columns to look at, the target among them.

        `counted(name)` says of which columns the texts are counted even where they are numbers.
        """
        tallies, sample = Tallies(names, target, counted), Sample(len(names))
        rows = train_rows = 0
        for block in table.blocks():
            train = ~split.held_out(block.start, block.size)
            sample.add(tallies.add(block, train)[train])
            rows, train_rows = block.start + block.size, train_rows + int(train.sum())
            if progress is not None:
                progress(rows)
        if rows == 0:
            raise TableError(f"{table.name} has a header but no rows: give at least two rows of data.")
        tallies.recount(table)
        return Survey(tallies.columns(), sample.values, rows, train_rows)

"""One pass over a table: what each column holds, counted in memory that does not grow with the rows.

Counts, means and variances are exact. Medians are those of a sample of rows (all of them, up to 100,000 rows), drawn
uniformly by reservoir sampling. Different texts are counted up to 10,000 per column, more than any category may have.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .columns import Values
from .errors import TableError
from .split import Split
from .table import Block, Table

TEXTS = 10_000
SAMPLE_ROWS = 100_000
SAMPLE_BYTES = 64 << 20


@dataclasses.dataclass
class Tallied:
    """What is known of one column so far. Moments are of the training rows, everything else of all rows."""

    declared: str = "text"
    rows: int = 0
    missing: int = 0
    words: int = 0  # texts that are no number
    first_missing: int | None = None
    first_word: tuple[int, str] | None = None
    first_infinite: tuple[int, str] | None = None
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    overflow: bool = False  # more different texts than are counted
    whole: bool = True  # all numbers are whole
    rising: bool = True  # each number greater than the one before: an index or an id
    last: float = -math.inf
    equal: bool = True  # to the target, in every row
    low: float = math.inf
    high: float = -math.inf
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  # Σ (v − mean)²

    @property
    def present(self) -> int:
        return self.rows - self.missing

    def add(self, start: int, values: Values, numbers: np.ndarray, words: np.ndarray, train: np.ndarray) -> None:
        """One more block."""
        if self.rows and values.declared != self.declared:
            self.declared = "text"
        else:
            self.declared = values.declared
        absent = np.isnan(numbers) & ~words
        self._firsts(start, values, numbers, words, absent)
        self.rows += len(numbers)
        self.missing += int(absent.sum())
        self.words += int(words.sum())
        if not self.overflow:
            for text, count in values.counts(TEXTS + 1).items():
                self.counts[text] = self.counts.get(text, 0) + count
            self.overflow = len(self.counts) > TEXTS
        found = numbers[~np.isnan(numbers)]
        if len(found):
            self.whole = self.whole and bool((found == np.floor(found)).all())
            self.rising = self.rising and found[0] > self.last and bool((found[1:] > found[:-1]).all())
            self.last = float(found[-1])
            self.low, self.high = min(self.low, float(found.min())), max(self.high, float(found.max()))
        self._moments(numbers[train & ~np.isnan(numbers)])

    def _firsts(self, start, values, numbers, words, absent):
        if self.first_missing is None and absent.any():
            self.first_missing = start + int(absent.argmax())
        if self.first_word is None and words.any():
            row = int(words.argmax())
            self.first_word = (start + row, values.text(row))
        if self.first_infinite is None and np.isinf(numbers).any():
            row = int(np.isinf(numbers).argmax())
            self.first_infinite = (start + row, values.text(row))

    def _moments(self, found: np.ndarray) -> None:
        """Chan's rule: the moments of two parts together, without cancellation."""
        n = len(found)
        if n == 0:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(found.mean())
            squares = float(((found - mean) ** 2).sum())
            shift, total = mean - self.mean, self.count + n
            self.mean += shift * n / total
            self.squares += squares + shift * shift * self.count * n / total
        self.count = total


class Sample:
    """A uniform sample of rows, of the columns' numbers (NaN where there is none)."""

    def __init__(self, columns: int, seed: int = 0):
        rows = max(1000, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * max(columns, 1))))
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
        table: Table, names: tuple[str, ...], target: str, split: Split, progress: Callable[[int], Any] | None
    ) -> "Survey":
        """Go through the table once; `names` are the columns to look at, the target among them."""
        tallied = {name: Tallied() for name in names}
        sample = Sample(len(names))
        rows = train_rows = 0
        for block in table.blocks():
            train = ~split.held_out(block.start, block.size)
            _add(block, tallied, target, train, sample)
            rows, train_rows = block.start + block.size, train_rows + int(train.sum())
            if progress is not None:
                progress(rows)
        if rows == 0:
            raise TableError(f"{table.name} has a header but no rows: give at least two rows of data.")
        return Survey(tallied, sample.values, rows, train_rows)


def _add(block: Block, tallied: dict[str, Tallied], target: str, train: np.ndarray, sample: Sample) -> None:
    goal = block.column(target)
    aim, _ = goal.numbers()
    numbers = np.empty((block.size, len(tallied)))
    for j, (name, column) in enumerate(tallied.items()):
        values = block.column(name)
        numbers[:, j], words = values.numbers()
        column.add(block.start, values, numbers[:, j], words, train)
        if column.equal and name != target:
            column.equal = _same(values, numbers[:, j], words, goal, aim)
    sample.add(numbers[train])


def _same(values: Values, numbers: np.ndarray, words: np.ndarray, goal: Values, aim: np.ndarray) -> bool:
    """Whether a column repeats the target in this block, number by number and text by text."""
    if not np.array_equal(numbers, aim, equal_nan=True):
        return False
    return not words.any() or all(values.text(row) == goal.text(row) for row in np.flatnonzero(words)[:1000].tolist())

"""Which rows are held out: decided by the row's number alone, so that a table can be split while it streams by."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Split:
    """Hold out a fraction of the rows, the same ones whenever the table is read.

    Rows are taken in groups of 10, 20 or 100 (the smallest in which the fraction is a whole number); in each, that
    number is drawn by hashing (seed, row). So the share is exact up to the last group, also in a small table, and the
    order of the file does not matter. fraction=0 holds out nothing.

    >>> split = scax.tables.Split(0.2, seed=0)  # which rows are held out depends on their number and the seed alone
    """

    fraction: float = 0.2
    seed: int = 0
    fold: int = 0  # of 1, …, folds, whose rows are held out as well, to be tested on
    folds: int = 0

    def __post_init__(self):
        if self.fold and not 1 <= self.fold <= self.folds:
            raise ValueError(f"fold must be between 1 and {self.folds}, the number of folds, got {self.fold!r}.")
        if not 0 <= self.fraction <= 0.9:
            raise ValueError(f"fraction must be between 0 and 0.9, got {self.fraction!r}.")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be a whole number ≥ 0 and below 2^63, got {self.seed!r}.")

    def held_out(self, start: int, count: int) -> np.ndarray:
        """bool[count]: which of the rows start … start+count−1 are held out."""
        chosen = self.tested(start, count)
        if self.fraction == 0 or count == 0:
            return chosen
        group = next((g for g in (10, 20) if abs(self.fraction * g - round(self.fraction * g)) < 1e-9), 100)
        return chosen | (_ranks(start, count, group, self.seed) < max(1, round(self.fraction * group)))

    def tested(self, start: int, count: int) -> np.ndarray:
        """bool[count]: which of them are in the fold; every row is in one of the folds."""
        if not self.fold or count == 0:
            return np.zeros(count, bool)
        return _ranks(start, count, self.folds, self.seed + 1) == self.fold - 1


def _ranks(start: int, count: int, group: int, seed: int) -> np.ndarray:
    """0, …, group − 1 in random order within each group of rows, of the rows start … start+count−1."""
    first, stop = start // group * group, -(-(start + count) // group) * group
    drawn = _hash(np.arange(first, stop, dtype=np.uint64), seed).reshape(-1, group)
    rank = drawn.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return rank.reshape(-1)[start - first : start - first + count]


def _hash(index: np.ndarray, seed: int) -> np.ndarray:
    """splitmix64: well mixed 64-bit numbers, one per row."""
    with np.errstate(over="ignore"):
        z = index + np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + np.uint64(0x9E3779B97F4A7C15)
        z *= np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

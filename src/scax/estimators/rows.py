"""Rows in an order of their own, each once: then a weight of 2 and a row given twice are the same data, to the bit."""

from typing import Any, NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Inputs [n, d], targets [n, k] and weights [n] of rows."""

    x: np.ndarray
    targets: np.ndarray
    weight: np.ndarray

    def take(self, places: Any) -> "Rows":
        return Rows(*(part[places] for part in self))

    def some(self, most: int) -> "Rows":
        """At most so many of them, drawn at random."""
        if len(self.x) <= most:
            return self
        return self.take(np.sort(np.random.default_rng(0).permutation(len(self.x))[:most]))


def merge(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct rows (x, y) and their total weights, in an order that depends on their contents alone.

    Rows of weight zero are left out. Training then gives the same network for every order of the rows, and for weights
    instead of repetitions, whatever the batch size and the solver; and no row is in both the training and the
    validation part.
    """
    counts = weight > 0
    x, y, weight = x[counts], y[counts], weight[counts]
    table = _table(x, y)
    order = np.argsort(_keys(table), kind="stable")
    table, weight = table[order], weight[order]
    new = np.ones(len(table), bool)
    new[1:] = np.any(table[1:] != table[:-1], axis=1)
    first = order[new]
    return x[first], y[first], np.add.reduceat(weight, np.flatnonzero(new)) if len(weight) else weight


class Split(NamedTuple):
    """The rows that networks were trained on so far, and those that judge them, by keys of their contents."""

    trained: np.ndarray = np.empty(0, np.uint64)
    held: np.ndarray = np.empty(0, np.uint64)

    def of(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of these rows were held out before, and which are new."""
        keys = _keys(_table(x, y))
        held = np.isin(keys, self.held)
        return held, ~held & ~np.isin(keys, self.trained)

    def then(self, x: np.ndarray, y: np.ndarray, held: np.ndarray) -> "Split":
        """After a fit to these rows."""
        keys = _keys(_table(x, y))
        trained, held = keys[~held], keys[held]
        return Split(
            np.union1d(np.setdiff1d(self.trained, held), trained), np.union1d(np.setdiff1d(self.held, trained), held)
        )

    def refitted(self) -> "Split":
        """Where networks go on that were trained on all rows in the end."""
        return Split(np.union1d(self.trained, self.held))


def _table(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.column_stack([x, y]).astype(np.float64) + 0.0  # + 0: minus zero is zero


def _keys(table: np.ndarray) -> np.ndarray:
    """A number for every row, the same for the same contents."""
    bits = np.ascontiguousarray(table).view(np.uint64)
    # a random odd multiplier for every column, the high half folded down: wrap-around is wanted
    odd = np.random.RandomState(0).randint(0, 2**63, bits.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return ((bits ^ (bits >> np.uint64(32))) * odd).sum(axis=1, dtype=np.uint64)

"""From a table to the network's numbers, and from its outputs back to the table's units. NumPy alone."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from .schema import Schema
from .split import Split


@dataclasses.dataclass
class Tally:
    """What was out of the ordinary while encoding, counted: {column: rows}. `sentences()` tells a person."""

    unseen: dict[str, int] = dataclasses.field(default_factory=dict)
    filled: dict[str, int] = dataclasses.field(default_factory=dict)
    extra: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Preprocess:
    """The schema, and the numbers learned from the training rows.

    Numbers become (value − mean)/scale, missing ones the median first; booleans 0/1; a category one 0/1 feature per
    level, all 0 where the level is new or missing; columns with missing values add an indicator. A regression target
    becomes (y − mean)/scale; two classes become 0 and 1 (float), more become class indices (int32).
    """

    schema: Schema
    median: np.ndarray  # one per used column, 0 for categories
    mean: np.ndarray  # [d], one per encoded feature; 0 where it is not standardized
    scale: np.ndarray  # [d]
    target_mean: float = 0.0
    target_scale: float = 1.0

    @staticmethod
    def fit(
        table: Any,
        target: str,
        *,
        task: str | None = None,
        drop: Iterable[str] = (),
        categories: Iterable[str] = (),
        max_levels: int = 100,
        split: Split = Split(0.0),
        progress: Any = None,
    ) -> "Preprocess":
        """Find the schema and the statistics in one pass over the table (anything `open_table` takes).

        The schema is that of all rows; medians, means and scales are those of the rows that `split` does not hold out.
        `task` is "regression" or "classification", None decides; `drop` leaves columns out; `categories` takes numeric
        columns as categories; a category has at most `max_levels` levels. `progress(rows)` is called after each
        block. Bad input is a TableError; what a person should know but need not act upon is in `schema.warnings`.
        """
        raise NotImplementedError

    def transform(self, table: Any, tally: Tally | None = None) -> np.ndarray:
        """x: float32 [n, d] of a table (anything `open_table` takes) or of an array [n, used columns] of raw numbers.

        Columns may be in any order; one that the schema needs and the table lacks is a TableError; others are ignored
        and counted in `tally`, as are levels never seen and missing values where training had none.
        """
        raise NotImplementedError

    def target(self, table: Any) -> np.ndarray:
        """y as the loss wants it: standardized float32 [n], labels 0/1 float32 [n], or class indices int32 [n]."""
        raise NotImplementedError

    def arrays(self, table: Any, split: Split | None = None) -> tuple[np.ndarray, ...]:
        """(x, y), or with a split (x, y, x held out, y held out), in one pass over the table."""
        raise NotImplementedError

    def restore(self, outputs: np.ndarray) -> np.ndarray:
        """Regression outputs [n] or [n, 1] back in the target's units, float64 [n]."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        raise NotImplementedError

    @staticmethod
    def from_json(value: Any) -> "Preprocess":
        raise NotImplementedError

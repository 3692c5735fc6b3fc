"""Error bars of an estimator: made when they are first asked for, from rows that `fit` keeps."""

from typing import Any

import numpy as np

from ..losses import Loss
from ..storage.error_bars import ErrorBars
from ..uncertainty.error_bars import MOST_ROWS, error_bars
from .network import Layers
from .rows import Rows


class Uncertain:
    """What an estimator knows of its own uncertainty."""

    _members: list[Layers]
    _output_offset: np.ndarray
    alpha_: float
    penalty: str

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _activation(self) -> str:
        raise NotImplementedError

    def _keep_rows(self, train: Rows, held_out: Rows | None) -> None:
        """Remember what error bars are made of: `MOST_ROWS` rows at most, and as many of those held out."""
        self._bars: ErrorBars | None = None
        self._bar_rows: Any = (_some(train), None if held_out is None else _some(held_out), float(train.weight.sum()))

    @property
    def error_bars_(self) -> ErrorBars:
        """The posterior of the members, linearized; in the network's own units. Needs `fit`."""
        if getattr(self, "_bars", None) is None:
            if getattr(self, "_bar_rows", None) is None:
                raise ValueError("error bars need all rows, and partial_fit keeps none: call fit(X, y).")
            train, held_out, total = self._bar_rows
            ridge = self.alpha_ if self.penalty == "l2" else 0.0
            self._bars = error_bars(
                [list(zip(*member, strict=True)) for member in self._members],
                self._activation(),
                "linear",
                self._output_offset,
                self._loss(),
                ridge,
                train,
                held_out,
                total=total,
                sparse=self.penalty != "l2",
            )
        assert self._bars is not None
        return self._bars


def _some(rows: Rows) -> Rows:
    if len(rows.x) <= MOST_ROWS:
        return rows
    return rows.take(np.sort(np.random.default_rng(0).permutation(len(rows.x))[:MOST_ROWS]))

"""Error bars of an estimator: made when they are first asked for, from rows that `fit` keeps."""

import copy
from typing import Any

import numpy as np

from ..storage.error_bars import ErrorBars
from ..storage.network import forward
from ..uncertainty.error_bars import MOST_ROWS, error_bars
from .rows import Rows
from .training import Training

#: Parts of the rows that are left out in turn to calibrate error bars, and the rows up to which that is done.
FOLDS, MOST_REFITTED = 8, 1000


class Uncertain(Training):
    """What an estimator knows of its own uncertainty."""

    def _keep_rows(self, train: Rows, held_out: Rows | None) -> None:
        """Remember what error bars are made of: `MOST_ROWS` rows at most, and as many of those held out."""
        self._bars: ErrorBars | None = None
        self._bar_rows: Any = (
            train.some(MOST_ROWS),
            None if held_out is None else held_out.some(MOST_ROWS),
            float(train.weight.sum()),
        )

    @property
    def error_bars_(self) -> ErrorBars:
        """The posterior of the members, linearized; in the network's own units. Needs `fit`.

        Where rows were held out it is that of the members before these rows took part: it says how far the members may
        be off that all rows made, whose predictions are put in its middle.
        """
        if getattr(self, "_bars", None) is None:
            if getattr(self, "_bar_rows", None) is None:
                raise ValueError("error bars need all rows, and partial_fit keeps none: call fit(X, y).")
            train, held_out, total = self._bar_rows
            ridge = self.alpha_ if self.penalty == "l2" else 0.0
            self._bars = error_bars(
                [list(zip(*member, strict=True)) for member in self._judged],
                self._activation(),
                "linear",
                self._output_offset,
                self._loss(),
                ridge,
                train,
                held_out,
                total=total,
                units=self._masks,
                sparse=self.penalty != "l2",
                left_out=self._left_out(train) if held_out is None else None,
            )
        assert self._bars is not None
        return self._bars

    def _left_out(self, rows: Rows) -> np.ndarray | None:
        """Outputs [M, n, k] for every row of networks trained without it, FOLDS trainings of the same program.

        The closed form takes the weights to be at a minimum, and the hidden units to be what all rows made them; where
        rows are few neither is near enough. None where it is exact, for a linear model, or where rows are many.
        """
        n = len(rows.x)
        if not self.recipe_.hidden or not 2 * FOLDS <= n <= MOST_REFITTED:
            return None
        random = np.random.RandomState(0)
        fold, found = random.permutation(n) % FOLDS, np.empty((len(self._members), *rows.targets.shape))
        for k in range(FOLDS):
            other, some = copy.copy(self), rows.take(fold != k)
            other.verbose, other.loss_curve_, other.validation_loss_curve_ = False, [], None
            other._saved_state = None
            other._initialize(some.targets, some.weight, random, self._scales)
            other._train(*some, None, self.recipe_.epochs, random)
            for m, (weights, biases) in enumerate(other._members):
                layers = list(zip(weights, biases, strict=True))
                z = forward(layers, self._activation(), "linear", rows.x[fold == k])
                found[m, fold == k] = z + other._output_offset
        return found

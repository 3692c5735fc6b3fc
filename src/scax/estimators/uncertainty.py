"""Error bars of an estimator: made when they are first asked for, from rows that `fit` keeps."""

import copy
from typing import Any

import numpy as np

from ..losses import Loss
from ..storage.error_bars import ErrorBars, NetworkJacobian
from ..storage.network import forward
from ..training.recipe import Recipe
from ..uncertainty.error_bars import MOST_ROWS, error_bars
from ..uncertainty.fit import fit
from ..uncertainty.posterior import Rows as Evidence
from .network import Layers
from .rows import Rows

#: alpha="evidence": the first strength and the range; how often it follows the evidence, by which factor at most (ln),
#: and the change that ends it; the share of the rows that N − γ is at least, and the rows that γ is counted on.
START, STRENGTHS = 0.1, (1e-7, 10.0)
STRETCHES, LARGEST_CHANGE, STILL = 8, 1.5, 0.1
LEAST_FREE, MOST_EVIDENCE_ROWS = 0.1, 2048
#: Parts of the rows that are left out in turn to calibrate error bars, and the rows up to which that is done.
FOLDS, MOST_REFITTED = 8, 1000


class Uncertain:
    """What an estimator knows of its own uncertainty."""

    _members: list[Layers]
    _output_offset: np.ndarray
    alpha_: float
    penalty: str
    recipe_: Recipe
    verbose: Any
    loss_curve_: list[float]
    validation_loss_curve_: list[float] | None
    _saved_state: Any

    def _initialize(self, targets: np.ndarray, weight: np.ndarray, random: Any) -> None:
        raise NotImplementedError

    def _train(self, x, targets, weight, held, max_iter: int, random: Any) -> None:
        raise NotImplementedError

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
            other._initialize(some.targets, some.weight, random)
            other._train(*some, None, self.recipe_.epochs, random)
            for m, (weights, biases) in enumerate(other._members):
                layers = list(zip(weights, biases, strict=True))
                z = forward(layers, self._activation(), "linear", rows.x[fold == k])
                found[m, fold == k] = z + other._output_offset
        return found

    def _evidence_strength(self, x: np.ndarray, targets: np.ndarray, weight: np.ndarray, random: Any) -> float:
        """alpha="evidence": λ ← Tγ/(N‖w‖²) between stretches of the training itself, as the first member has it.

        From strong to weak, and a short step at a time: a network that follows its rows exactly has no noise, and so no
        reason to be penalized.
        """
        self.alpha_, rows, stretch = START, Rows(x, targets, weight), max(3, self.recipe_.epochs // STRETCHES)
        some = _some(rows, MOST_EVIDENCE_ROWS)
        for _ in range(STRETCHES):
            self._train(x, targets, weight, None, stretch, random)
            change = np.log(self._evidence_update(self._members[0], some, float(weight.sum())) / self.alpha_)
            self.alpha_ *= float(np.exp(np.clip(change, -LARGEST_CHANGE, LARGEST_CHANGE)))
            if abs(change) < STILL:
                break
        return self.alpha_

    def _evidence_update(self, member: Layers, rows: Rows, total: float) -> float:
        k, loss = rows.targets.shape[1], self._loss()
        layers = list(zip(*member, strict=True))
        jacobian = NetworkJacobian.of(layers, self._activation(), "linear", self._output_offset)
        data = Evidence(rows.x, rows.targets, rows.weight, k, total / rows.weight.sum())
        form = "weight-space" if len(jacobian.support) <= len(rows.x) * k else "sample-space"
        strength = fit(jacobian, loss, data, self.alpha_, form, noise=None, least_free=LEAST_FREE).ridge_update
        return float(np.clip(strength, *STRENGTHS))


def _some(rows: Rows, most: int = MOST_ROWS) -> Rows:
    if len(rows.x) <= most:
        return rows
    return rows.take(np.sort(np.random.default_rng(0).permutation(len(rows.x))[:most]))

"""Error bars of an estimator: made when they are first asked for, from rows that `fit` keeps."""

from typing import Any

import numpy as np

from ..losses import Loss
from ..storage.error_bars import ErrorBars, NetworkJacobian
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


class Uncertain:
    """What an estimator knows of its own uncertainty."""

    _members: list[Layers]
    _output_offset: np.ndarray
    alpha_: float
    penalty: str
    recipe_: Recipe

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
            )
        assert self._bars is not None
        return self._bars

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

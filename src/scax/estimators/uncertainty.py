"""Error bars of an estimator: made when they are first asked for, from rows that `fit` keeps."""

import copy
from typing import Any

import jax
import numpy as np

from ..losses import Loss
from ..storage.error_bars import ErrorBars, NetworkJacobian
from ..storage.network import forward
from ..training import engine
from ..training.engine import Part
from ..training.feed import padded
from ..training.recipe import Recipe
from ..training.stopping import Stopping
from ..uncertainty.error_bars import MOST_ROWS, error_bars
from ..uncertainty.fit import fit
from ..uncertainty.posterior import Rows as Evidence
from . import strength
from .network import Layers, from_params
from .rows import Rows
from .trainer import Trainer

#: alpha="evidence": rows of which the evidence is made at most, and the share of them that N − γ is at least.
MOST_EVIDENCE_ROWS, LEAST_FREE = 2048, 0.1
#: Parts of the rows that are left out in turn to calibrate error bars, and the rows up to which that is done.
FOLDS, MOST_REFITTED = 8, 1000


class Uncertain:
    """What an estimator knows of its own uncertainty."""

    _members: list[Layers]
    _masks: list[np.ndarray]
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

    def _trainer(self) -> Trainer:
        raise NotImplementedError

    def _batch_size(self, n: int, k: int) -> int:
        raise NotImplementedError

    def _say(self, text: str) -> None:
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
        """alpha="evidence": the search of "auto", its networks trained on all rows and judged by log p(y | x, λ).

        λ ← Tγ/(N‖w‖²) between stretches, from a single start, ends where that puts it: a strong penalty makes the
        network linear, and there it has a fixed point as well.
        """
        n, rows, trainer = len(x), Rows(x, targets, weight), self._trainer()
        some, total = _some(rows, MOST_EVIDENCE_ROWS), float(weight.sum())
        batch_size, seed = self._batch_size(n, targets.shape[1]), np.uint32(random.randint(2**32, dtype=np.uint32))

        def judge(strengths: np.ndarray, last: Part) -> np.ndarray:
            assert last.carry.best is not None
            ends = jax.device_get(last.carry.best.params)
            networks = [
                from_params(jax.tree.map(lambda leaf, i=i: leaf[i], ends), x.shape[1]) for i in range(len(strengths))
            ]
            return np.array([-self._evidence(*each, some, total) for each in zip(networks, strengths, strict=True)])

        with trainer.programs():
            feed = trainer.feed(*rows, batch_size)
            like = trainer.feed(x[:1], targets[:1], weight[:1], size=padded(round(strength.FRACTION * n)))
            count = strength.passes(n, batch_size)
            stopping = Stopping(0.0, count, False, engine.RUNS)
            start = trainer.params(self._members[0], self._masks[0])
            trial = strength.trials(
                trainer, start, [(feed, like)], stopping, count, seed, self._say, judge, "−log p(y | X, alpha)"
            )
            return strength.search(trial)

    def _evidence(self, member: Layers, alpha: float, rows: Rows, total: float) -> float:
        layers, k = list(zip(*member, strict=True)), rows.targets.shape[1]
        jacobian = NetworkJacobian.of(layers, self._activation(), "linear", self._output_offset)
        data = Evidence(rows.x, rows.targets, rows.weight, k, total / rows.weight.sum())
        return fit(jacobian, self._loss(), data, float(alpha), "auto", least_free=LEAST_FREE).evidence


def _some(rows: Rows, most: int = MOST_ROWS) -> Rows:
    if len(rows.x) <= most:
        return rows
    return rows.take(np.sort(np.random.default_rng(0).permutation(len(rows.x))[:most]))

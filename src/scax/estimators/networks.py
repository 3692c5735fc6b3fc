"""The networks of an estimator before they are trained: recipe, first weights, trainer."""

import dataclasses
from typing import Any

import numpy as np

from ..losses import Loss
from ..training.feed import padded
from ..training.recipe import Recipe
from . import parameters
from .inputs import Inputs
from .network import Layers, glorot, joined
from .parameters import is_auto, is_evidence
from .trainer import Trainer

#: Rows of an automatic batch at most; and the linear system of one step, with a row per sample and output, is kept
#: near this size.
MOST_IN_BATCH, SYSTEM_SIZE = 64, 128


class Networks(Inputs):
    """What is trained, by the parameters and the size of the table."""

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _offset(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Outputs before anything is learned."""
        return np.zeros(targets.shape[1])

    def _strata(self, y: np.ndarray) -> np.ndarray | None:
        """Labels by which the validation rows are drawn; None draws them evenly."""
        return None

    def _say(self, text: str) -> None:
        """Progress, for who asked for it."""
        if self.verbose:
            print(text, flush=True)  # noqa: T201

    def _recipe(self, rows: int, columns: int, outputs: int, before: Recipe | None = None) -> Recipe:
        """The recipe for a table of this size, with what was given instead; networks that go on are `before`'s."""
        smooth = self.penalty == "l2"
        recipe = Recipe.of(rows, columns, smooth, self._batch_size(rows, outputs))
        given: dict[str, Any] = {
            "hidden": self.hidden_layer_sizes,
            "activation": parameters.ALIASES.get(self.activation, self.activation),
            "numbers": self.numbers,
            "epochs": self.max_iter,
            "tol": self.tol,
            "patience": self.n_iter_no_change,
            "holds_out": self.early_stopping,
            "fraction": self.validation_fraction,
            "members": self.n_members,
        }
        given = {name: value for name, value in given.items() if not is_auto(value)}
        if not is_auto(self.early_stopping):  # as people know it: rows set aside are not trained on
            given["refits"] = False
        if is_evidence(self.alpha):  # it stands in for rows held out
            given.setdefault("holds_out", False)
        if "hidden" in given:
            given["hidden"] = parameters.hidden_widths(given["hidden"])
            if not given["hidden"]:  # a linear model is to be linear in X
                given.setdefault("numbers", "standard")
        if before is not None:
            given = {"activation": before.activation} | given
            given |= {"hidden": before.hidden, "numbers": before.numbers, "members": len(self._members)}
        recipe = dataclasses.replace(recipe, **given)
        return dataclasses.replace(recipe, refits=recipe.refits and recipe.holds_out)

    _scales: np.ndarray  # of the weights of every feature

    def _initialize(
        self, targets: np.ndarray, weight: np.ndarray, random: np.random.RandomState, scales: np.ndarray | None = None
    ) -> None:
        self._scales = np.ones(len(self._encoding.source)) if scales is None else scales
        views = self._views()
        self._masks = [views[i % len(views)] * self._scales for i in range(self.recipe_.members)]
        self._members = [self._drawn(targets, mask, random) for mask in self._masks]
        self.coefs_, self.intercepts_ = joined(self._members)
        self._output_offset = self._offset(targets, weight)
        self.n_layers_, self.n_outputs_, self.t_ = len(self.coefs_) + 1, targets.shape[1], 0

    def _views(self) -> list[np.ndarray]:
        """What networks see of a row: all features, and for "both" those that are no bins."""
        whole = np.ones(len(self._encoding.source))
        no_bins = np.where(self._encoding.is_bin, 0.0, whole)
        both = self.recipe_.numbers == "both" and no_bins.min() == 0
        return [whole, no_bins] if both else [whole]

    def _drawn(self, targets: np.ndarray, mask: np.ndarray, random: np.random.RandomState) -> Layers:
        """A network to start from, whose weights are as large as what it sees asks for."""
        (first, *others), biases = glorot((int(np.sum(mask > 0)), *self.recipe_.hidden, targets.shape[1]), random)
        weights = np.zeros((len(mask), first.shape[1]))
        weights[mask > 0] = first * mask[mask > 0, None]
        return [weights, *others], biases

    def _batch_size(self, n: int, k: int) -> int:
        """Rows per step; a batch that holds every row is as long as the padded table."""
        automatic = min(MOST_IN_BATCH, max(16, 1 << max(1, SYSTEM_SIZE // k).bit_length() - 1))
        size = automatic if isinstance(self.batch_size, str) else int(self.batch_size)
        return padded(n) if size >= n else size

    def _held_out(self, y: np.ndarray, fraction: float, random: np.random.RandomState) -> np.ndarray:
        """Which rows are set aside: drawn at random, every stratum in proportion."""
        n = len(y)
        count = max(1, round(fraction * n))
        if count >= n:
            raise ValueError(
                f"early_stopping sets {count} of {n} samples aside and leaves none to train on: "
                "lower validation_fraction, or use early_stopping=False."
            )
        order = random.permutation(n)
        strata = self._strata(y)
        if strata is not None:
            order = order[np.argsort(strata[order], kind="stable")]
        held = np.zeros(n, bool)
        held[order[((np.arange(count) + random.uniform()) * n / count).astype(int)]] = True
        return held

    def _activation(self) -> str:
        return self.recipe_.activation

    def _trainer(self) -> Trainer:
        options = {} if is_auto(self.damping) else {"damping": float(self.damping)}
        return Trainer(
            self._loss(),
            self._activation(),
            self.penalty,
            float(self.l1_ratio),
            self._output_offset,
            self.recipe_.is_single,
            (self.sca_params or {}) | options,
        )

"""What the regressor and the classifier share: parameters, training, warm starts, sparsity."""

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from .._compat import refuse_fork
from ..storage.network import forward
from . import parameters
from .parameters import is_auto
from .rows import Rows, Split, merge
from .strength_search import PARTIAL_STRENGTH, StrengthSearch
from .uncertainty import Uncertain


class SCAEstimator(Uncertain, StrengthSearch):
    """Abstract: use SCARegressor or SCAClassifier."""

    # what the two kinds differ in

    def _validate(self, X, y, first: bool) -> tuple[np.ndarray, np.ndarray]:
        """X and y as arrays; on the first call of a fit `first` is True and attributes of the data are set."""
        raise NotImplementedError

    def _targets(self, y: np.ndarray, weight: np.ndarray, first: bool) -> np.ndarray:
        """What the loss compares the outputs with, [n, k]; on the first call the target's own scale is learned."""
        raise NotImplementedError

    def _row_weights(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Sample weights, class weights included."""
        return weight

    # fitting

    def fit(self, X, y, sample_weight=None):
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows: 2 stands for a row given twice, 0 for one left out.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        refuse_fork()
        parameters.check(self)
        again = self.warm_start and hasattr(self, "coefs_")
        X, y = self._validate(X, y, first=not again)
        X, targets, weight, y = self._merged(X, y, sample_weight, first=not again)
        random = check_random_state(self.random_state)
        before = self.recipe_ if again else None
        self.recipe_ = self._recipe(len(X), X.shape[1], targets.shape[1], before)
        self._say(str(self.recipe_))
        is_judged = self.recipe_.holds_out and self.penalty == "l2"
        if not again:
            self._encoding = self._learn_encoding(X, weight)
            self._initialize(targets, weight, random)
        x, held = self._encoding.apply(X, self._trainer().dtype), None
        if not np.any(x != x[0]):
            warnings.warn(
                "every column of X is the same in all rows: so will be the prediction.", UserWarning, stacklevel=2
            )
        known = self._split if again else Split()
        if before is not None and before.refits and not is_judged:  # goes on from networks that all rows made
            known = known.refitted()
        apart = self._set_aside(X, y, random, known)
        if self.recipe_.holds_out:
            held = Rows(x, targets, weight).take(apart)
            x, targets, weight, y = x[~apart], targets[~apart], weight[~apart], y[~apart]
        self.loss_curve_ = []
        self.validation_loss_curve_ = None if held is None else []
        self._saved_state = None
        if held is not None and is_judged:
            self._train_pool(Rows(x, targets, weight), held, random, again)
        else:
            self.alpha_ = self._strength(x, targets, weight, y, random, again)
            self._train(x, targets, weight, held, self.recipe_.epochs, random)
        self._keep_rows(Rows(x, targets, weight), held)
        if not self._converged and held is None:
            warnings.warn(
                f"the loss was still falling after max_iter={self.recipe_.epochs} epochs: raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if held is not None and self.best_validation_loss_ >= self._loss_of_nothing(held):
            warnings.warn(
                "the fit is no better on rows held out than predicting the same for all: X may not tell y.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    _split: Split

    def _set_aside(self, X: np.ndarray, y: np.ndarray, random: np.random.RandomState, before: Split) -> np.ndarray:
        """Which rows are held out: none, a part, or in a fit that goes on those that were, and a part of the new."""
        apart, fraction = np.zeros(len(X), bool), self.recipe_.fraction
        if self.recipe_.holds_out:
            apart, new = before.of(X, y)
            if round(fraction * np.sum(new)):
                apart[new] = self._held_out(y[new], fraction, random)
            if apart.all() or not apart.any():
                if not (apart.any() or new.any()):
                    warnings.warn(
                        "the network has been trained on all of these rows before: those held out cannot judge it.",
                        UserWarning,
                        stacklevel=3,
                    )
                apart = self._held_out(y, fraction, random)
        self._split = before.then(X, y, apart)
        return apart

    def _loss_of_nothing(self, rows: tuple) -> float:
        """The average loss of the outputs before anything is learned."""
        _, targets, weight = rows
        with jax.enable_x64(True):
            z = jnp.broadcast_to(self._output_offset, targets.shape)
            return float(weight @ np.asarray(self._loss().value(z, jnp.asarray(targets))) / weight.sum())

    def _partial_fit(self, X, y, sample_weight):
        """One epoch over these rows, going on from where the last one ended."""
        refuse_fork()
        parameters.check(self)
        if self.early_stopping is True:
            raise ValueError("partial_fit sees one part of the data at a time: it needs early_stopping=False.")
        first = not hasattr(self, "coefs_")
        X, y = self._validate(X, y, first=first)
        X, targets, weight, y = self._merged(X, y, sample_weight, first=first)
        random = self._random if hasattr(self, "_random") else check_random_state(self.random_state)
        if first:
            single: dict[str, Any] = {"members": 1 if is_auto(self.n_members) else self.n_members, "holds_out": False}
            self.recipe_ = dataclasses.replace(self._recipe(1, X.shape[1], targets.shape[1]), **single)
            self._encoding = self._learn_encoding(X, weight)
            self._initialize(targets, weight, random)
        if not hasattr(self, "_random"):
            self._random, self.loss_curve_ = random, getattr(self, "loss_curve_", [])
        if not isinstance(self.alpha, str):
            self.alpha_ = float(self.alpha)
        elif first:
            self.alpha_ = PARTIAL_STRENGTH
        judged = None if first else self._judged
        self._train(self._encoding.apply(X), targets, weight, None, 1, random)
        if judged is not None and self.recipe_.refits:
            self._judged = judged  # from which the next fit goes on: these rows may be among those held out
        else:
            self._split = (Split() if first else self._split).then(X, y, np.zeros(len(X), bool))
        self._bars = self._bar_rows = None
        return self

    def _merged(self, X, y, sample_weight, first: bool):
        """Rows, targets and weights, equal rows merged; and y."""
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        X, y, weight = merge(X, y, weight)
        weight = self._row_weights(y, weight)
        if not np.any(weight > 0):
            raise ValueError("the weights are zero for every row: at least one must count.")
        return X, self._targets(y, weight, first), weight, y

    # predicting

    def _raw(self, X) -> np.ndarray:
        """The network's outputs [n, k] for new rows."""
        return self._outputs(self._inputs(X))

    def to_model(self, target: str = "target"):
        """The fitted network and its preprocessing as one model, which `scax.load` reads and ONNX can hold.

        Parameters
        ----------
        target : str, default="target"
            What the predicted column is called.

        Returns
        -------
        model : scax.Model
            `model.predict(table)` takes rows with the same columns; `model.save(path)` and `model.to_onnx(path)` write
            it. Predicting needs NumPy alone. It has no error bars: those stay with the estimator.
        """
        from .export import model_of, target_of

        check_is_fitted(self)
        classes = getattr(self, "classes_", None)
        mean, scale, link = self._output_units()
        biases = [*self.intercepts_[:-1], self.intercepts_[-1] + self._output_offset]
        names = [str(n) for n in getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])]
        layers = list(zip(self.coefs_, biases, strict=True))
        about = target_of(target, classes)
        return model_of(layers, self._activation(), link, self._columns, self._encoding, names, about, (mean, scale))

    def _output_units(self) -> tuple[float, float, str]:
        """Mean and scale by which outputs become predictions, and the link before them; for one column alone."""
        raise NotImplementedError

    def _outputs(self, x: np.ndarray) -> np.ndarray:
        layers = list(zip(self.coefs_, self.intercepts_, strict=True))
        return forward(layers, self._activation(), "linear", x) + self._output_offset

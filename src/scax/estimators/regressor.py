"""Regression with the interface of scikit-learn."""

import dataclasses
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .. import checks
from .._gaussian import check_coverage
from ..losses import Huber, Loss, Poisson, Squared
from .base import SCAEstimator
from .scaling import Scaling

LOSSES = ("squared", "huber", "poisson")


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class SCARegressor(RegressorMixin, SCAEstimator):
    """Neural network regression, trained by stochastic successive convex approximation.

    Every step replaces the network by its linearization on a batch of rows and solves the convex problem that remains:
    few epochs, and no learning rate to tune.

    Parameters
    ----------
    hidden_layer_sizes : int, tuple of int or "auto", default="auto"
        Width of every hidden layer: "auto" is (64, 64) from 1,000 rows on, else (32,); ``()`` is a linear model.
    activation : {"auto", "tanh", "relu", "gelu", "silu", "elu", "softplus", "logistic", "identity"}, default="auto"
        Activation of the hidden layers: "auto" is "silu" from 1,000 rows on, else "tanh".
    loss : {"squared", "huber", "poisson"}, default="squared"
        What is minimized: "huber" forgives outliers, "poisson" is for counts and rates (predictions are positive).
    huber_delta : float, default=1.0
        Where the Huber loss goes from quadratic to straight, in standard deviations of the target.
    penalty : {"l2", "l1", "elasticnet", "log", "group"}, default="l2"
        Penalty on the weights. "l1" makes single weights exactly zero; "log" too, and hardly shrinks the others, which
        suits clear signals; "group" all weights that leave a neuron or an input feature together, so that whole neurons
        and features drop out.
    alpha : float, "auto", "held_out" or "evidence", default="auto"
        Strength of the penalty R in the objective: average loss + R(w), with R = alpha ½‖w‖² for "l2", alpha ‖w‖₁ for
        "l1". It is not divided by the number of rows. "evidence" holds no rows out and gives every column a strength of
        its own (automatic relevance), those of the most evidence, log p(y | X, alpha). "auto" is the evidence for 40 to
        999 rows (distinct, and by their weights) with the squared loss, "l2", no bins, no early stopping and up to 40
        outputs, else "held_out". "held_out" compares decades, four at a time, by trainings judged on rows held out: the
        fit's own where it holds some out, else a quarter of the rows, then trains on all rows. For penalties that make
        zeros it is the strongest on a path of strengths whose loss on a quarter of the rows exceeds the least by no
        more than one standard error, and the fit goes on from there.
    l1_ratio : float, default=0.5
        Share of the l1 part in "elasticnet".
    damping : float or "auto", default="auto"
        Weight τ of the proximal term that holds a step near the current weights. A number fixes it.
    batch_size : int or "auto", default="auto"
        Rows per step. "auto" takes all rows where they are few, and otherwise 64, or as many as keep the linear system
        of a step near 128 equations (one per row and output). An epoch is split into batches of equal size.
    max_iter : int or "auto", default="auto"
        Largest number of epochs: 60, fewer (down to 25) for many rows; 100 for less than 1,000 rows.
    tol : float or "auto", default="auto"
        An epoch counts as an improvement if it lowers the monitored value by more than this (0; 1e-3 for less than
        1,000 rows): the objective on the training rows or, with early stopping, the loss on the validation rows.
    n_iter_no_change : int or "auto", default="auto"
        Training stops after this many epochs in a row without an improvement: 10; 3 for less than 1,000 rows.
    early_stopping : bool or "auto", default="auto"
        Set a part of the rows aside, stop when the loss on them no longer falls, and keep the best weights. "auto" does
        so from 1,000 rows on, unless the penalty makes zeros, and then trains the members again on all rows, for as
        many epochs as were best.
    validation_fraction : float or "auto", default="auto"
        The part of the rows that early stopping sets aside: 0.2; 0.1 for less than 1,000 rows.
    n_members : int or "auto", default="auto"
        Networks whose raw outputs are averaged: at most so many of those of the search. 4, or 1 with a penalty making
        zeros; 1 also searches less. `coefs_` is one network that stands for all: their units side by side.
    standardize : bool, default=True
        Scale inputs (see `numbers`) and targets inside the estimator; predictions are in the original units.
    numbers : {"auto", "standard", "clipped", "bins", "both"}, default="auto"
        How columns of numbers enter the network. "standard": mean 0 and deviation 1. "clipped": median 0 and distance
        of the quartiles 1, large values clipped smoothly. "bins": that, and each number's place within 16 quantile bins
        (piecewise linear encoding). "both": half of the members see the bins, half do not; the better half alone where
        rows held out show a clear difference. "auto" is "both" from 1,000 rows on ("clipped" with hundreds of columns),
        and "standard" for fewer rows, a penalty that makes zeros, and a linear model.
    categorical_features : array-like of bool, int or str, "from_dtype" or None, default="from_dtype"
        Columns that are categories, by mask, place or name, beside the columns of a data frame (pandas, polars) with
        texts or categories, which always are. Every level gets a feature; levels seen in fewer than 5 rows share one.
        Missing values get a feature of their own, in all kinds of columns; dates become days, year, month, weekday and
        hour.
    warm_start : bool, default=False
        Start a new call of `fit` from the weights of the last one, and keep its standardization, the rows it held out
        and the strengths that these chose.
    random_state : int, RandomState instance or None, default=None
        Draws the first weights, the order of the rows and the validation rows. With an int, results are reproducible.
    verbose : bool, default=False
        Print the loss of every epoch.
    sca_params : dict, default=None
        Further keyword arguments of :class:`scax.SCA`, such as ``{"carry": 0.0}``.

    Attributes
    ----------
    coefs_ : list of ndarray
        Weights of every layer, of shape (inputs, outputs), for standardized inputs.
    intercepts_ : list of ndarray
        Biases of every layer.
    loss_curve_ : list of float
        The objective on the training rows after every epoch.
    loss_ : float
        Its last value.
    validation_loss_curve_ : list of float or None
        With early stopping, the average loss on the validation rows after every epoch.
    best_validation_loss_ : float
        With early stopping, the smallest of them.
    recipe_ : scax.training.recipe.Recipe
        What "auto" stood for; its text is one line.
    alpha_ : float
        The strength used.
    relevance_ : ndarray of shape (n_features_in_,)
        How large the weights of each column may be, in units of the other weights: its strength is
        alpha_ / relevance_². Found by the evidence; 1 otherwise.
    path_ : dict or None
        With alpha="auto" and a penalty other than "l2", one entry for every strength tried: "alpha", "loss" on the rows
        held out, its "excess" over the least and the standard "error" of that, "weights" and hidden "neurons" in use,
        and which "features" are.
    n_iter_ : int
        Number of epochs.
    t_ : int
        Number of rows seen.
    n_features_in_, feature_names_in_ : int, ndarray
        Number and names of the features seen during `fit`.
    n_layers_, n_outputs_ : int
        Number of layers, input included, and of outputs.
    sparsity_ : float
        Fraction of `coefs_` that is not in use: zeros, and weights of neurons on no path of nonzero weights from a
        feature to an output. `scax.compact` leaves them out without changing a prediction.
    features_used_, n_features_used_ : ndarray of bool, int
        Which input features the network looks at, and how many.
    n_neurons_used_ : tuple of int
        For every hidden layer, how many neurons are in use.

    See Also
    --------
    SCAClassifier : The same for labels.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from scax.estimators import SCARegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SCARegressor(random_state=0).fit(X, y)
    >>> model.predict(X[:2]).shape
    (2,)
    """

    loss: Any = "squared"
    huber_delta: Any = 1.0

    def partial_fit(self, X, y, sample_weight=None):
        """One epoch over the given rows.

        Standardization is learned from the first call and kept; give it rows that are typical, or use
        ``standardize=False`` and scale the data yourself.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : object
            The estimator.
        """
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X, return_std=False):
        """Predict targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Also return the standard deviation of y around the prediction: noise, and what the network may be off.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions, in the units of the targets given to `fit`.
        std : ndarray of the same shape
            With `return_std`, their standard deviations.
        """
        x = self._inputs(X)
        z = self._outputs(x)
        y = np.exp(z) * self._target_scaling.scale if self.loss == "poisson" else self._target_scaling.undo(z)
        y = y[:, 0] if self._flat else y
        if not return_std:
            return y
        std = self.error_bars_.predict(x, z)[1] * self._target_scaling.scale
        return y, std[:, 0] if self._flat else std

    def predict_interval(self, X, coverage=0.95):
        """Bounds around the predictions that hold the share `coverage` of new targets.

        They are calibrated by rows that the fit held out, or else by leave-one-out residuals of all rows, without
        training anything again. The first call makes the posterior, which takes a moment.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.95
            Between 0 and 1.

        Returns
        -------
        bounds : ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper bound of every row, in the units of the targets given to `fit`.
        """
        check_coverage(coverage)
        check_is_fitted(self)
        x = self._inputs(X)
        bounds = self.error_bars_.interval(x, coverage, self._outputs(x))
        scaling = self._target_scaling
        bounds = bounds * scaling.scale[:, None] + (0 if self.loss == "poisson" else scaling.center[:, None])
        return bounds[:, 0] if self._flat else bounds

    def _validate(self, X, y, first):
        checks.choice("loss", self.loss, LOSSES)
        checks.positive("huber_delta", self.huber_delta)
        X, y = self._table(X, y, first, multi_output=True, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        flat = y.ndim == 1
        y = y.reshape(len(y), -1)
        if first:
            self._flat = flat
        elif y.shape[1] != self.n_outputs_:
            raise ValueError(f"y has {y.shape[1]} outputs; this estimator was trained with {self.n_outputs_}.")
        if self.loss == "poisson" and y.min() < 0:
            raise ValueError(f"y has a negative value ({y.min():g}); loss='poisson' wants counts or rates ≥ 0.")
        return X, y

    def _targets(self, y, weight, first):
        if first:
            self._target_scaling = self._learn_scaling(y, weight)
        return self._target_scaling.apply(y)

    def _learn_scaling(self, y: np.ndarray, weight: np.ndarray) -> Scaling:
        """Mean and deviation; for counts the mean alone, as a unit: the network then gives the log of a ratio."""
        if self.loss == "poisson":
            mean = weight / weight.sum() @ y
            if not np.all(mean > 0):
                raise ValueError("loss='poisson' needs at least one positive target in every output.")
            return Scaling(np.zeros_like(mean), mean if self.standardize else np.ones_like(mean))
        return Scaling.of(y, weight) if self.standardize else Scaling.none(y.shape[1])

    def _output_units(self):
        scaling = self._target_scaling
        if self.n_outputs_ > 1:
            raise ValueError(f"a model file predicts one column; this estimator has {self.n_outputs_} outputs.")
        return (
            float(scaling.center[0]),
            float(scaling.scale[0]),
            "exponential" if self.loss == "poisson" else "identity",
        )

    def _loss(self) -> Loss:
        if self.loss == "huber":
            return Huber(float(self.huber_delta))
        return Poisson() if self.loss == "poisson" else Squared()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.positive_only = self.loss == "poisson"
        tags.regressor_tags.poor_score = False
        return tags

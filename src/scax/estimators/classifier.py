"""Classification with the interface of scikit-learn."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..losses import Logistic, Loss, Softmax
from .base import SCAEstimator


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class SCAClassifier(ClassifierMixin, SCAEstimator):
    """Neural network classification, trained by stochastic successive convex approximation.

    Every step replaces the network by its linearization on a batch of rows and minimizes the cross-entropy of that,
    a convex problem: few epochs, and no learning rate to tune.

    Parameters
    ----------
    hidden_layer_sizes : int, tuple of int or "auto", default="auto"
        Width of every hidden layer: "auto" is (64, 64) from 1,000 rows on, else (32,); ``()`` is logistic regression.
    activation : {"auto", "tanh", "relu", "gelu", "silu", "elu", "softplus", "logistic", "identity"}, default="auto"
        Activation of the hidden layers: "auto" is "silu" from 1,000 rows on, else "tanh".
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, ``{label: weight}``; "balanced" gives every class the same total weight.
    penalty : {"l2", "l1", "elasticnet", "log", "group"}, default="l2"
        Penalty on the weights. "l1" makes single weights exactly zero; "log" too, and hardly shrinks the others, which
        suits clear signals; "group" all weights that leave a neuron or an input feature together, so that whole neurons
        and features drop out.
    alpha : float, "auto", "held_out" or "evidence", default="auto"
        Strength of the penalty R in the objective: average loss + R(w), with R = alpha ½‖w‖² for "l2", alpha ‖w‖₁ for
        "l1". It is not divided by the number of rows. "auto" is "held_out", which compares decades, four at a time, by
        trainings judged on rows held out: the fit's own where it holds some out, else a quarter of the rows, then
        trains on all rows. For penalties that make zeros it is the strongest on a path of strengths whose loss on a
        quarter of the rows exceeds the least by no more than one standard error, and the fit goes on from there.
        "evidence" holds no rows out and gives every column a strength of its own (automatic relevance), those of the
        most evidence, log p(y | X, alpha).
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
        Scale inputs (see `numbers`) inside the estimator; predictions are in the original units.
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
    classes_ : ndarray of shape (n_classes,)
        The labels; of several labels per row their places, 0, 1, …

    See Also
    --------
    SCARegressor : The same for numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from scax.estimators import SCAClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SCAClassifier(random_state=0).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    """

    class_weight: Any = None

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """One epoch over the given rows.

        Standardization is learned from the first call and kept; give it rows that are typical, or use
        ``standardize=False`` and scale the data yourself.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels, or a column of 0 and 1 for each of several labels that a row may have.
        classes : array-like of shape (n_classes,), default=None
            All labels that can occur. Needed in the first call; ignored later, and for several labels per row.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : object
            The estimator.
        """
        if not hasattr(self, "classes_") and not _is_multilabel(y):
            if classes is None:
                raise ValueError("the first call to partial_fit needs classes: all labels that can occur.")
            self._expected = np.unique(classes)
        return self._partial_fit(X, y, sample_weight)

    def predict_proba(self, X, calibrated=False):
        """Probability of every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        calibrated : bool, default=False
            Average over what the network does not know of its logits, and sharpen or soften them as rows ask for that
            were held out (or left out, in closed form). The first call makes the posterior, which takes a moment.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            Probabilities, the columns in the order of `classes_`; of several labels per row, each by itself.
        """
        check_is_fitted(self)
        if calibrated and self._multilabel:
            raise ValueError(
                "calibrated=True is for classes of which a row has one; these labels do not exclude others."
            )
        if calibrated:
            x = self._inputs(X)
            return self.error_bars_.probabilities(x, self._outputs(x))
        z = self._raw(X)
        if self._multilabel:
            return expit(z)
        return np.hstack([expit(-z), expit(z)]) if z.shape[1] == 1 else softmax(z, axis=1)

    def predict_log_proba(self, X):
        """Logarithm of the probability of every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
            Log-probabilities, the columns in the order of `classes_`.
        """
        return np.log(self.predict_proba(X))

    def decision_function(self, X):
        """The network's raw outputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        z : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds of the second class where there are two, or of each label, otherwise one logit per class.
        """
        z = self._raw(X)
        return z[:, 0] if z.shape[1] == 1 else z

    def predict(self, X):
        """Predict labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_labels)
            The most probable class of every row; of several labels 1 for those more probable than not.
        """
        z = self._raw(X)
        if self._multilabel:
            return (z > 0).astype(int)
        return self.classes_[(z[:, 0] > 0).astype(int) if z.shape[1] == 1 else z.argmax(axis=1)]

    def _validate(self, X, y, first):
        if _is_multilabel(y):
            return self._validate_labels(X, y.toarray() if issparse(y) else y, first)
        X, y = self._table(X, y, first)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if first:
            self._multilabel = False
            self.classes_ = self.__dict__.pop("_expected", None)
            if self.classes_ is None:
                self.classes_ = np.unique(y)
                if len(self.classes_) == len(y) > 1:
                    warnings.warn(
                        "y is another class in every row, and a class is learned from several.",
                        UserWarning,
                        stacklevel=3,
                    )
            if len(self.classes_) < 2:
                raise ValueError(
                    f"y has only one class, {self.classes_.tolist()[0]!r}: a classifier needs at least two classes."
                )
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"y has labels that are not among the classes: {strange.tolist()} not in {self.classes_.tolist()}."
            )
        return X, np.searchsorted(self.classes_, y)

    def _validate_labels(self, X, y, first):
        """For several labels per row: y stays a matrix of 0 and 1."""
        X, y = self._table(X, y, first, multi_output=True)
        strange = np.setdiff1d(y, [0, 1])
        if len(strange):
            raise ValueError(
                f"y has {y.shape[1]} columns with values such as {strange[0]}: give one column of classes, or a column "
                "of 0 and 1 for every label."
            )
        if self.class_weight is not None:
            raise ValueError("class_weight is for one class per row, and y has several labels: use sample_weight.")
        if first:
            self._multilabel, self.classes_ = True, np.arange(y.shape[1])
        elif not self._multilabel or y.shape[1] != len(self.classes_):
            raise ValueError(f"y has {y.shape[1]} columns of labels, unlike the y of the first call.")
        return X, y.astype(np.int64)

    def _targets(self, y, weight, first):
        if self._multilabel:
            return y.astype(float)
        if len(self.classes_) == 2:
            return y[:, None].astype(float)
        return np.eye(len(self.classes_))[y]

    def _row_weights(self, y, weight):
        if self.class_weight is None:
            return weight
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.bincount(y, weight, len(self.classes_))
            present = totals > 0
            return weight * (totals.sum() / (present.sum() * np.where(present, totals, 1)))[y]
        if not isinstance(self.class_weight, dict):
            raise ValueError(
                f"class_weight must be a dict {{class: weight}}, 'balanced' or None, got {self.class_weight!r}."
            )
        strange = [c for c in self.class_weight if c not in self.classes_]
        if strange:
            raise ValueError(f"class_weight has classes that do not occur: {strange}; y has {self.classes_.tolist()}.")
        return weight * np.array([self.class_weight.get(c, 1.0) for c in self.classes_.tolist()])[y]

    def _offset(self, targets, weight):
        """The log-odds of the classes in the training data, one row of each added so that none is impossible."""
        if targets.shape[1] == 1 or self._multilabel:
            ones = weight @ targets
            return np.log((ones + 1) / (weight.sum() - ones + 1))
        totals = weight @ targets + 1
        return np.log(totals / totals.sum())

    def _output_units(self):
        if self._multilabel:
            raise ValueError(f"a model file predicts one column; this estimator predicts {len(self.classes_)} labels.")
        return 0.0, 1.0, "logistic" if len(self.classes_) == 2 else "softmax"

    def _loss(self) -> Loss:
        return Logistic() if self._multilabel or len(self.classes_) == 2 else Softmax()

    def _strata(self, y):
        return None if self._multilabel else y

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _is_multilabel(y) -> bool:
    """Whether y has a column for every label, rather than one column of classes."""
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    return len(shape) == 2 and shape[1] > 1

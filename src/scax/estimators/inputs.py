"""From X to the rows of a network: arrays, frames and sparse matrices, checked, read and encoded."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from ..tables.encode import Encoding
from ..training.recipe import Recipe
from .columns import Columns, is_frame
from .parameters import Parameters

#: Bytes that a sparse matrix may take when it is written out.
MOST_DENSE = 8 << 30
#: How X is read.
READING: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}


class Inputs(Parameters):
    """What an estimator learns of the columns of X."""

    n_features_in_: int
    recipe_: Recipe
    _columns: Columns
    _encoding: Encoding

    def _matrix(self, X) -> np.ndarray:
        """New rows as a matrix of numbers, NaN where missing."""
        if is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=False)
            return check_array(self._columns.read(X), **READING)
        return self._columns.read(_dense(validate_data(self, X, accept_sparse="csr", reset=False, **READING)))

    def _table(self, X, y, first: bool, **options) -> tuple[np.ndarray, np.ndarray]:
        """X as such a matrix, and y checked; on the first call of a fit the kinds of columns are learned."""
        if is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=first)
            if first:
                self._columns = Columns.of(X, self.categorical_features)
            X, y = check_X_y(self._columns.read(X), y, estimator=self, **READING, **options)
            return np.asarray(X), np.asarray(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", reset=first, **READING, **options)
        X = _dense(X)
        if first:
            self._columns = Columns.of(X, self.categorical_features)
        return self._columns.read(X), np.asarray(y)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _learn_encoding(self, X: np.ndarray, weight: np.ndarray) -> Encoding:
        kind = "bins" if self.recipe_.numbers == "both" else self.recipe_.numbers
        found = Encoding.of(X, weight, kind if self.standardize else "standard", self._columns.levels)
        return found if self.standardize else found.in_own_units()

    def _inputs(self, X) -> np.ndarray:
        """New rows as the network takes them."""
        check_is_fitted(self)
        return self._encoding.apply(self._matrix(X))


def _dense(X) -> np.ndarray:
    """A sparse matrix written out: the first layer takes rows of numbers."""
    if not issparse(X):
        return np.asarray(X)
    if X.shape[0] * X.shape[1] * 8 > MOST_DENSE:
        raise ValueError(
            f"X is sparse, and its {X.shape[0]:,} × {X.shape[1]:,} numbers written out take more than "
            f"{MOST_DENSE >> 30} GiB: reduce its columns first (TruncatedSVD, SelectKBest)."
        )
    return X.toarray()

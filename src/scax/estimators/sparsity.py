"""Networks with exact zeros: what is left of them."""

import numpy as np

from ..models.compact import used, weights_used
from ..tables.encode import Encoding
from .columns import Columns


class Sparsity:
    """What a trained network uses. Meant for penalties that give exact zeros: all but "l2"."""

    coefs_: list[np.ndarray]
    n_features_in_: int
    _columns: Columns
    _encoding: Encoding

    @property
    def sparsity_(self) -> float:
        """Fraction of the weights in `coefs_` that are not in use: zeros, and those of neurons on no path of nonzero
        weights from an input to an output. `scax.compact` leaves them out, and the outputs stay the same."""
        return 1 - weights_used(self.coefs_) / sum(w.size for w in self.coefs_)

    @property
    def features_used_(self) -> np.ndarray:
        """Mask of the input features from which such a way leads to an output."""
        return self._by_feature(used(self.coefs_)[0])

    def _by_feature(self, features: np.ndarray) -> np.ndarray:
        """Which columns of X any of these features of the encoded rows comes from."""
        out = np.zeros(self.n_features_in_, bool)
        out[self._columns.source[self._encoding.source[features]]] = True
        return out

    @property
    def n_features_used_(self) -> int:
        """Number of input features the network looks at."""
        return int(np.sum(self.features_used_))

    @property
    def n_neurons_used_(self) -> tuple[int, ...]:
        """For every hidden layer, the number of neurons through which such a way leads."""
        return tuple(int(np.sum(units)) for units in used(self.coefs_)[1:-1])

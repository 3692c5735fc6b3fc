"""Networks with exact zeros: what is left of them."""

import numpy as np


class Sparsity:
    """What a trained network uses. Meant for the penalties "l1", "elasticnet" and "group", which give exact zeros."""

    coefs_: list[np.ndarray]

    @property
    def sparsity_(self) -> float:
        """Fraction of the weights in `coefs_` that are exactly zero."""
        zeros = sum(int(np.sum(w == 0)) for w in self.coefs_)
        return zeros / sum(w.size for w in self.coefs_)

    @property
    def features_used_(self) -> np.ndarray:
        """Mask of the input features with at least one weight that is not zero."""
        return np.any(self.coefs_[0] != 0, axis=1)

    @property
    def n_features_used_(self) -> int:
        """Number of input features the network looks at."""
        return int(np.sum(self.features_used_))

    @property
    def n_neurons_used_(self) -> tuple[int, ...]:
        """For every hidden layer, the number of neurons with a weight that leaves them."""
        return tuple(int(np.sum(np.any(w != 0, axis=1))) for w in self.coefs_[1:])

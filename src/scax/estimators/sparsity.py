"""Networks with exact zeros: what is left of them."""

import numpy as np

from ..models.compact import used


class Sparsity:
    """What a trained network uses. Meant for the penalties "l1", "elasticnet" and "group", which give exact zeros."""

    coefs_: list[np.ndarray]

    @property
    def sparsity_(self) -> float:
        """Fraction of the weights in `coefs_` that are not in use: zeros, and those that lead to a neuron or come from
        one through which no way of weights that are not zero leads from an input to an output. `scax.compact` leaves
        them out, and the outputs stay the same."""
        units = used(self.coefs_)
        on = sum(in_use(w, a, b) for w, a, b in zip(self.coefs_, units, units[1:], strict=False))
        return 1 - on / sum(w.size for w in self.coefs_)

    @property
    def features_used_(self) -> np.ndarray:
        """Mask of the input features from which such a way leads to an output."""
        return used(self.coefs_)[0]

    @property
    def n_features_used_(self) -> int:
        """Number of input features the network looks at."""
        return int(np.sum(self.features_used_))

    @property
    def n_neurons_used_(self) -> tuple[int, ...]:
        """For every hidden layer, the number of neurons through which such a way leads."""
        return tuple(int(np.sum(units)) for units in used(self.coefs_)[1:-1])


def in_use(weights: np.ndarray, inputs: np.ndarray, outputs: np.ndarray) -> int:
    """How many weights between units in use are not zero."""
    return int(np.count_nonzero(weights[inputs][:, outputs]))

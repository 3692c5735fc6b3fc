"""Networks with exact zeros: the end of a sparse run, and what is left of the network."""

import numpy as np
from jaxtyping import Array, Float

from ..acceptance import Acceptance
from ..damping import Recovering
from ..layout import Layout
from ..sca import SCA
from ..schedules import Constant
from . import epochs

#: Proximal gradient steps at the end of a run with a sparse penalty.
FINISHING_STEPS = 200


def finishing(
    method: SCA, w: Float[Array, "q"], layout: Layout, frozen: tuple, table: epochs.Table
) -> Float[Array, "q"]:
    """Steps on all rows that end on the surrogate's own minimizer, so that what is nearly zero becomes zero.

    During training α < 1 mixes ŵ with w_n, and averaging mixes iterates: weights shrink towards zero without reaching
    it. With the loss linearized, α = 1 and a step refused whenever the objective rises, SCA is proximal gradient with
    backtracking: every iterate has the zeros of its prox.
    """
    last = SCA(
        method.problem,
        surrogate="full",
        step_size=Constant(1.0),
        damping=Recovering(base=1e-2, rise=2.0, fall=0.9),
        carry=0.0,
        mean_power=None,
        acceptance=Acceptance(rise=1e-12),
    )
    return epochs.whole(last, layout.unflatten(w, frozen), table, FINISHING_STEPS)


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

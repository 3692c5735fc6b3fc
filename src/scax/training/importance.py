"""Which columns a prediction rests on: what the error becomes when a column's values are shuffled. NumPy alone."""

from collections.abc import Callable, Sequence

import numpy as np

REPEATS = 5


def permutation_importance(
    error: Callable[[np.ndarray], float], x: np.ndarray, columns: Sequence[slice], seed: int = 0, repeats: int = REPEATS
) -> np.ndarray:
    """float64 [columns]: mean over shuffles of error(x with the column's values shuffled among the rows) − error(x).

    `columns` are the encoded features of each column of the table: they are shuffled together. Of two columns that say
    the same, each may look dispensable, for the other stands in.
    """
    random, least = np.random.default_rng(seed), error(x)
    orders = [random.permutation(len(x)) for _ in range(repeats)]
    rise = np.zeros(len(columns))
    for i, column in enumerate(columns):
        shuffled = x.copy()
        for order in orders:
            shuffled[:, column] = x[order, column]
            rise[i] += (error(shuffled) - least) / repeats
    return rise

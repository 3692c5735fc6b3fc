"""A sparse network trained on without what made it sparse."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import PyTree

from .. import checks
from ..problem import Problem
from ..regularizers import L2, Support
from ..sca import SCA
from .run import train

#: The ridge where the problem has none of its own.
RIDGE = 1e-4


def refit(
    problem: Problem,
    params: PyTree,
    data: Any,
    *,
    steps: int = 2000,
    batch_size: int = 32,
    key: Any = None,
    ridge: float | None = None,
    options: dict[str, Any] | None = None,
) -> PyTree:
    """The weights that are not zero, trained once more with a ridge alone; zeros stay zero.

    ℓ1 and group penalties also shrink what they keep. Here the regularizer is ½ ridge ‖w‖² and w_i = 0 off the support:
    by default the problem's own ridge, or 1e-4 where it has none. `options` go to `SCA`.

    >>> sparse = jax.tree.map(jnp.copy, params)
    >>> sparse[0]["weight"] = sparse[0]["weight"].at[1].set(0.0)
    >>> again = scax.refit(problem, sparse, (x, y), steps=20)
    >>> bool(jnp.all(again[0]["weight"][1] == 0))  # zeros stay zero
    True
    """
    own = checks.concrete(problem.regularizer.ridge)
    if ridge is None:
        ridge = float(own) if own is not None and own > 0 else RIDGE
    free = np.asarray(problem.layout(params).flatten(params)) != 0
    smooth = dataclasses.replace(problem, regularizer=L2(ridge) + Support(free))
    method = SCA(smooth, **(options or {}))
    return train(method, params, data, steps=steps, batch_size=batch_size, key=key, records=1, finish=0).params

"""A penalty that sets itself: λ from the evidence, between stretches of training (MacKay; Foresee & Hagan)."""

import dataclasses
import warnings
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from .. import checks
from ..problem import Problem
from ..regularizers import L2
from ..sca import SCA
from ..training.run import train
from .fit import posterior
from .posterior import Posterior

#: λ stays within these, and changes at most so much at once.
RANGE, LARGEST_CHANGE = (1e-8, 10.0), 10.0
#: A change of λ by less than this share is the last.
STILL = 0.05


def train_by_evidence(
    problem: Problem,
    params: PyTree,
    data: Any,
    *,
    steps: int = 1000,
    stretches: int = 8,
    batch_size: int | None = None,
    key: Any = None,
    options: dict[str, Any] | None = None,
) -> tuple[PyTree, Problem, Posterior]:
    """Train with a ridge that follows the evidence.

    λ ← Tγ/(N‖w‖²) after every stretch of steps/stretches steps.

    `problem` gives the first λ; its regularizer must be an L2 (0 starts at 1e-3). The rest as of `scax.train`;
    `options` go to `SCA`. Returns (params, the problem with its last λ, the posterior there).

    >>> params, problem, post = scax.train_by_evidence(problem, params, (x, y), steps=80, stretches=2)
    >>> bool(np.isfinite(post.evidence))
    True
    """
    checks.whole_number("stretches", stretches, 1)
    if not isinstance(problem.regularizer, L2):
        raise TypeError(f"the evidence sets the strength of an L2, got {type(problem.regularizer).__name__}.")
    strength = float(np.asarray(problem.regularizer.strength)) or 1e-3
    key = jax.random.key(0) if key is None else key
    post = None
    for stretch in range(stretches):
        problem = dataclasses.replace(problem, regularizer=L2(strength))
        method = SCA(problem, **(options or {}))
        count, draw = max(1, steps // stretches), jax.random.fold_in(key, stretch)
        params = train(method, params, data, steps=count, batch_size=batch_size, key=draw, records=1).params
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # between stretches the weights are on their way
            post = posterior(problem, params, data)
        new = float(np.clip(post.ridge_update, strength / LARGEST_CHANGE, strength * LARGEST_CHANGE))
        new = float(np.clip(new, *RANGE))
        if abs(new - strength) < STILL * strength:
            break
        strength = new
    assert post is not None
    return params, problem, post

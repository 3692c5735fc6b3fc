"""A penalty that sets itself: λ from the evidence, between stretches of training (MacKay; Foresee & Hagan)."""

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .. import checks
from ..problem import Problem
from ..regularizers import L2
from ..sca import SCA
from ..training.run import train
from .fit import posterior
from .posterior import Posterior
from .scaled import Scaled

#: λ of all weights stays within these, that of a group within these; each changes at most so much at once.
RANGE, GROUP_RANGE, LARGEST_CHANGE = (1e-8, 10.0), (1e-5, 1e2), 10.0
GROUPS = ("one", "arrays", "inputs")


def train_by_evidence(
    problem: Problem,
    params: PyTree,
    data: Any,
    *,
    groups: str = "one",
    steps: int = 1000,
    stretches: int = 8,
    batch_size: int | None = None,
    key: Any = None,
    options: dict[str, Any] | None = None,
) -> tuple[PyTree, Problem, Posterior]:
    """Train with a ridge that follows the evidence.

    λ ← Tγ/(N‖w‖²) between stretches of steps/stretches steps.

    `problem` gives the first λ; its regularizer must be an L2 (0 starts at 1e-3). The rest as of `scax.train`;
    `options` go to `SCA`. Returns (params, the problem with its last λ, the posterior there).

    `groups`: one λ for all weights ("one"), for every array of params ("arrays"), or for every input as well, that is
    every row of the first matrix ("inputs": automatic relevance). Then params are {"scale", "weights"}: the network's
    own are their product, and λ of a group is that of the problem over scale².

    >>> params, problem, post = scax.train_by_evidence(problem, params, (x, y), steps=200, stretches=2)
    >>> bool(np.isfinite(post.evidence))
    True
    """
    checks.choice("groups", groups, GROUPS)
    checks.whole_number("stretches", stretches, 1)
    if not isinstance(problem.regularizer, L2):
        raise TypeError(f"the evidence sets the strength of an L2, got {type(problem.regularizer).__name__}.")
    strength = float(np.asarray(problem.regularizer.strength)) or 1e-3
    key = jax.random.key(0) if key is None else key
    problem = dataclasses.replace(problem, regularizer=L2(strength))
    if groups != "one":
        problem, params = _grouped(problem, params, data, groups)
    post = None
    for stretch in range(stretches):
        if post is not None and groups == "one":
            strength = _limited(post.ridge_update, strength, RANGE)
            problem = dataclasses.replace(problem, regularizer=L2(strength))
        elif post is not None:
            params = _rescaled(params, post, strength)
        method = SCA(problem, **(options or {}))
        count, draw = max(1, steps // stretches), jax.random.fold_in(key, stretch)
        params = train(method, params, data, steps=count, batch_size=batch_size, key=draw, records=1).params
        with warnings.catch_warnings():
            if stretch + 1 < stretches:
                warnings.simplefilter("ignore")  # the weights are on their way
            post = posterior(problem, params, data)
    assert post is not None
    return params, problem, post


def _limited(new: Any, old: Any, bounds: tuple[float, float]) -> Any:
    new = np.clip(np.clip(new, old / LARGEST_CHANGE, old * LARGEST_CHANGE), *bounds)
    return float(new) if np.ndim(new) == 0 else new


def _grouped(problem: Problem, params: PyTree, data: Any, groups: str) -> tuple[Problem, dict]:
    trained = True
    if problem.trainable is not None:
        trained = jax.tree.unflatten(problem.trainable.treedef, list(problem.trainable.flags))
    scale = jax.tree.map(lambda leaf: jnp.ones((1,) * jnp.ndim(leaf), jnp.result_type(leaf)), params)
    if groups == "inputs":
        leaves, treedef = jax.tree.flatten(scale)
        shapes, width = [jnp.shape(leaf) for leaf in jax.tree.leaves(params)], np.shape(data[0])[-1]
        first = next((i for i, shape in enumerate(shapes) if len(shape) == 2), None)
        if first is None or shapes[first][0] != width:
            raise ValueError(
                f'groups="inputs" needs a first matrix [{width}, units], a row for every column of x, got '
                f'{"none" if first is None else list(shapes[first])}: use groups="arrays".'
            )
        leaves[first] = jnp.ones((width, 1), leaves[first].dtype)
        scale = jax.tree.unflatten(treedef, leaves)
    trainable = {"scale": False, "weights": trained}
    scaled = dataclasses.replace(problem, apply=Scaled(problem.apply), trainable=trainable)
    return scaled, {"scale": scale, "weights": params}


def _rescaled(params: dict, post: Posterior, strength: float) -> dict:
    """λ_g ← Tγ_g/(N‖w_g‖²), γ_g = Σ_g (1 − d (A⁻¹)_jj), as the scale √(λ/λ_g) of weights that stay what they are."""
    layout = post.jacobian.layout  # type: ignore[attr-defined]
    effective = np.zeros(len(post.jacobian.w))
    effective[post.jacobian.support] = 1 - post.prior * post.gaussian.variances()
    square = np.zeros_like(effective)
    square[post.jacobian.support] = post.jacobian.w[post.jacobian.support] ** 2
    frozen = tuple(jnp.zeros(shape) for shape, on in zip(layout.shapes, layout.trained, strict=True) if not on)
    with jax.enable_x64(True):
        effective, square = (layout.unflatten(jnp.asarray(part), frozen)["weights"] for part in (effective, square))

    def change(scale: Array, effective: Array, square: Array) -> np.ndarray:
        axes = tuple(i for i, size in enumerate(scale.shape) if size == 1)
        gamma, norm = (np.sum(np.asarray(p), axis=axes, keepdims=True) for p in (effective, square))
        now = strength / np.asarray(scale, float) ** 2
        new = now * post.temperature * gamma / (post.rows.total * strength * np.maximum(norm, 1e-300))
        return np.sqrt(now / _limited(np.where(gamma > 0, new, now), now, GROUP_RANGE))  # frozen: as it is

    factor = jax.tree.map(change, params["scale"], effective, square)
    cast = lambda new, leaf: jnp.asarray(new, jnp.result_type(leaf))
    return {
        "scale": jax.tree.map(lambda s, f: cast(s * f, s), params["scale"], factor),
        "weights": jax.tree.map(lambda w, f: cast(w / f, w), params["weights"], factor),
    }

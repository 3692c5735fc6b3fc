"""The method's state between two calls of `fit` or `partial_fit`, by name."""

from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree


@jax.jit
def initial(method: Any, params: PyTree) -> Any:
    """The states before the first step, one along each leading axis."""
    return jax.vmap(lambda method, params: method.init(params))(method, params)


def save(state: Any) -> dict[str, np.ndarray]:
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state)}


def restore(state: Any, saved: dict[str, np.ndarray]) -> Any:
    """The state as saved; parts of it that were not saved, or in another shape, begin anew."""
    fresh = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}
    others = {name.split(".")[1].split("[")[0] for name, leaf in fresh.items() if _shape(saved, name) != leaf.shape}
    kept = lambda path, leaf: leaf if path[0].name in others else saved[jax.tree_util.keystr(path)]
    return jax.tree_util.tree_map_with_path(kept, state)


def _shape(saved: dict[str, np.ndarray], name: str) -> tuple[int, ...] | None:
    return saved[name].shape if name in saved else None

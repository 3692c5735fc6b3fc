"""Equinox: the model is the pytree of weights already; it takes one row, so apply is its vmap."""

from typing import Any

import jax
from jaxtyping import Array, PyTree

from .._extras import required_by
from .base import Bridge, refuse_training_mode


def from_equinox(model: Any, state: Any = None) -> Bridge:
    """A bridge to an Equinox model, a callable that takes one row (or one row and a state) and gives its outputs.

    params      the model with everything but its floating arrays left out: what `eqx.partition` gives
    state       for models that take one (`eqx.nn.make_with_state`): its running statistics are used and stay as is
    load        gives a new model, as Equinox's models are not changed in place

    Layers with an inference mode must be in it: `eqx.nn.inference_mode(model)`.

    >>> import equinox as eqx
    >>> bridge = scax.from_equinox(eqx.nn.MLP(2, 1, 8, 1, key=jax.random.key(0)))
    >>> bridge.apply(bridge.params, x).shape
    (40, 1)
    """
    with required_by("scax.from_equinox"):
        import equinox as eqx
    if not callable(model):
        raise TypeError(f"model must be a callable Equinox module, got {model!r}.")
    for path, layer in jax.tree_util.tree_leaves_with_path(model, is_leaf=lambda node: hasattr(node, "inference")):
        if getattr(layer, "inference", True) is False and getattr(layer, "p", 1) != 0:
            raise refuse_training_mode(
                "from_equinox",
                f"{type(layer).__name__} at model{jax.tree_util.keystr(path)}",
                "mixes the rows of a batch" if "Norm" in type(layer).__name__ else "draws random numbers",
                "Give eqx.nn.inference_mode(model).",
            )
    params, rest = eqx.partition(model, eqx.is_inexact_array)

    def apply(params: PyTree, x: Any) -> Array:
        whole = eqx.combine(params, rest)
        return jax.vmap(whole if state is None else lambda row: whole(row, state)[0])(x)

    return Bridge(params, apply, lambda params: eqx.combine(params, rest))

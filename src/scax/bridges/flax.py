"""Flax, both of its ways: NNX, where the module holds its weights, and Linen, where they come beside it."""

from typing import Any

import jax
from jaxtyping import Array, PyTree

from .._extras import required_by
from .base import Bridge, refuse_training_mode


def from_flax(module: Any, variables: PyTree = None, **call: Any) -> Bridge:
    """A bridge to a Flax module.

    NNX         from_flax(model): params is a dict of its `nnx.Param`s; `load` updates the same model and gives it back
    Linen       from_flax(module, variables), variables being what `module.init(key, x)` gave: params is
                variables["params"]; `load` gives variables with the new weights, the other collections as they were
    call        options for every call, such as train=False or deterministic=True

    Batch normalization must use its running averages and dropout must be off: `model.eval()` in NNX, the module's own
    option (`use_running_average`, `deterministic`) in Linen. Neither changes in training.

    >>> from flax import nnx
    >>> bridge = scax.from_flax(nnx.Linear(2, 1, rngs=nnx.Rngs(0)))
    >>> bridge.apply(bridge.params, x).shape
    (40, 1)
    """
    with required_by("scax.from_flax"):
        import flax
        from flax import linen, nnx

    if isinstance(module, linen.Module):
        if variables is None or "params" not in variables:
            raise TypeError(
                "variables is missing: a Linen module keeps its weights beside it. "
                "Give from_flax(module, module.init(key, x))."
            )
        return _linen(flax, module, variables, call)
    if not isinstance(module, nnx.Module):
        raise TypeError(f"module must be a flax.nnx or flax.linen Module, got {module!r}.")
    if variables is not None:
        raise TypeError("variables belongs to Linen: an NNX module holds its own weights. Give from_flax(model).")
    return _nnx(nnx, module, call)


def _linen(flax: Any, module: Any, variables: Any, call: dict[str, Any]) -> Bridge:
    others = {name: value for name, value in variables.items() if name != "params"}

    def apply(params: PyTree, x: Any) -> Array:
        try:
            return module.apply({"params": params, **others}, x, **call)
        except flax.errors.ModifyScopeVariableError as error:
            what, reason = "changes its state", error
        except flax.errors.InvalidRngError as error:
            what, reason = "draws random numbers", error
        raise refuse_training_mode(
            "from_flax",
            type(module).__name__,
            f"{what} ({str(reason).partition(' (https')[0].rstrip('.')})",
            "Give the module's own option, for example from_flax(module, variables, train=False), or build it with "
            "use_running_average=True and deterministic=True.",
        )

    return Bridge(variables["params"], apply, lambda params: {**variables, "params": params})


def _nnx(nnx: Any, model: Any, call: dict[str, Any]) -> Bridge:
    graph, weights, rest = nnx.split(model, nnx.Param, ...)

    def filled(params: PyTree) -> Any:
        """The weights as nnx.State."""
        state = jax.tree.map(lambda leaf: leaf, weights)
        nnx.replace_by_pure_dict(state, params)
        return state

    def apply(params: PyTree, x: Any) -> Array:
        # New variables around the same values: what the call changes does not reach the user's model, and is seen.
        whole = nnx.merge(graph, filled(params), jax.tree.map(lambda leaf: leaf, rest))
        z = whole(x, **call)
        before, after = nnx.to_flat_state(rest), nnx.to_flat_state(nnx.split(whole, nnx.Param, ...)[2])
        changed = [
            (path, new)
            for (path, old), (_, new) in zip(before, after, strict=True)
            if old.get_raw_value() is not new.get_raw_value() and not _harmless(nnx, whole, path, new)
        ]
        for path, new in sorted(changed, key=lambda pair: isinstance(pair[1], nnx.RngState)):
            raise refuse_training_mode(
                "from_flax",
                ".".join(map(str, path)),
                "draws random numbers" if isinstance(new, nnx.RngState) else "changes with every batch",
                "Call model.eval() before from_flax(model).",
            )
        return z

    def load(params: PyTree) -> Any:
        nnx.update(model, filled(params))
        return model

    return Bridge(nnx.to_pure_dict(weights), apply, load)


def _harmless(nnx: Any, model: Any, path: tuple, variable: Any) -> bool:
    """A recurrent cell counts a random number when it makes its zero start; anything else that changes is a state."""
    if not isinstance(variable, nnx.RngState):
        return False
    owners = [model]
    for key in path[:-1]:
        owner = owners[-1]
        owners.append(owner[key] if isinstance(key, int) or isinstance(owner, dict) else getattr(owner, key))
    nearest = [owner for owner in owners if isinstance(owner, nnx.Module)][-1]
    return isinstance(nearest, (nnx.RNNCellBase, nnx.RNN))

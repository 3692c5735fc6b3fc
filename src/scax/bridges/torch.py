"""PyTorch: the module, exported to ATen operators, run in JAX.

`torch.export` gives a graph of about forty kinds of operators for the usual layers; `aten` has each of them in jnp. The
graph is exported for one row and mapped over rows, so that a row's outputs depend on that row alone.
"""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._extras import required_by
from .base import Bridge, refuse_training_mode

EVAL = "Call module.eval() before from_torch(module)."


def from_torch(module: Any) -> Bridge:
    """A bridge to a torch.nn.Module that takes a batch of rows and gives [n] or [n, k].

    params      {name: array} of its parameters with requires_grad, named as in `module.named_parameters()`
    load        writes weights into the same module, in its own dtype and on its own device, and gives it back

    Buffers (running statistics, masks) and parameters without requires_grad are used as they are and do not change.
    Batch normalization and dropout must be in eval mode. The module is exported when apply first sees rows of some
    shape; an operator without a translation is refused then, by name.

    >>> import torch
    >>> bridge = scax.from_torch(torch.nn.Linear(2, 1))
    >>> bridge.apply(bridge.params, x).shape
    (40, 1)
    """
    with required_by("scax.from_torch"):
        import torch as package
    torch: Any = package  # a type checker would look for its names in this file, which is called torch too
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {module!r}.")
    _refuse_training_mode(torch, module)
    for name, value in module.named_parameters():
        if value.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"from_torch: {name} is {value.dtype}; SCA trains float32 or float64: give module.float().")
    alias = _aliases(module)
    params = {name: jnp.asarray(_array(value)) for name, value in module.named_parameters() if value.requires_grad}
    programs: dict[tuple, Callable] = {}

    def apply(params: PyTree, x: Any) -> Array:
        kind = (x.shape[1:], jnp.dtype(x.dtype).name)
        if kind not in programs:
            programs[kind] = _export(torch, module, alias, set(params), *kind)
        return jax.vmap(lambda row: programs[kind](params, row[None])[0])(x)

    def load(params: PyTree) -> Any:
        own = dict(module.named_parameters())
        with torch.no_grad():
            for name, value in params.items():
                own[name].copy_(torch.from_numpy(np.array(value)))
        return module

    return Bridge(params, apply, load)


def _array(tensor: Any) -> np.ndarray:
    """A copy, in JAX's precision. NumPy's, for it may be made while something is traced."""
    array = np.array(tensor.detach().cpu().numpy())
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype))


def _aliases(module: Any) -> dict[str, str]:
    """Every name of a tied parameter → the one name that `named_parameters` gives it."""
    first = {id(value): name for name, value in module.named_parameters()}
    return {name: first[id(value)] for name, value in module.named_parameters(remove_duplicate=False)}


def _refuse_training_mode(torch: Any, module: Any) -> None:
    norm = torch.nn.modules.batchnorm._BatchNorm
    for name, layer in module.named_modules():
        kind = type(layer).__name__
        if isinstance(layer, norm) and (layer.training or layer.running_mean is None):
            remedy = EVAL if layer.running_mean is not None else "Build it with track_running_stats=True."
            raise refuse_training_mode("from_torch", f"{kind} {name!r}", "mixes the rows of a batch", remedy)
        drawn = getattr(layer, "p" if "Dropout" in kind else "dropout", 0)
        if layer.training and isinstance(drawn, float) and drawn > 0:
            raise refuse_training_mode("from_torch", f"{kind} {name!r}", "draws random numbers", EVAL)


def _export(torch: Any, module: Any, alias: dict[str, str], trained: set[str], shape: tuple, dtype: str) -> Callable:
    """The module as a JAX function of ({name: array}, one row [1, …])."""
    from .aten import OPERATORS, operator_name

    row = torch.zeros((1, *shape), dtype=getattr(torch, dtype))
    tensors = [*module.parameters(), *module.buffers()]
    if tensors:
        row = row.to(tensors[0].device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch about itself
            program = torch.export.export(module, (row,)).run_decompositions({})
    except Exception as error:
        raise ValueError(
            f"from_torch: torch.export cannot trace {type(module).__name__} for rows of shape {shape} "
            f"({type(error).__name__}: {str(error).strip().partition(chr(10))[0]}). Data-dependent Python control flow "
            "cannot be exported: rewrite it with torch.where, or bridge the part without it."
        ) from error
    signature = program.graph_signature
    if signature.buffers_to_mutate:
        changed = ", ".join(sorted(set(signature.buffers_to_mutate.values())))
        raise refuse_training_mode("from_torch", type(module).__name__, f"changes its buffers ({changed})", EVAL)
    nodes = list(program.graph.nodes)
    unknown = sorted({operator_name(n.target) for n in nodes if n.op == "call_function"} - OPERATORS.keys())
    if unknown or any(n.op not in {"placeholder", "call_function", "output"} for n in nodes):
        raise ValueError(
            f"from_torch: {type(module).__name__} uses {', '.join(unknown) or 'control flow'}, which has no "
            "translation to JAX here. Replace that part by layers that have one, or add the operator: "
            f'scax.bridges.aten.OPERATORS["{(unknown or ["aten::name"])[0]}"] = function of arrays.'
        )
    names, fixed = {}, {}
    for place, name in signature.inputs_to_parameters.items():
        if alias[name] in trained:
            names[place] = alias[name]
        else:
            fixed[place] = _array(module.get_parameter(name))
    for place, name in signature.inputs_to_buffers.items():
        value = program.state_dict.get(name, program.constants.get(name))
        fixed[place] = _array(value)
    for place, name in signature.inputs_to_lifted_tensor_constants.items():
        fixed[place] = _array(program.constants[name])
    if len(signature.user_outputs) != 1:
        raise ValueError(
            f"from_torch: {type(module).__name__} gives {len(signature.user_outputs)} outputs; wrap it in a module "
            "that gives one, [n] or [n, k]."
        )

    def run(params: PyTree, row: Array) -> Array:
        values: dict[Any, Any] = {}
        look = lambda node: values[node]
        for node in nodes:
            if node.op == "placeholder":
                value = params[names[node.name]] if node.name in names else fixed.get(node.name, row)
                values[node] = jnp.asarray(value)
            elif node.op == "call_function":
                args, kwargs = (torch.fx.node.map_arg(part, look) for part in (node.args, node.kwargs))
                values[node] = OPERATORS[operator_name(node.target)](*args, **kwargs)
        return values[nodes[-1].args[0][0]]

    return run

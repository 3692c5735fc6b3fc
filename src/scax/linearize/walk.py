"""Reading a network: where its parameters meet data, found in the jaxpr of one sample.

A parameter is *factored* when everything the network does with it is `dot_general` or a convolution with data, or being
added to data, possibly behind reshapes, transposes and casts: then its share of J is a product of layer inputs (of a
convolution its patches, of a bias 1) and sensitivities of the outputs, and J need not exist. Any other use, known or
not (a scale, a norm of the weights), leaves the parameter to the general case, columns of its own. It does not matter
who wrote the network.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._compat import Literal, bind, scan_sizes

#: primitives that only rearrange a parameter
REARRANGING = {"reshape", "transpose", "squeeze", "expand_dims", "convert_element_type", "copy", "broadcast_in_dim"}
#: primitives that add a parameter to data
ADDING = {"add", "add_any"}
#: calls whose body can be read in place
CALLS = {"jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint"}

Path = tuple[int, ...]  # the equation's place: its index in each of the nested jaxprs


@dataclasses.dataclass(frozen=True)
class View:
    """A parameter seen through rearrangements."""

    leaf: int
    steps: tuple[tuple[Any, tuple], ...] = ()
    axes: tuple[int, ...] | None = None  # where its own are, once it is repeated along others, as a bias is over pixels

    def then(self, eqn) -> "View":
        return dataclasses.replace(self, steps=(*self.steps, (eqn.primitive, tuple(eqn.params.items()))))

    def repeated(self, eqn) -> "View":
        """The same along axes that only an addition makes sense of."""
        before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
        pairs = zip(before, eqn.params["broadcast_dimensions"], strict=True)
        own = tuple(axis for size, axis in pairs if size == after[axis])
        return dataclasses.replace(self, axes=own)

    def apply(self, leaf: Any) -> Any:
        for primitive, params in self.steps:
            leaf = primitive.bind(leaf, **dict(params))
        return leaf


@dataclasses.dataclass(frozen=True)
class Product:
    """One `dot_general` of data with a parameter, or one addition of a parameter to data (`additive`: a layer whose
    only input is 1, at one position, which its sensitivities are summed to). `repeats` are the lengths of the scans
    around it."""

    view: View
    path: Path
    param_first: bool
    param_contract: tuple[int, ...]
    data_contract: tuple[int, ...]
    param_shape: tuple[int, ...]
    data_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    out_dtype: Any
    repeats: tuple[int, ...]
    additive: bool = False

    @property
    def inputs(self) -> int:
        """C, the contracted size: how many inputs the layer has."""
        return math.prod(self.param_shape[i] for i in self.param_contract)

    @property
    def outputs(self) -> int:
        """F, the parameter's free size: how many outputs the layer has."""
        return math.prod(self.param_shape) // self.inputs

    @property
    def positions(self) -> int:
        """P, how often one sample meets the parameter: scan steps, sequence places, pixels."""
        return 1 if self.additive else math.prod(self.repeats) * math.prod(self.data_shape) // self.inputs

    def arrange(self, leaf: Any) -> Any:
        """The parameter as a matrix [C, F]."""
        seen = self.view.apply(leaf)
        free = [i for i in range(seen.ndim) if i not in self.param_contract]
        return seen.transpose(*self.param_contract, *free).reshape(self.inputs, self.outputs)

    def arrange_data(self, data: Array) -> Array:
        """What the parameter met, [..., repeats, data] → [..., P, C]; a bias meets 1."""
        lead = data.ndim - len(self.data_shape)
        free = [i for i in range(len(self.data_shape)) if i not in self.data_contract]
        order = [*range(lead), *(lead + i for i in free), *(lead + i for i in self.data_contract)]
        before = data.shape[: lead - len(self.repeats)]
        return data.transpose(order).reshape(*before, self.positions, self.inputs)

    def arrange_sensitivity(self, g: Array) -> Array:
        """Sensitivity of the product's output, [..., repeats, out] → [..., P, F]."""
        lead = g.ndim - len(self.out_shape)
        before = g.shape[: lead - len(self.repeats)]
        if self.additive:
            own = range(len(self.out_shape)) if self.view.axes is None else self.view.axes
            others = [i for i in range(len(self.out_shape)) if i not in own]
            g = g.transpose(*range(lead), *(lead + i for i in (*others, *own)))
            return jnp.sum(g.reshape(*before, -1, self.outputs), axis=-2, keepdims=True)
        if self.param_first:  # out is [param free, data free]
            split = len(self.param_shape) - len(self.param_contract)
            axes = range(len(self.out_shape))
            g = g.transpose(*range(lead), *(lead + i for i in [*axes[split:], *axes[:split]]))
        return g.reshape(*before, self.positions, self.outputs)


@dataclasses.dataclass(frozen=True)
class Convolution:
    """One convolution of data with a parameter: at every place of its output, a product with a patch of the data."""

    view: View
    path: Path
    options: tuple[tuple[str, Any], ...]  # of conv_general_dilated
    kernel: tuple[int, ...]  # the parameter's shape
    data_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    out_dtype: Any
    repeats: tuple[int, ...]

    additive = False
    param_first = False

    @property
    def outputs(self) -> int:
        """F, the output channels."""
        return self.kernel[self._numbers.rhs_spec[0]]

    @property
    def inputs(self) -> int:
        """C, the numbers in a patch."""
        return math.prod(self.kernel) // self.outputs

    @property
    def positions(self) -> int:
        """P, the places of the output, scan steps included."""
        return math.prod(self.repeats) * math.prod(self.out_shape) // self.outputs

    @property
    def _numbers(self) -> Any:
        return dict(self.options)["dimension_numbers"]

    def arrange(self, leaf: Any) -> Any:
        """The kernel as a matrix [C, F]."""
        out, into, *spatial = self._numbers.rhs_spec
        return self.view.apply(leaf).transpose(*spatial, into, out).reshape(self.inputs, self.outputs)

    def arrange_data(self, data: Array) -> Array:
        """The patches, [..., repeats, data] → [..., P, C]."""
        lead, options = data.ndim - len(self.data_shape), dict(self.options)
        batch, channel, *spatial = self._numbers.lhs_spec
        before = data.shape[: lead - len(self.repeats)]
        data = data.transpose(*range(lead), *(lead + i for i in (batch, *spatial, channel)))
        data = data.reshape(-1, *data.shape[lead + 1 :])
        around = [
            (low, high, step - 1) for (low, high), step in zip(options["padding"], options["lhs_dilation"], strict=True)
        ]
        data = jax.lax.pad(data, jnp.zeros((), data.dtype), [(0, 0, 0), *around, (0, 0, 0)])
        strides, apart = options["window_strides"], options["rhs_dilation"]
        places = [self.out_shape[i] for i in self._numbers.out_spec[2:]]

        def seen(offset):  # by one weight of the window, from every place
            first = [o * d for o, d in zip(offset, apart, strict=True)]
            last = [f + (p - 1) * s + 1 for f, p, s in zip(first, places, strides, strict=True)]
            ends = (data.shape[0], *last, data.shape[-1])
            return jax.lax.slice(data, (0, *first, 0), ends, (1, *strides, 1))

        window = [range(self.kernel[i]) for i in self._numbers.rhs_spec[2:]]
        patches = jnp.stack([seen(offset) for offset in itertools.product(*window)], axis=-2)
        return patches.reshape(*before, self.positions, self.inputs)

    def arrange_sensitivity(self, g: Array) -> Array:
        """Sensitivity of the output, [..., repeats, out] → [..., P, F]."""
        lead = g.ndim - len(self.out_shape)
        before = g.shape[: lead - len(self.repeats)]
        batch, channel, *spatial = self._numbers.out_spec
        g = g.transpose(*range(lead), *(lead + i for i in (batch, *spatial, channel)))
        return g.reshape(*before, self.positions, self.outputs)


Use = Product | Convolution


def find_uses(jaxpr, leaves: int) -> dict[int, list[Use]]:
    """The uses of each factored parameter; the first `leaves` inputs of the jaxpr are the parameters."""
    uses: dict[int, list[Use]] = {i: [] for i in range(leaves)}

    def spoil(view: View | None) -> None:
        if view is not None:
            uses.pop(view.leaf, None)

    def visit(jaxpr, views: dict, path: Path, repeats: tuple[int, ...]) -> list[View | None]:
        def seen(var):
            return None if isinstance(var, Literal) else views.get(var)

        for i, eqn in enumerate(jaxpr.eqns):
            inputs = [seen(v) for v in eqn.invars]
            if not any(inputs):
                continue
            name, is_repeated = eqn.primitive.name, any(view is not None and view.axes is not None for view in inputs)
            if is_repeated and not (_is_sum(eqn) and inputs.count(None) == 1):
                for view in inputs:
                    spoil(view)
            elif name in REARRANGING and math.prod(eqn.outvars[0].aval.shape) == math.prod(eqn.invars[0].aval.shape):
                views[eqn.outvars[0]] = inputs[0].then(eqn)  # type: ignore[union-attr]
            elif name == "broadcast_in_dim":
                views[eqn.outvars[0]] = inputs[0].repeated(eqn)  # type: ignore[union-attr]
            elif inputs.count(None) == 1 and (_is_product(eqn) or _is_sum(eqn) or _is_convolution(eqn, inputs)):
                use = (_convolution if _is_convolution(eqn, inputs) else _product)(eqn, inputs, (*path, i), repeats)
                if use.view.leaf in uses:
                    uses[use.view.leaf].append(use)
            elif name in CALLS:
                body = eqn.params["jaxpr"]
                body = getattr(body, "jaxpr", body)
                inner = {v: view for v, view in zip(body.invars, inputs, strict=True) if view is not None}
                for out, view in zip(eqn.outvars, visit(body, inner, (*path, i), repeats), strict=True):
                    if view is not None:
                        views[out] = view
            elif name == "scan" and not any(inputs[scan_sizes(eqn)[0] :]):
                body = eqn.params["jaxpr"].jaxpr
                inner = {v: view for v, view in zip(body.invars, inputs, strict=True) if view is not None}
                for view in visit(body, inner, (*path, i), (*repeats, eqn.params["length"])):
                    spoil(view)
            else:
                for view in inputs:
                    spoil(view)
        return [seen(v) for v in jaxpr.outvars]

    for view in visit(jaxpr, {v: View(i) for i, v in enumerate(jaxpr.invars[:leaves])}, (), ()):
        spoil(view)
    return {leaf: found for leaf, found in uses.items() if found}


def multiply_adds(jaxpr) -> float:
    """Multiply-adds of the products and convolutions in a jaxpr; a loop of unknown length counts once,
    of several branches the dearest."""
    total = 0.0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            (contract, _), _ = eqn.params["dimension_numbers"]
            length = math.prod(eqn.invars[0].aval.shape[i] for i in contract)
            total += math.prod(eqn.outvars[0].aval.shape) * length
        elif eqn.primitive.name == "conv_general_dilated":
            kernel = eqn.invars[1].aval.shape
            channels = kernel[eqn.params["dimension_numbers"].rhs_spec[0]]
            total += math.prod(eqn.outvars[0].aval.shape) * math.prod(kernel) / channels
        parts = [p for value in eqn.params.values() for p in (value if isinstance(value, tuple) else (value,))]
        bodies = [getattr(p, "jaxpr", p) for p in parts if hasattr(getattr(p, "jaxpr", p), "eqns")]
        inside = [multiply_adds(body) for body in bodies]
        total += max(inside) if eqn.primitive.name == "cond" else eqn.params.get("length", 1) * sum(inside)
    return total


def _is_product(eqn) -> bool:
    """A dot_general without batch dimensions."""
    return eqn.primitive.name == "dot_general" and not any(eqn.params["dimension_numbers"][1])


def _is_convolution(eqn, inputs) -> bool:
    """A convolution of data with a parameter in which every input channel meets every output channel."""
    if eqn.primitive.name != "conv_general_dilated" or inputs[0] is not None:
        return False
    return eqn.params["feature_group_count"] == eqn.params["batch_group_count"] == 1


def _is_sum(eqn) -> bool:
    """An addition of two arrays of one shape."""
    if eqn.primitive.name not in ADDING:
        return False
    return eqn.invars[0].aval.shape == eqn.invars[1].aval.shape == eqn.outvars[0].aval.shape


def _convolution(eqn, inputs, path: Path, repeats: tuple[int, ...]) -> Convolution:
    return Convolution(
        view=inputs[1],
        path=path,
        options=tuple(eqn.params.items()),
        kernel=eqn.invars[1].aval.shape,
        data_shape=eqn.invars[0].aval.shape,
        out_shape=eqn.outvars[0].aval.shape,
        out_dtype=eqn.outvars[0].aval.dtype,
        repeats=repeats,
    )


def _product(eqn, inputs, path: Path, repeats: tuple[int, ...]) -> Product:
    first, additive = inputs[0] is not None, eqn.primitive.name in ADDING
    contract = ((), ()) if additive else eqn.params["dimension_numbers"][0]
    param, data = (0, 1) if first else (1, 0)
    view, shape = inputs[param], eqn.invars[param].aval.shape
    return Product(
        view=view,
        path=path,
        param_first=first,
        param_contract=tuple(contract[param]),
        data_contract=tuple(contract[data]),
        param_shape=shape if view.axes is None else tuple(shape[axis] for axis in view.axes),
        data_shape=eqn.invars[data].aval.shape,
        out_shape=eqn.outvars[0].aval.shape,
        out_dtype=eqn.outvars[0].aval.dtype,
        repeats=repeats,
        additive=additive,
    )


def evaluate(closed, args: list, uses: dict[Path, Use], probes: dict[Path, Array]) -> tuple[list, dict[Path, Array]]:
    """Run the network, adding to the output of every use its probe, and keep the data each parameter met.

    Probes are zero: the derivative with respect to them is the sensitivity of the outputs to each product.
    """
    return _run(closed.jaxpr, closed.consts, args, (), uses, probes)


def _run(jaxpr, consts, args, path: Path, uses, probes) -> tuple[list, dict]:
    env: dict = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
    data: dict[Path, Array] = {}

    def read(var):
        return var.val if isinstance(var, Literal) else env[var]

    for i, eqn in enumerate(jaxpr.eqns):
        values, place = [read(v) for v in eqn.invars], (*path, i)
        inside = {p: u for p, u in uses.items() if p[: len(place)] == place}
        if place in uses:
            out = [eqn.primitive.bind(*values, **eqn.params) + probes[place]]
            if not uses[place].additive:
                data[place] = values[1 if uses[place].param_first else 0]
        elif inside and eqn.primitive.name == "scan":
            out, inner_data = _run_scan(eqn, values, place, inside, probes)
            data.update(inner_data)
        elif inside:
            body = eqn.params["jaxpr"]
            inner, inner_consts = getattr(body, "jaxpr", body), getattr(body, "consts", ())
            out, inner_data = _run(inner, inner_consts, values, place, inside, probes)
            data.update(inner_data)
        else:
            out = bind(eqn, values)
        env.update(zip(eqn.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars], data


def _run_scan(eqn, values, place: Path, uses, probes):
    """A scan whose body has probes: one per step, and what the parameter met at every step."""
    body, p = eqn.params["jaxpr"], eqn.params
    fixed, carried = scan_sizes(eqn)
    consts, init, xs = values[:fixed], values[fixed : fixed + carried], values[fixed + carried :]

    def step(carry, inputs):
        x, probe = inputs
        out, data = _run(body.jaxpr, body.consts, [*consts, *carry, *x], place, uses, probe)
        return out[:carried], (out[carried:], data)

    mine = {path: probes[path] for path in uses}
    carry, (ys, data) = jax.lax.scan(
        step, list(init), (list(xs), mine), length=p["length"], reverse=p["reverse"], unroll=p["unroll"]
    )
    return [*carry, *ys], data


def same_matrix(arrange: Callable, other: Callable, shape: tuple[int, ...]) -> str | None:
    """How two uses of one parameter see it: as the same matrix, as each other's transpose, or neither."""
    places = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    with jax.ensure_compile_time_eval():  # inside a traced step too
        one, two = (np.asarray(f(places)) for f in (arrange, other))
    if one.shape == two.shape and (one == two).all():
        return "same"
    return "transposed" if one.shape == two.shape[::-1] and (one == two.T).all() else None

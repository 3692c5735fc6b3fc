"""ATen operators in jnp: what `torch.export` leaves of a network, one line each.

An operator takes ATen's arguments in ATen's order, overloads included. Options that have no meaning in JAX (device,
layout, memory format) are dropped.
"""

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from . import aten_layers as layers


def operator_name(target: Any) -> str:
    """The name that OPERATORS knows: aten::linear, whatever the overload; getitem for Python's own."""
    schema = getattr(target, "_schema", None)
    return getattr(target, "__name__", str(target)) if schema is None else schema.name


def _dtype(kind: Any) -> Any:
    """torch.float32 → float32, in the precision JAX is set to; anything else (a memory format) is no dtype."""
    name = str(kind).removeprefix("torch.")
    try:
        return jax.dtypes.canonicalize_dtype(name)
    except TypeError:
        return None


def _cast(x: Array, *options: Any, dtype: Any = None, **_: Any) -> Array:
    kinds = [k for k in (_dtype(option) for option in (*options, dtype) if option is not None) if k is not None]
    return x.astype(kinds[0]) if kinds else x


def _axes(dim: Any) -> Any:
    """[] means every axis, as None does."""
    return tuple(dim) if isinstance(dim, Sequence) and len(dim) else None if isinstance(dim, Sequence) else dim


def _reduce(function: Callable) -> Callable:
    def reduced(x: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
        return function(_cast(x, dtype), axis=_axes(dim), keepdims=keepdim)

    return reduced


def _extreme(values: Callable, places: Callable) -> Callable:
    """max and min: of everything, of two arrays, or along an axis with its places."""

    def reduction(x: Array, other: Any = None, keepdim: bool = False) -> Any:
        if other is None:
            return values(x)
        return values(x, axis=other, keepdims=keepdim), places(x, axis=other, keepdims=keepdim)

    return reduction


def _variance(
    x: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Array:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    return jnp.var(x, axis=_axes(dim), ddof=less, keepdims=keepdim)


def _slice(x: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def _split(x: Array, size: Any, dim: int = 0) -> list[Array]:
    sizes = size if isinstance(size, Sequence) else [size] * -(-x.shape[dim] // size)
    ends = [builtins.sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
    return jnp.split(x, ends, axis=dim)


def _chunk(x: Array, count: int, dim: int = 0) -> list[Array]:
    return _split(x, -(-x.shape[dim] // count), dim)


def _flatten(x: Array, start: int = 0, end: int = -1) -> Array:
    start, end = start % x.ndim, end % x.ndim
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


def _unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    dim %= x.ndim
    return x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :])


def _squeeze(x: Array, dim: Any = None) -> Array:
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, Sequence) else [dim]
    return jnp.squeeze(x, tuple(d % x.ndim for d in dims if x.shape[d] == 1))


def _expand(x: Array, sizes: Sequence[int], **_: Any) -> Array:
    own = (1,) * (len(sizes) - x.ndim) + x.shape
    return jnp.broadcast_to(x, [o if s == -1 else s for o, s in zip(own, sizes, strict=True)])


def _pad(x: Array, pads: Sequence[int], mode: Any = 0.0, value: Any = None) -> Array:
    """Pairs (before, after), the last axis first."""
    constant = mode if not isinstance(mode, str) else value or 0.0
    if isinstance(mode, str) and mode not in {"constant", "reflect", "replicate", "circular"}:
        raise ValueError(f"from_torch: aten::pad with mode {mode!r} has no translation to JAX here.")
    widths = [(0, 0)] * (x.ndim - len(pads) // 2)
    widths += [(pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)]
    if isinstance(mode, str) and mode != "constant":
        return jnp.pad(x, widths, mode={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])
    return jnp.pad(x, widths, constant_values=constant)


def _scaled(function: Callable) -> Callable:
    """add and sub, with their factor alpha."""
    return lambda x, y, alpha=1: function(x, y if alpha == 1 else alpha * y)


def _divide(x: Any, y: Any, rounding_mode: str | None = None) -> Array:
    return {None: jnp.divide, "floor": jnp.floor_divide, "trunc": lambda a, b: jnp.trunc(a / b)}[rounding_mode](x, y)


def _gelu(x: Array, approximate: str = "none") -> Array:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def _softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return jnp.where(beta * x > threshold, x, jax.nn.softplus(beta * x) / beta)


def _elu(x: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    return scale * jnp.where(x > 0, x, alpha * jnp.expm1(input_scale * jnp.minimum(x, 0)))


def _full(shape: Sequence[int], value: Any, dtype: Any = None, **_: Any) -> Array:
    return jnp.full(shape, value, _dtype(dtype) if dtype is not None else None)


def _full_like(x: Array, value: Any, dtype: Any = None, **_: Any) -> Array:
    return jnp.full(x.shape, value, _dtype(dtype) if dtype is not None else x.dtype)


def _arange(*bounds: Any, dtype: Any = None, **_: Any) -> Array:
    return jnp.arange(*bounds, dtype=_dtype(dtype) if dtype is not None else None)


def _index(x: Array, places: Sequence[Any]) -> Array:
    return x[tuple(slice(None) if place is None else place for place in places)]


def _same(x: Array, *_: Any, **__: Any) -> Array:
    return x


_NAMED_ALIKE = """abs atan2 bitwise_and bitwise_not bitwise_or ceil cos cosh exp expm1 floor isfinite isinf isnan log
log10 log1p log2 logical_and logical_not logical_or maximum minimum reciprocal round sign sin sinh sqrt square tan tanh
trunc"""

_ELEMENTWISE: dict[str, Callable] = {
    **{name: getattr(jnp, name) for name in _NAMED_ALIKE.split()},
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg")},
    "add": _scaled(operator.add),
    "sub": _scaled(operator.sub),
    "rsub": lambda x, y, alpha=1: y - alpha * x,
    "mul": operator.mul,
    "div": _divide,
    "pow": jnp.power,
    "rsqrt": jax.lax.rsqrt,
    "erf": jax.lax.erf,
    "sigmoid": jax.nn.sigmoid,
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "silu": jax.nn.silu,
    "gelu": _gelu,
    "elu": _elu,
    "selu": jax.nn.selu,
    "celu": jax.nn.celu,
    "softplus": _softplus,
    "softsign": jax.nn.soft_sign,
    "log_sigmoid": jax.nn.log_sigmoid,
    "mish": lambda x: x * jnp.tanh(jax.nn.softplus(x)),
    "leaky_relu": lambda x, slope=0.01: jnp.where(x > 0, x, slope * x),
    "prelu": lambda x, a: jnp.where(x > 0, x, a.reshape([1, -1] + [1] * (x.ndim - 2)) * x if x.ndim > 1 else a * x),
    "hardtanh": lambda x, low=-1.0, high=1.0: jnp.clip(x, low, high),
    "hardsigmoid": lambda x: jnp.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * jnp.clip(x / 6 + 0.5, 0, 1),
    "clamp": lambda x, low=None, high=None, min=None, max=None: jnp.clip(
        x, low if min is None else min, high if max is None else max
    ),
    "clamp_min": jnp.maximum,
    "clamp_max": jnp.minimum,
    "where": jnp.where,
    "masked_fill": lambda x, mask, value: jnp.where(mask, value, x),
}

_SHAPES: dict[str, Callable] = {
    **dict.fromkeys(("view", "reshape", "_unsafe_view"), lambda x, shape: x.reshape(tuple(shape))),
    "flatten": _flatten,
    "unflatten": _unflatten,
    "permute": jnp.transpose,
    "transpose": jnp.swapaxes,
    **dict.fromkeys(("t", "numpy_T", "mT"), lambda x: jnp.swapaxes(x, -1, -2) if x.ndim > 1 else x),
    "movedim": jnp.moveaxis,
    "squeeze": _squeeze,
    "unsqueeze": jnp.expand_dims,
    "expand": _expand,
    "repeat": jnp.tile,
    "cat": lambda parts, dim=0: jnp.concatenate(parts, dim),
    "stack": lambda parts, dim=0: jnp.stack(parts, dim),
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "chunk": _chunk,
    "unbind": lambda x, dim=0: [jnp.take(x, i, axis=dim) for i in range(x.shape[dim])],
    "select": lambda x, dim, i: jax.lax.index_in_dim(x, i, dim, keepdims=False),
    "slice": _slice,
    "narrow": lambda x, dim, start, length: _slice(x, dim, start, start + length),
    "index_select": lambda x, dim, places: jnp.take(x, places, axis=dim),
    "index": _index,
    "gather": lambda x, dim, places, **_: jnp.take_along_axis(x, places, dim),
    "flip": jnp.flip,
    "roll": jnp.roll,
    "tril": jnp.tril,
    "triu": jnp.triu,
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(("clone", "contiguous", "alias", "lift_fresh_copy", "_assert_tensor_metadata"), _same),
    "detach": jax.lax.stop_gradient,
    **dict.fromkeys(("_to_copy", "to", "type_as"), _cast),
    **dict.fromkeys(("full", "new_full"), _full),
    "zeros": lambda shape, **options: _full(shape, 0.0, **options),
    "ones": lambda shape, **options: _full(shape, 1.0, **options),
    "full_like": _full_like,
    "zeros_like": lambda x, **options: _full_like(x, 0, **options),
    "ones_like": lambda x, **options: _full_like(x, 1, **options),
    "scalar_tensor": lambda value, dtype=None, **_: _full((), value, dtype),
    "arange": _arange,
}

_REDUCTIONS: dict[str, Callable] = {
    "sum": _reduce(jnp.sum),
    "mean": _reduce(jnp.mean),
    "prod": _reduce(jnp.prod),
    "amax": _reduce(jnp.max),
    "amin": _reduce(jnp.min),
    "any": _reduce(jnp.any),
    "all": _reduce(jnp.all),
    "logsumexp": _reduce(jax.nn.logsumexp),
    "max": _extreme(jnp.max, jnp.argmax),
    "min": _extreme(jnp.min, jnp.argmin),
    "argmax": lambda x, dim=None, keepdim=False: jnp.argmax(x, axis=dim, keepdims=keepdim),
    "argmin": lambda x, dim=None, keepdim=False: jnp.argmin(x, axis=dim, keepdims=keepdim),
    "var": _variance,
    "std": lambda *args, **options: jnp.sqrt(_variance(*args, **options)),
    "cumsum": lambda x, dim, dtype=None: jnp.cumsum(_cast(x, dtype), axis=dim),
    "norm": lambda x, p=2, dim=None, keepdim=False: jnp.linalg.vector_norm(
        x, ord=2 if p is None else p, axis=_axes(dim), keepdims=keepdim
    ),
    "linalg_vector_norm": lambda x, p=2, dim=None, keepdim=False, dtype=None: jnp.linalg.vector_norm(
        x, ord=p, axis=_axes(dim), keepdims=keepdim
    ),
    **dict.fromkeys(("softmax", "_softmax"), lambda x, dim, *_: jax.nn.softmax(x, axis=dim)),
    **dict.fromkeys(("log_softmax", "_log_softmax"), lambda x, dim, *_: jax.nn.log_softmax(x, axis=dim)),
}

#: operator → its function of arrays; add your own to teach the bridge a further one
OPERATORS: dict[str, Callable] = {
    "getitem": operator.getitem,
    **{f"aten::{name}": function for name, function in (_ELEMENTWISE | _SHAPES | _REDUCTIONS | layers.LAYERS).items()},
}

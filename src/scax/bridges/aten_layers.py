"""ATen's layers in jnp: products, convolutions, pooling, normalization, attention, recurrence."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x Wᵀ + b: the weight is stored [outputs, inputs]."""
    z = jax.lax.dot_general(x, weight, (((x.ndim - 1,), (1,)), ((), ())))
    return z if bias is None else z + bias


def _addmm(bias: Array, x: Array, y: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    product = x @ y if alpha == 1 else alpha * (x @ y)
    return product + (bias if beta == 1 else beta * bias)


def _each(value: Any, count: int) -> list[int]:
    """One number for every spatial axis, or one for all."""
    values = list(value) if isinstance(value, Sequence) else [value]
    return values * count if len(values) == 1 else values


def convolution(
    x: Array, weight: Array, bias: Array | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Array:  # fmt: skip
    """conv1d, conv2d, conv3d: x [n, channels, …], weight [outputs, channels / groups, …]."""
    d = weight.ndim - 2
    pads = padding.upper() if isinstance(padding, str) else [(p, p) for p in _each(padding, d)]
    z = jax.lax.conv_general_dilated(
        x, weight, _each(stride, d), pads, rhs_dilation=_each(dilation, d), feature_group_count=groups
    )
    return z if bias is None else z + bias.reshape(-1, *[1] * d)


def _general_convolution(x, weight, bias, stride, padding, dilation, transposed, _output_padding, groups) -> Array:
    if transposed:
        raise ValueError("from_torch: aten::convolution, transposed, has no translation to JAX here.")
    return convolution(x, weight, bias, stride, padding, dilation, groups)


def _windows(x: Array, size: Any, stride: Any, padding: Any, dilation: Any, start: Any, combine: Callable) -> Array:
    d = len(size)
    lead = x.ndim - d
    return jax.lax.reduce_window(
        x, start, combine, (1,) * lead + tuple(size), (1,) * lead + tuple(stride or size),
        [(0, 0)] * lead + [(p, p) for p in _each(padding, d)],
        window_dilation=(1,) * lead + tuple(_each(dilation, d)),
    )  # fmt: skip


def _max_pool(d: int) -> Callable:
    def pool(x, size, stride=None, padding=0, dilation=1, ceil_mode=False) -> Array:
        _refuse_ceil(ceil_mode, f"aten::max_pool{d}d")
        return _windows(x, _each(size, d), stride and _each(stride, d), padding, dilation, -jnp.inf, jax.lax.max)

    return pool


def _average_pool(d: int) -> Callable:
    def pool(x, size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor=None) -> Array:
        _refuse_ceil(ceil_mode, f"aten::avg_pool{d}d")
        size, stride = _each(size, d), stride and _each(stride, d)
        total = _windows(x, size, stride, padding, 1, 0.0, jax.lax.add)
        if divisor is None and not count_include_pad:
            return total / _windows(jnp.ones_like(x), size, stride, padding, 1, 0.0, jax.lax.add)
        return total / (divisor or math.prod(size))

    return pool


def _refuse_ceil(ceil_mode: bool, name: str) -> None:
    if ceil_mode:
        raise ValueError(f"from_torch: {name} with ceil_mode=True has no translation to JAX here.")


def _adaptive_average(d: int) -> Callable:
    """Averages of [⌊i·n/m⌋, ⌈(i+1)·n/m⌉) for i < m along each of the last d axes."""

    def pool(x: Array, sizes: Any) -> Array:
        for axis, m in zip(range(x.ndim - d, x.ndim), _each(sizes, d), strict=True):
            n = x.shape[axis]
            parts = [
                jnp.mean(jax.lax.slice_in_dim(x, i * n // m, -(-(i + 1) * n // m), axis=axis), axis, keepdims=True)
                for i in range(m)
            ]
            x = jnp.concatenate(parts, axis)
        return x

    return pool


def _normalized(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    return (x - x.mean(axes, keepdims=True)) * jax.lax.rsqrt(x.var(axes, keepdims=True) + eps)


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5, *_) -> Array:
    z = _normalized(x, tuple(range(x.ndim - len(shape), x.ndim)), eps)
    z = z if weight is None else z * weight
    return z if bias is None else z + bias


def rms_norm(x, shape, weight=None, eps=None) -> Array:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    eps = float(jnp.finfo(x.dtype).eps) if eps is None else eps
    z = x * jax.lax.rsqrt(jnp.mean(x**2, axes, keepdims=True) + eps)
    return z if weight is None else z * weight


def group_norm(x, groups: int, weight=None, bias=None, eps=1e-5, *_) -> Array:
    grouped = x.reshape(x.shape[0], groups, -1)
    return _per_channel(_normalized(grouped, (2,), eps).reshape(x.shape), weight, bias)


def batch_norm(x, weight, bias, mean, variance, _momentum, eps) -> Array:
    """With running statistics: an affine function of each row."""
    shape = (-1, *[1] * (x.ndim - 2))
    z = (x - mean.reshape(shape)) * jax.lax.rsqrt(variance.reshape(shape) + eps)
    return _per_channel(z, weight, bias)


def _frozen_batch_norm(x, weight, bias, mean, variance, training, momentum, eps, *_) -> Array:
    if training:
        raise ValueError("from_torch: aten::batch_norm in training mode mixes the rows of a batch: call module.eval().")
    return batch_norm(x, weight, bias, mean, variance, momentum, eps)


def _per_channel(z: Array, weight: Array | None, bias: Array | None) -> Array:
    shape = (-1, *[1] * (z.ndim - 2))
    z = z if weight is None else z * weight.reshape(shape)
    return z if bias is None else z + bias.reshape(shape)


def attention(q, k, v, mask=None, dropout=0.0, causal=False, *, scale=None, enable_gqa=False) -> Array:
    """softmax(q kᵀ · scale + mask) v over the last two axes."""
    if dropout or enable_gqa:
        raise ValueError("from_torch: aten::scaled_dot_product_attention with dropout or enable_gqa is not translated.")
    scores = jnp.einsum("...te,...se->...ts", q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
    return jnp.einsum("...ts,...se->...te", jax.nn.softmax(scores, axis=-1), v)


def _lstm_cell(x, h, c, w, u, b, d):
    i, f, g, o = jnp.split(linear(x, w, b) + linear(h, u, d), 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _gru_cell(x, h, w, u, b, d):
    (r, z, n), (s, t, m) = (jnp.split(a, 3, axis=-1) for a in (linear(x, w, b), linear(h, u, d)))
    r, z = jax.nn.sigmoid(r + s), jax.nn.sigmoid(z + t)
    return ((1 - z) * jnp.tanh(n + r * m) + z * h,)


def _rnn_cell(activation: Callable) -> Callable:
    return lambda x, h, w, u, b, d: (activation(linear(x, w, b) + linear(h, u, d)),)


def _recurrent(cell: Callable, states: int) -> Callable:
    """(outputs, last state, …) of stacked layers, both directions where asked for; scans over time."""

    def run(x, start, weights, biased, count, dropout, training, both, batch_first) -> tuple:
        if dropout and training and count > 1:
            raise ValueError("from_torch: dropout between recurrent layers draws random numbers: call module.eval().")
        start = list(start) if states > 1 else [start]
        per = 4 if biased else 2
        if len(weights) != per * count * (2 if both else 1):
            raise ValueError(
                "from_torch: recurrent layers with projections (proj_size) have no translation to JAX here."
            )
        x = jnp.swapaxes(x, 0, 1) if batch_first else x
        ends, place = [], 0
        for _ in range(count):
            sides = []
            for reverse in (False, True) if both else (False,):
                own = [*weights[per * place : per * (place + 1)], None, None][:4]

                def step(carry, row, own=own):
                    after = cell(row, *carry, *own)
                    return after, after[0]

                end, z = jax.lax.scan(step, tuple(s[place] for s in start), x, reverse=reverse)
                sides.append(z)
                ends.append(end)
                place += 1
            x = jnp.concatenate(sides, axis=-1) if both else sides[0]
        x = jnp.swapaxes(x, 0, 1) if batch_first else x
        return (x, *(jnp.stack([end[i] for end in ends]) for i in range(states)))

    return run


def _eval_dropout(x: Array, _p: float, train: bool) -> Array:
    if train:
        raise ValueError("from_torch: aten::dropout in training mode draws random numbers: call module.eval().")
    return x


LAYERS: dict[str, Callable] = {
    "linear": linear,
    **dict.fromkeys(("matmul", "mm", "bmm"), jnp.matmul),
    "addmm": _addmm,
    "baddbmm": _addmm,
    "einsum": lambda form, parts, **_: jnp.einsum(form, *parts),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), convolution),
    "convolution": _general_convolution,
    **{f"max_pool{d}d": _max_pool(d) for d in (1, 2, 3)},
    **{f"avg_pool{d}d": _average_pool(d) for d in (1, 2, 3)},
    **{f"adaptive_avg_pool{d}d": _adaptive_average(d) for d in (1, 2, 3)},
    "layer_norm": layer_norm,
    "native_layer_norm": lambda *args: (layer_norm(*args),),
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "batch_norm": _frozen_batch_norm,
    "_native_batch_norm_legit_no_training": lambda *args: (batch_norm(*args),),
    "scaled_dot_product_attention": attention,
    "embedding": lambda weight, places, *_, **__: weight[places],
    "lstm": _recurrent(_lstm_cell, 2),
    "gru": _recurrent(_gru_cell, 1),
    "rnn_tanh": _recurrent(_rnn_cell(jnp.tanh), 1),
    "rnn_relu": _recurrent(_rnn_cell(jax.nn.relu), 1),
    **dict.fromkeys(("dropout", "feature_dropout", "alpha_dropout"), _eval_dropout),
}

"""The multilayer perceptron in NumPy: what a saved model needs to predict where JAX is not installed."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np


def _sigmoid(a):
    # e^{−|a|} never overflows; its two uses meet at 0
    e = np.exp(-np.abs(a))
    return np.where(a >= 0, 1, e) / (1 + e)


def _gelu(a):
    inner = np.asarray(np.sqrt(2 / np.pi), a.dtype) * (a + np.asarray(0.044715, a.dtype) * a**3)
    return a * (0.5 * (1 + np.tanh(inner)))


def _softplus(a):
    return np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a)))


#: the functions of scax.models.mlp.ACTIVATIONS, by the same names
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "relu": lambda a: np.maximum(a, 0),
    "gelu": _gelu,
    "silu": lambda a: a * _sigmoid(a),
    "elu": lambda a: np.where(a > 0, a, np.expm1(np.minimum(a, 0))),
    "softplus": _softplus,
    "sigmoid": _sigmoid,
    "linear": lambda a: a,
}

#: their derivatives; at its kink relu's is 0, as JAX has it
SLOPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": lambda a: 1 - np.tanh(a) ** 2,
    "relu": lambda a: (a > 0).astype(a.dtype),
    "gelu": lambda a: _gelu_slope(a),
    "silu": lambda a: _sigmoid(a) * (1 + a * (1 - _sigmoid(a))),
    "elu": lambda a: np.where(a > 0, 1, np.exp(np.minimum(a, 0))),
    "softplus": _sigmoid,
    "sigmoid": lambda a: _sigmoid(a) * _sigmoid(-a),
    "linear": np.ones_like,
}


def _gelu_slope(a):
    root = np.sqrt(2 / np.pi)
    t = np.tanh(root * (a + 0.044715 * a**3))
    return 0.5 * (1 + t) + 0.5 * a * (1 - t**2) * root * (1 + 3 * 0.044715 * a**2)


def _softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _exponential(z):
    with np.errstate(over="ignore"):
        return np.exp(z)


#: from raw outputs to what is predicted
LINKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda z: z,
    "logistic": _sigmoid,
    "softmax": _softmax,
    "exponential": _exponential,
}


#: Numbers of a layer that `forward` forms at once (128 MB in float32), and rows.
NUMBERS, ROWS = 1 << 25, 1 << 16


def forward(layers: Sequence[tuple[np.ndarray, np.ndarray]], activation: str, output: str, x: np.ndarray) -> np.ndarray:
    """Outputs [n, k] of rows [n, d], a slice of rows at a time so that memory stays bounded."""
    widest = max(1, *(bias.size for _, bias in layers))
    parts, rows = [], max(1, min(ROWS, NUMBERS // widest))
    for start in range(0, max(len(x), 1), rows):
        a = x[start : start + rows].astype(layers[0][0].dtype, copy=False)
        with np.errstate(over="ignore", under="ignore"):
            for weight, bias in layers[:-1]:
                a = ACTIVATIONS[activation](a @ weight + bias)
            weight, bias = layers[-1]
            parts.append(ACTIVATIONS[output](a @ weight + bias))
    return np.concatenate(parts)


def last_hidden(layers: Sequence[tuple[np.ndarray, np.ndarray]], activation: str, x: np.ndarray) -> np.ndarray:
    """What the last layer sees of rows: hidden units, or the inputs where there are none."""
    return forward(layers[:-1], activation, activation, x) if len(layers) > 1 else x


def jacobian(
    layers: Sequence[tuple[np.ndarray, np.ndarray]], activation: str, output: str, x: np.ndarray, last: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs [n, k] and their derivatives [n, k, Q] by the weights, in the order in which training flattens them:
    layer by layer, its bias, then its weight. `last`: by those of the last layer alone."""
    z, backward = _backward(layers, activation, output, x)
    parts: list[np.ndarray] = []
    for a, g in backward:
        by_weight = a[:, None, :, None] * g[:, :, None, :]
        parts[:0] = [g, by_weight.reshape(*g.shape[:2], a.shape[1] * g.shape[2])]
        if last:
            break
    return z, np.concatenate(parts, axis=2)


def gram(
    layers: Sequence[tuple[np.ndarray, np.ndarray]], activation: str, output: str, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs z [n, k] and J Jᵀ [n, k, n, k] without J: of every layer (g gᵀ) · (a aᵀ + 1), a its inputs, g = ∂z/∂h.

    Weights of inputs that the network does not look at, zeros all, are no part of J. Also g gᵀ of the first layer."""
    z, backward = _backward(layers, activation, output, x)
    seen, total, slopes = layers[0][0].any(axis=1), np.zeros((*z.shape, *z.shape)), np.empty(0)
    for i, (a, g) in zip(reversed(range(len(layers))), backward, strict=True):
        a = a if i else a[:, seen]
        rows = g.reshape(z.size, -1)
        slopes = (rows @ rows.T).reshape(total.shape)
        total += slopes * (a @ a.T + 1)[:, None, :, None]
    return z, total, slopes


def _backward(
    layers: Sequence[tuple[np.ndarray, np.ndarray]], activation: str, output: str, x: np.ndarray
) -> tuple[np.ndarray, Iterator[tuple[np.ndarray, np.ndarray]]]:
    """Outputs [n, k], and from the last layer to the first (its inputs [n, d], ∂z/∂h [n, k, its outputs])."""
    inputs, slopes = [], []
    a = x.astype(layers[0][0].dtype, copy=False)
    with np.errstate(over="ignore", under="ignore"):
        for i, (weight, bias) in enumerate(layers):
            name = activation if i + 1 < len(layers) else output
            inputs.append(a)
            h = a @ weight + bias
            a = ACTIVATIONS[name](h)
            slopes.append(SLOPES[name](h))

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        g = slopes[-1][:, :, None] * np.eye(a.shape[1], dtype=a.dtype)
        for i in reversed(range(len(layers))):
            yield inputs[i], g
            if i:
                g = (g @ layers[i][0].T) * slopes[i - 1][:, None, :]

    return a, parts()

"""The multilayer perceptron in NumPy: what a saved model needs to predict where JAX is not installed."""

from collections.abc import Callable, Sequence

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


def forward(
    layers: Sequence[tuple[np.ndarray, np.ndarray]], activation: str, output: str, x: np.ndarray, rows: int = 65536
) -> np.ndarray:
    """Outputs [n, k] of rows [n, d], a slice of rows at a time so that memory stays bounded."""
    parts = []
    for start in range(0, max(len(x), 1), rows):
        a = x[start : start + rows].astype(layers[0][0].dtype, copy=False)
        with np.errstate(over="ignore", under="ignore"):
            for weight, bias in layers[:-1]:
                a = ACTIVATIONS[activation](a @ weight + bias)
            weight, bias = layers[-1]
            parts.append(ACTIVATIONS[output](a @ weight + bias))
    return np.concatenate(parts)

"""The network behind the estimators, between NumPy attributes and the pytree that is trained."""

import dataclasses
import itertools

import numpy as np
from jaxtyping import Array, Float

from ..models import MLP


@dataclasses.dataclass(frozen=True)
class Network:
    """f(params, x) + offset. Equal by value, so that every fit of one shape shares one compiled program.

    params is {"layers": as of MLP, "offset": [k]}; the offset is fixed: what is predicted before anything is learned.
    """

    mlp: MLP

    def __call__(self, params: dict, x: Float[Array, "n d"]) -> Float[Array, "n k"]:
        return self.mlp.apply(params["layers"], x) + params["offset"]


#: Which leaves of params are trained.
TRAINABLE = {"layers": True, "offset": False}


def glorot(widths: tuple[int, ...], random: np.random.RandomState) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(weights, biases): uniform in ±√(6/(inputs + outputs)), and zero, as of MLP."""
    pairs = list(itertools.pairwise(widths))
    weights = [random.uniform(-1, 1, (a, b)) * np.sqrt(6 / (a + b)) for a, b in pairs]
    return weights, [np.zeros(b) for _, b in pairs]


def padded_features(d: int) -> int:
    """Inputs are padded with zero columns, whose weights stay zero, so that d and d+1 features share a program."""
    step = 16 if d <= 16 else 32
    return -(-d // step) * step


def to_params(weights: list[np.ndarray], biases: list[np.ndarray], offset: np.ndarray) -> dict:
    """The pytree that is trained, inputs padded."""
    d = weights[0].shape[0]
    first = np.pad(weights[0], ((0, padded_features(d) - d), (0, 0)))
    layers = [{"weight": w, "bias": b} for w, b in zip([first, *weights[1:]], biases, strict=True)]
    return {"layers": layers, "offset": offset}


def from_params(params: dict, d: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(weights, biases) as NumPy arrays, the padding taken off."""
    weights = [np.array(layer["weight"]) for layer in params["layers"]]
    return [np.ascontiguousarray(weights[0][:d]), *weights[1:]], [np.array(layer["bias"]) for layer in params["layers"]]

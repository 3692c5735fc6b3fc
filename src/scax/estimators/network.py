"""The network behind the estimators, between NumPy attributes and the pytree that is trained."""

import dataclasses
import itertools

import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import block_diag

from ..models import MLP

#: (weights [inputs, outputs] of every layer, biases)
Layers = tuple[list[np.ndarray], list[np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Network:
    """f(params, x·mask) + offset. Equal by value, so that every fit of one shape shares one compiled program.

    params is {"layers": as of MLP, "mask": [d], "offset": [k]}. Two are fixed: the mask, 0 for features that this
    network does not see and else the unit of their weights, and the offset, what is predicted before anything is
    learned.
    """

    mlp: MLP

    def __call__(self, params: dict, x: Float[Array, "n d"]) -> Float[Array, "n k"]:
        return self.mlp.apply(params["layers"], x * params["mask"]) + params["offset"]


#: Which leaves of params are trained.
TRAINABLE = {"layers": True, "mask": False, "offset": False}


def glorot(widths: tuple[int, ...], random: np.random.RandomState) -> Layers:
    """(weights, biases): uniform in ±√(6/(inputs + outputs)), and zero, as of MLP."""
    pairs = list(itertools.pairwise(widths))
    weights = [random.uniform(-1, 1, (a, b)) * np.sqrt(6 / (a + b)) for a, b in pairs]
    return weights, [np.zeros(b) for _, b in pairs]


def joined(networks: list[Layers]) -> Layers:
    """One network whose output is the average of several: their hidden units side by side."""
    if len(networks) == 1:
        return networks[0]
    layers, last = list(zip(*(weights for weights, _ in networks), strict=True)), len(networks[0][0]) - 1
    biases = [np.concatenate(b) for b in zip(*(biases for _, biases in networks), strict=True)]
    biases[-1] = np.mean([b[-1] for _, b in networks], axis=0)
    if last == 0:
        return [np.asarray(np.mean(np.stack(layers[0]), axis=0))], biases
    first, end = np.concatenate(layers[0], axis=1), np.concatenate(layers[last]) / len(networks)
    return [first, *(np.asarray(block_diag(*blocks)) for blocks in layers[1:last]), end], biases


def padded_features(d: int) -> int:
    """Inputs are padded with zero columns, whose weights stay zero, so that d and d+1 features share a program."""
    step = 16 if d <= 16 else 32
    return -(-d // step) * step


def to_params(
    weights: list[np.ndarray], biases: list[np.ndarray], mask: np.ndarray, offset: np.ndarray, dtype: type = np.float64
) -> dict:
    """The pytree that is trained, inputs padded."""
    d = weights[0].shape[0]
    more = padded_features(d) - d
    first, mask = np.pad(weights[0], ((0, more), (0, 0))), np.pad(mask, (0, more))
    first = np.divide(first, mask[:, None], out=np.zeros_like(first), where=mask[:, None] > 0)
    pairs = zip([first, *weights[1:]], biases, strict=True)
    layers = [{"weight": w.astype(dtype), "bias": b.astype(dtype)} for w, b in pairs]
    return {"layers": layers, "mask": mask.astype(dtype), "offset": np.asarray(offset, dtype)}


def from_params(params: dict, d: int) -> Layers:
    """(weights, biases) as NumPy arrays, the padding taken off; zero for features that the network does not see."""
    weights, biases = ([np.array(layer[name], np.float64) for layer in params["layers"]] for name in ("weight", "bias"))
    first = weights[0] * np.asarray(params["mask"])[:, None]
    return [np.ascontiguousarray(first[:d]), *weights[1:]], biases

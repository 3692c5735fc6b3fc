"""A smaller network with the same outputs: what exact zeros are good for."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .mlp import MLP, Params


@dataclasses.dataclass(frozen=True)
class Size:
    """What a network is made of."""

    weights: int  # that are not zero, biases included
    stored: int  # numbers kept in memory, zeros included
    neurons: int  # in hidden layers
    inputs: int
    multiply_adds: int  # of one row's forward pass

    @staticmethod
    def of(params: Params) -> "Size":
        """Of weights as they are stored: zeros are multiplied like any other number."""
        kernels = [np.asarray(layer["weight"]) for layer in params]
        leaves = [np.asarray(leaf) for layer in params for leaf in layer.values()]
        return Size(
            sum(int(np.count_nonzero(leaf)) for leaf in leaves),
            sum(leaf.size for leaf in leaves),
            sum(kernel.shape[1] for kernel in kernels[:-1]),
            kernels[0].shape[0],
            sum(kernel.size for kernel in kernels),
        )


@dataclasses.dataclass(frozen=True)
class Compacted:
    """The smaller network: `net.apply(params, x[:, inputs])` gives what the large one gives for x, to rounding.

    `inputs` are the places of the inputs it still uses; `before` and `after` its sizes.
    """

    net: MLP
    params: Params
    inputs: np.ndarray
    before: Size
    after: Size
    original: tuple[MLP, Params] = dataclasses.field(repr=False)

    def apply(self, x: Any) -> Any:
        """Outputs for rows with all inputs."""
        return self.net.apply(self.params, x[:, self.inputs])

    def seconds(self, rows: int = 4096, repeats: int = 20) -> tuple[float, float]:
        """Time of a compiled forward pass over some rows, (before, after): the least of several, taken in turns."""
        big, weights = self.original
        x = np.random.default_rng(0).normal(size=(rows, big.widths[0])).astype(np.asarray(weights[0]["weight"]).dtype)
        small = np.ascontiguousarray(x[:, self.inputs])
        runs = [
            (jax.jit(big.apply), jax.device_put((weights, x))),
            (jax.jit(self.net.apply), jax.device_put((self.params, small))),
        ]
        best = [np.inf, np.inf]
        for _ in range(repeats + 1):  # the first round compiles
            for i, (run, arguments) in enumerate(runs):
                clock = time.perf_counter()
                jax.block_until_ready(run(*arguments))
                best[i] = min(best[i], time.perf_counter() - clock)
        return best[0], best[1]

    def __str__(self) -> str:
        a, b = self.before, self.after
        lines = [f"{'/'.join(map(str, self.original[0].widths))} → {'/'.join(map(str, self.net.widths))}"]
        for name in ("weights", "stored", "neurons", "inputs", "multiply_adds"):
            old, new = getattr(a, name), getattr(b, name)
            lines.append(f"{name.replace('_', '-'):>14}: {old:,} → {new:,} ({new / max(old, 1):.0%})")
        return "\n".join(lines)


def compact(net: MLP, params: Params) -> Compacted:
    """Leave out what cannot change the outputs of an MLP with exact zeros.

    - a hidden unit that nothing leaves (its row of the next layer's weights is zero);
    - a hidden unit that nothing enters: it is the constant act(b), and act(b) · its row goes into the next bias;
    - an input that nothing leaves.

    Each may make others superfluous, so it is repeated until nothing changes. Where nothing is left of a layer one
    unit of zeros stays, for a network needs one.
    """
    widths = (np.shape(params[0]["weight"])[0], *(np.shape(layer["weight"])[1] for layer in params)) if params else ()
    if widths != net.widths:
        raise ValueError(f"params are those of a network of widths {widths}, but net has {net.widths}.")
    from ..files.network import ACTIVATIONS

    dtype = np.asarray(params[0]["weight"]).dtype
    kernels = [np.asarray(layer["weight"], np.float64) for layer in params]
    biases = [np.asarray(layer["bias"], np.float64) for layer in params]
    inputs = np.arange(net.widths[0])
    act = ACTIVATIONS[net.activation]
    changed = True
    while changed:
        changed = False
        for i in range(len(kernels) - 1):
            entered, left = np.any(kernels[i] != 0, axis=0), np.any(kernels[i + 1] != 0, axis=1)
            constant = ~entered & left
            biases[i + 1] = biases[i + 1] + act(biases[i][constant]) @ kernels[i + 1][constant]
            kernels[i + 1] = np.where(constant[:, None], 0, kernels[i + 1])
            alive = entered & left
            keep = _at_least_one(alive)
            changed |= bool(np.any(constant)) or not np.all(keep) or bool(np.any(kernels[i][:, ~alive]))
            kernels[i], biases[i] = np.where(alive, kernels[i], 0), np.where(alive, biases[i], 0)
            kernels[i], biases[i], kernels[i + 1] = kernels[i][:, keep], biases[i][keep], kernels[i + 1][keep]
    used = _at_least_one(np.any(kernels[0] != 0, axis=1))
    kernels[0], inputs = kernels[0][used], inputs[used]
    small = MLP((len(inputs), *(len(b) for b in biases)), net.activation, net.output)
    less = [{"weight": k.astype(dtype), "bias": b.astype(dtype)} for k, b in zip(kernels, biases, strict=True)]
    return Compacted(small, less, inputs, Size.of(params), Size.of(less), (net, params))


def used(kernels: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For the inputs and the units of each layer, whether a way of weights that are not zero leads through them, from
    an input to an output: what `compact` leaves, but for the one unit of zeros of a layer of which nothing is left."""
    reached = [np.ones(kernels[0].shape[0], bool)]
    for kernel in kernels:
        reached.append(np.any(kernel[reached[-1]] != 0, axis=0))
    leading = [np.ones(kernels[-1].shape[1], bool)]
    for kernel in reversed(kernels):
        leading.append(np.any(kernel[:, leading[-1]] != 0, axis=1))
    return [there & on for there, on in zip(reached, reversed(leading), strict=True)]


def weights_used(kernels: Sequence[np.ndarray]) -> int:
    """How many weights between units in use are not zero."""
    units = used(kernels)
    ways = zip(kernels, units[:-1], units[1:], strict=True)
    return sum(int(np.count_nonzero(kernel[a][:, b])) for kernel, a, b in ways)


def _at_least_one(keep: np.ndarray) -> np.ndarray:
    return keep if np.any(keep) else np.arange(len(keep)) == 0

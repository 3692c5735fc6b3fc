"""A smaller network with the same outputs: what exact zeros are good for."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ..linearize.walk import multiply_adds
from .cut import Apply, along, cut, disagreement
from .mlp import MLP, Params
from .program import Leaves, Program
from .units import find


@dataclasses.dataclass(frozen=True)
class Size:
    """What a network is made of."""

    weights: int  # that are not zero, biases included
    stored: int  # numbers kept in memory, zeros included
    neurons: int  # outputs of layers that are not the last, channels of convolutions among them
    inputs: int
    multiply_adds: int  # of one row's forward pass

    @staticmethod
    def of(net: Any, params: PyTree, x: Any) -> "Size":
        """Of weights as they are stored: zeros are multiplied like any other number. x is a row, or more."""
        leaves = Leaves.of(params)
        weights, stored = (sum(int(count(leaf)) for leaf in leaves.arrays) for count in (np.count_nonzero, np.size))
        if isinstance(net, MLP):
            products = sum(np.size(layer["weight"]) for layer in params)
            return Size(weights, stored, sum(net.widths[1:-1]), net.widths[0], products)
        program = Program.of(function(net), leaves, x)
        return Size(weights, stored, find(program).neurons, math.prod(x.shape[1:]), round(multiply_adds(program.jaxpr)))


@dataclasses.dataclass(frozen=True)
class Compacted:
    """The smaller network: `apply(x)` gives what the large one gives for x, to rounding.

    `net` and `params` are the network, and `inputs` the places, along `axis` of x, of the inputs it still uses: with
    `x[:, inputs]` as its rows `net.apply(params, rows)`, or `net(params, rows)` for a function, is the same.
    `before` and `after` are its sizes.

    >>> sparse = jax.tree.map(jnp.copy, params)
    >>> sparse[0]["weight"] = sparse[0]["weight"].at[1].set(0.0)  # nothing leaves the second input
    >>> small = scax.compact(net, sparse)
    >>> small.inputs.tolist(), small.apply(x).shape
    ([0], (40, 1))
    """

    net: Any
    params: PyTree
    inputs: np.ndarray
    before: Size
    after: Size
    original: tuple[Any, PyTree] = dataclasses.field(repr=False)
    x: Any = dataclasses.field(repr=False)  # a row, or more
    axis: int = 1

    def apply(self, x: Any) -> Any:
        """Outputs for rows with all inputs."""
        if np.shape(x)[1:] != np.shape(self.x)[1:]:
            raise ValueError(f"x has rows of shape {np.shape(x)[1:]}; this network takes {np.shape(self.x)[1:]}.")
        return function(self.net)(self.params, along(x, self.inputs, self.axis))

    def seconds(self, rows: int = 4096, repeats: int = 20) -> tuple[float, float]:
        """Time of a compiled forward pass over some rows, (before, after): the least of several, taken in turns."""
        x = np.asarray(self.x)[np.arange(rows) % len(self.x)]
        few = np.ascontiguousarray(along(x, self.inputs, self.axis))
        runs = []
        for (net, params), rows_in in ((self.original, x), ((self.net, self.params), few)):
            leaves = Leaves.of(params)
            runs.append((jax.jit(leaves.function(function(net))), jax.device_put((leaves.arrays, rows_in))))
        best = [np.inf, np.inf]
        for _ in range(repeats + 1):  # the first round compiles
            for i, (run, arguments) in enumerate(runs):
                clock = time.perf_counter()
                jax.block_until_ready(run(*arguments))
                best[i] = min(best[i], time.perf_counter() - clock)
        return best[0], best[1]

    def __str__(self) -> str:
        big, weights = self.original
        if isinstance(big, MLP):
            lines = [f"{'/'.join(map(str, big.widths))} → {'/'.join(map(str, self.net.widths))}"]
        else:
            lines = _shapes(weights, self.params) or ["nothing to leave out"]
        for name in ("weights", "stored", "neurons", "inputs", "multiply_adds"):
            old, new = getattr(self.before, name), getattr(self.after, name)
            lines.append(f"{name.replace('_', '-'):>14}: {old:,} → {new:,} ({new / max(old, 1):.0%})")
        return "\n".join(lines)


def compact(net: Any, params: PyTree, x: Any = None, *, build: Callable[[PyTree], Any] | None = None) -> Compacted:
    """Leave out what cannot change the outputs of a network with exact zeros.

    Of an `MLP`

    - a hidden unit that nothing leaves (its row of the next layer's weights is zero);
    - a hidden unit that nothing enters: it is the constant act(b), and act(b) · its row goes into the next bias;
    - an input that nothing leaves.

    Of any other network, a function `net(params, x)` or an object with such an `apply`, x being a few rows:

    - a unit, a channel of a convolution for example, that no product reads: the weights that leave it are zero;
    - a unit that is zero whatever the row: the weights that enter it are zero, and its bias (or what is made of it);
    - an input feature or channel that no product reads.

    Units that something other than products, element-wise functions, pooling and reshapes reads, such as a norm
    or a softmax over them, all stay, and so do constants other than zero.

    Each may make others superfluous, so it is repeated until nothing changes. Where nothing is left of a layer one
    unit of zeros stays, for a network needs one.

    A function must take its sizes from its params. For a network that declares them, `build(params)` makes the one that
    takes the smaller params; without it such a network is refused.

    >>> sparse = jax.tree.map(jnp.copy, params)
    >>> sparse[1]["weight"] = sparse[1]["weight"].at[3:].set(0.0)  # nothing leaves five of eight units
    >>> small = scax.compact(net, sparse)
    >>> small.net.widths
    (2, 3, 1)
    """
    if isinstance(net, MLP):
        if build is not None:
            raise TypeError("build is for networks that are not an MLP: compact builds those itself.")
        return _compact_mlp(net, params)
    if not callable(net) and not hasattr(net, "apply"):
        raise TypeError(f"net must be an MLP, a function net(params, x) or have such an apply, got {net!r}.")
    if x is None:
        raise TypeError("x is missing: give a few rows, compact(net, params, x), for a network that is not an MLP.")
    if not hasattr(x, "ndim"):
        raise TypeError(f"x must be an array of rows, got a {type(x).__name__}.")
    if x.ndim < 1 or len(x) < 1:
        raise ValueError(f"x has shape {x.shape}: give at least one row.")
    x = x[:16]
    problem, smaller = None, params
    # some functions refuse nothing but fewer inputs, others sizes that are written in them
    for all_inputs, written in ((False, False), (True, False), (True, True)):
        less = cut(function(net), params, x, all_inputs, written)
        small, smaller = net if build is None else build(less.params), less.params
        problem = disagreement(function(net), params, function(small), less, x)
        if problem is None:
            rows = along(x, less.inputs, less.axis)
            sizes = Size.of(net, params, x), Size.of(small, smaller, rows)
            return Compacted(small, smaller, less.inputs, *sizes, (net, params), x, less.axis)
    raise ValueError(
        f"compact: the network {problem}. Let it take its sizes from params and x, x.reshape(len(x), -1) instead of "
        "x.reshape(-1, 128) for example; or give build, a function that makes the network for the smaller params, "
        f"compact(net, params, x, build=lambda params: …). The smaller params: {', '.join(_shapes(params, smaller))}."
    )


def function(net: Any) -> Apply:
    """A network as a function of params and rows."""
    return getattr(net, "apply", net)


def _shapes(params: PyTree, smaller: PyTree) -> list[str]:
    """The shapes that differ."""
    before, after = Leaves.of(params), Leaves.of(smaller)
    pairs = [(np.shape(a), np.shape(b)) for a, b in zip(before.arrays, after.arrays, strict=True)]
    return [f"{name} {a} → {b}" for name, (a, b) in zip(before.names, pairs, strict=True) if a != b]


def _compact_mlp(net: MLP, params: Params) -> Compacted:
    widths = (np.shape(params[0]["weight"])[0], *(np.shape(layer["weight"])[1] for layer in params)) if params else ()
    if widths != net.widths:
        raise ValueError(f"params are those of a network of widths {widths}, but net has {net.widths}.")
    from ..storage.network import ACTIVATIONS

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
    x = np.random.default_rng(0).normal(size=(1, net.widths[0])).astype(dtype)
    sizes = Size.of(net, params, x), Size.of(small, less, x[:, inputs])
    return Compacted(small, less, inputs, *sizes, (net, params), x)


def used(kernels: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For the inputs and the units of each layer, whether they are on a path of nonzero weights from an input
    to an output: what `compact` leaves, but for the one unit of zeros of a layer of which nothing is left."""
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

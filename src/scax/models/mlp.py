"""A multilayer perceptron."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import checks
from .._compat import refuse_fork

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "elu": jax.nn.elu,
    "softplus": jax.nn.softplus,
    "sigmoid": jax.nn.sigmoid,
    "linear": lambda a: a,
}

Params = list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class MLP:
    """Dense layers of the given widths, input first, with an activation between them.

    `output` is an activation after the last one; "linear" leaves outputs raw, as losses take them.

    Weights start uniform in ±√(6/(inputs + outputs)) (Glorot), biases at zero. Parameters are a list of
    {"weight": [inputs, outputs], "bias": [outputs]}, one per layer.

    >>> net = scax.MLP((9, 10, 6, 1), activation="tanh")
    >>> params = net.init(jax.random.key(0))
    >>> params[0]["weight"].shape, net.apply(params, jnp.ones((5, 9))).shape
    ((9, 10), (5, 1))
    """

    widths: tuple[int, ...]
    activation: str = "tanh"
    output: str = "linear"

    def __post_init__(self):
        widths = tuple(int(w) if isinstance(w, np.integer) else w for w in self.widths)
        if len(widths) < 2 or any(not isinstance(w, int) or isinstance(w, bool) or w < 1 for w in widths):
            raise ValueError(f"widths must be at least two whole numbers ≥ 1, input first, got {self.widths!r}.")
        object.__setattr__(self, "widths", widths)
        checks.choice("activation", self.activation, ACTIVATIONS)
        checks.choice("output", self.output, ACTIVATIONS)

    def init(self, key: Array, dtype=float) -> Params:
        """Fresh parameters."""
        refuse_fork()
        params = []
        for n_in, n_out in zip(self.widths[:-1], self.widths[1:], strict=True):
            key, sub = jax.random.split(key)
            bound = math.sqrt(6 / (n_in + n_out))
            weight = jax.random.uniform(sub, (n_in, n_out), dtype, -bound, bound)
            params.append({"weight": weight, "bias": jnp.zeros(n_out, weight.dtype)})
        return params

    def apply(self, params: Params, x: Float[Array | np.ndarray, "n d"]) -> Float[Array, "n k"]:
        """Outputs [n, k] of rows [n, d]."""
        if x.shape[1:] != (self.widths[0],):
            raise ValueError(f"x has shape {x.shape}; this network takes rows of {self.widths[0]} features.")
        *hidden, last = params
        x = jnp.asarray(x)
        for layer in hidden:
            x = ACTIVATIONS[self.activation](x @ layer["weight"] + layer["bias"])
        return ACTIVATIONS[self.output](x @ last["weight"] + last["bias"])

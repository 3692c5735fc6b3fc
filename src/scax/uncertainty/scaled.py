"""A network whose groups of weights have units of their own, so that one ridge is a strength for each group."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


@dataclasses.dataclass(frozen=True)
class Scaled:
    """{"scale", "weights"} → apply(scale · weights, x)."""

    apply: Any

    def __call__(self, params: dict, x: Any) -> Array:
        return self.apply(self.own(params), x)

    def own(self, params: dict) -> PyTree:
        """The network's own weights."""
        return jax.tree.map(jnp.multiply, params["scale"], params["weights"])

"""The average of the iterates: what is deployed where single iterates are noisy."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from .. import checks
from .._struct import Number, struct


@struct
class IterateAverage:
    """w̄_{n+1} = w̄_n + (w_{n+1} − w̄_n)(p + 1)/(n + p + 1): the iterates' average with weights growing like n^p."""

    power: Number

    def __post_init__(self):
        checks.nonnegative("mean_power", self.power)

    def init(self, w: PyTree) -> PyTree:
        """A copy: states can be donated."""
        return jax.tree.map(jnp.array, w)

    def update(self, mean: Any, w: Any, n: Int[Array, ""]) -> Any:
        """The average with one more iterate, the one after step n."""
        share = (self.power + 1) / (n + self.power + 1)
        return jax.tree.map(lambda a, b: a + (b - a) * jnp.asarray(share, a.dtype), mean, w)

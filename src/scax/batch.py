"""One mini-batch, as every part of the method sees it."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from . import checks
from ._struct import struct


@struct
class Pairs:
    """Neighboring rows whose outputs should agree: the manifold penalty's share of a mini-batch.

    `extra` are rows beside the batch; `left` and `right` index the batch's rows followed by the extra ones, and
    `weight` is q_ij/k times the number of rows of the graph over the number drawn.
    """

    extra: Shaped[Array, "e *features"]
    left: Int[Array, "p"]
    right: Int[Array, "p"]
    weight: Float[Array, "p"]


@struct
class Batch:
    """Rows x, targets y, optional sample weights, optional neighbor pairs."""

    x: Any
    y: Any
    weight: Any = None
    pairs: Pairs | None = None

    @staticmethod
    def of(batch: Any) -> "Batch":
        """A Batch from a Batch, (x, y) or (x, y, weight)."""
        if isinstance(batch, Batch):
            return batch
        if isinstance(batch, (tuple, list)) and len(batch) in (2, 3):
            x, y, *weight = (part if part is None or hasattr(part, "dtype") else np.asarray(part) for part in batch)
            checks.real_numbers("y", y)
            return Batch(x, y, weight[0] if weight else None)
        raise TypeError(f"a batch is (x, y), (x, y, weight) or scax.Batch, got {type(batch).__name__}.")

    def check(self, dtype: Any) -> None:
        """Refuse shapes, dtypes and values that no step could use."""
        checks.features("x", self.x, dtype)
        n = np.shape(self.x)[0]
        checks.targets(self.y, n)
        if self.weight is not None:
            checks.weights(self.weight, n)

    def scaled(self) -> "Batch":
        """The same batch, its sample weights scaled where their sum would leave the range of float32."""
        known = None if self.weight is None else checks.concrete(self.weight)
        if known is None or known.size == 0 or 1e-30 < known.max() < 1e30:
            return self
        return dataclasses.replace(self, weight=known.astype(float) / known.max())

    @property
    def size(self) -> int:
        return self.x.shape[0]

    def shares(self, dtype: Any) -> Float[Array, "n"]:
        """Each sample's share of the average, Σ = 1: the one place where a batch is averaged."""
        if self.weight is None:
            return jnp.full(self.size, 1 / self.size, dtype)
        weight = jnp.asarray(self.weight, dtype)
        most = jnp.max(weight)
        weight = weight * jnp.where(most > 1e19, 1e-19, jnp.where(most < 1e-19, 1e19, 1))  # the sum stays in range
        total = jnp.sum(weight)
        return weight / jnp.where(total > 0, total, 1)

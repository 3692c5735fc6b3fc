"""Partitions of the weights into blocks that are solved side by side, the others fixed at w_n."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from . import checks
from ._struct import struct
from .layout import Layout
from .regularizers import GroupLasso, Regularizer


@struct
class Partition:
    """`index[c]` are the places in w of block c, padded to a common length; `mask` is 0 on padding."""

    index: Int[Array, "c b"]
    mask: Float[Array, "c b"]


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Split w in `count` blocks of nearly equal size.

    by="contiguous" cuts the flat vector, "layer" keeps every array of params whole, "neuron" keeps the weights that
    leave one neuron together, "random" deals the weights out with `seed`. Groups of a group lasso are never cut.
    """

    count: int
    by: str = "contiguous"
    seed: int = 0

    def __post_init__(self):
        if not isinstance(self.count, int) or self.count < 1:
            raise ValueError(f"blocks: count must be a whole number ≥ 1, got {self.count!r}.")
        checks.choice("by", self.by, ["contiguous", "layer", "neuron", "random"])

    def partition(self, layout: Layout, regularizer: Regularizer, dtype) -> Partition:
        units = self._units(layout, regularizer)
        if self.count > len(units):
            raise ValueError(
                f"blocks: count={self.count} blocks of whole units by={self.by!r}, but there are only "
                f"{len(units)} units: lower count."
            )
        if self.by == "random":
            order = np.random.default_rng(self.seed).permutation(len(units))
            units = [units[i] for i in order]
        ends = np.cumsum([len(u) for u in units])
        # cut where the running size passes each multiple of Q/C, leaving every block at least one unit
        cuts = [int(np.searchsorted(ends, ends[-1] * (c + 1) / self.count)) + 1 for c in range(self.count - 1)]
        for c in range(len(cuts)):
            cuts[c] = min(max(cuts[c], (cuts[c - 1] if c else 0) + 1), len(units) - (self.count - 1 - c))
        members = [np.concatenate(units[a:b]) for a, b in zip([0, *cuts], [*cuts, len(units)], strict=True)]
        longest = max(len(m) for m in members)
        index = np.zeros((self.count, longest), np.int32)
        mask = np.zeros((self.count, longest))
        for c, m in enumerate(members):
            index[c, : len(m)], mask[c, : len(m)] = m, 1
        return Partition(jnp.asarray(index), jnp.asarray(mask, dtype))

    def _units(self, layout: Layout, regularizer: Regularizer) -> list[np.ndarray]:
        """The smallest sets of weights that stay together."""
        from .regularizers.groups import neuron_groups

        parts = getattr(regularizer, "parts", (regularizer,))
        grouped = [p.groups.ids for p in parts if isinstance(p, GroupLasso)]
        if grouped:
            ids = checks.concrete(grouped[0])
            if ids is None:
                raise ValueError("blocks with a group lasso: call init outside jit, so that the groups are known.")
        elif self.by == "layer":
            ids = np.repeat(np.arange(len(layout.sizes)), layout.sizes)
        elif self.by == "neuron":
            ids = np.asarray(neuron_groups([np.zeros(s, np.float32) for s in layout.trained_shapes]).ids)
        else:
            ids = np.arange(layout.size)
        if len(ids) == int(ids.max()) + 1:
            return list(np.arange(len(ids))[np.argsort(ids, kind="stable")][:, None])
        return [np.flatnonzero(ids == i) for i in range(int(ids.max()) + 1)]


def scatter(values: Float[Array, "c b"], partition: Partition, size: int) -> Float[Array, "q"]:
    """Blocks' values back in their places in w."""
    flat = (values * partition.mask).reshape(math.prod(values.shape))
    return jnp.zeros(size, values.dtype).at[partition.index.reshape(-1)].add(flat)

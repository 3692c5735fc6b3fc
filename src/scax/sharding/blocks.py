"""Partitions of the weights into blocks that are solved side by side, the others fixed at w_n."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import checks
from .._struct import struct
from ..layout import Layout
from ..losses import StackedLoss
from ..regularizers import Regularizer
from ..solvers import Solution, Solver, join_blocks
from ..surrogate import AnySurrogate, LinearSurrogate, QuadraticSurrogate, Surrogate


@struct
class Partition:
    """`index[c]` are the places in w of block c, padded to a common length; `mask` is 0 on padding."""

    index: Int[Array, "c b"]
    mask: Float[Array, "c b"]
    unit: Int[Array, "q"] | None = None  # the unit of each weight, where units are dealt out anew at every step


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Split w in `count` blocks of nearly equal size, each solved with the others at w_n.

    by         "contiguous" cuts the flat vector, "layer" keeps every array of params whole, "neuron" keeps the weights
               that leave one neuron together, "random" deals single weights out. Groups of a group lasso are never cut.
    active     how many blocks move at each step, drawn at random; None: all
    redraw     deal the units (weights, neurons or layers) out to the blocks anew at every step
    own_batch  every block has a mini-batch of its own: the rows given are split evenly over the blocks that move
    overlap    σ: how often a block counts what it does to the outputs, (1/σ) Φ(z0 + σ J_c δ_c). 1, the paper: as if the
               others stood still; as many as move: as if they all did the same, and then, on rows that all of them see,
               they cannot overshoot: Φ(z0 + Σ_c J_c δ_c) ≤ 1/C Σ_c Φ(z0 + C J_c δ_c) by convexity. Many random blocks
               do best in between. With surrogate="full", where Φ is linear, it changes nothing.
    seed       of all that is drawn

    >>> sca = scax.SCA(problem, blocks=scax.Blocks(4, by="neuron"))
    """

    count: int
    by: str = "contiguous"
    active: int | None = None
    redraw: bool = False
    own_batch: bool = False
    overlap: float | np.integer | np.floating = 1.0
    seed: int = 0

    def __post_init__(self):
        if not isinstance(self.count, int) or self.count < 1:
            raise ValueError(f"blocks: count must be a whole number ≥ 1, got {self.count!r}.")
        checks.choice("by", self.by, ["contiguous", "layer", "neuron", "random"])
        if self.active is not None and not (isinstance(self.active, int) and 1 <= self.active <= self.count):
            raise ValueError(
                f"blocks: active must be None or a whole number from 1 to count={self.count}, got {self.active!r}."
            )
        numeric = isinstance(self.overlap, (int, float, np.integer, np.floating)) and not isinstance(self.overlap, bool)
        if not numeric or not 1 <= self.overlap < math.inf:
            raise ValueError(f"blocks: overlap must be a number ≥ 1, 1 as in the paper, got {self.overlap!r}.")
        object.__setattr__(self, "overlap", float(self.overlap))
        if self.redraw and self.by == "contiguous":
            raise ValueError(
                "blocks: redraw=True has nothing to draw with by='contiguous', whose blocks are fixed: use by='random',"
                " 'neuron' or 'layer'."
            )

    @property
    def moving(self) -> int:
        """How many blocks move at a step."""
        return self.count if self.active is None else self.active

    def partition(self, layout: Layout, regularizer: Regularizer, dtype) -> Partition:
        """The blocks a run starts with."""
        unit = self._units(layout, regularizer)
        sizes = np.bincount(unit)
        if self.count > len(sizes):
            raise ValueError(
                f"blocks: count={self.count} blocks of whole units by={self.by!r}, but there are only "
                f"{len(sizes)} units: lower count."
            )
        if self.redraw:
            longest = min(-(-len(unit) // self.count) + int(sizes.max()) - 1, len(unit))
            place = jnp.zeros((self.count, longest), jnp.int32)
            return self._dealt(Partition(place, place.astype(dtype), jnp.asarray(unit, jnp.int32)), jnp.asarray(0))
        units = np.split(np.argsort(unit, kind="stable"), np.cumsum(sizes)[:-1])
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

    def at(self, partition: Partition, n: Int[Array, ""]) -> Partition:
        """The blocks that move at step n."""
        if self.redraw:
            partition = self._dealt(partition, n)
        if self.active is None:
            return partition
        chosen = jax.random.choice(self._key(n, 1), self.count, (self.active,), replace=False)
        return Partition(partition.index[chosen], partition.mask[chosen])

    def own_rows(self, surrogate: Surrogate | LinearSurrogate) -> Int[Array, "c l"] | None:
        """The rows of every moving block's own mini-batch; None where all blocks see all rows."""
        if not self.own_batch or isinstance(surrogate, LinearSurrogate):
            return None
        rows = surrogate.datafit.y.shape[0]
        if surrogate.lin.outputs.shape[0] > rows:
            raise ValueError(
                "blocks: own_batch=True splits the batch, and neighbor pairs couple its rows: use one batch."
            )
        if rows % self.moving:
            raise ValueError(
                f"blocks: own_batch=True splits a batch of {rows} rows evenly over {self.moving} moving blocks: make "
                "the batch a multiple of their number."
            )
        if isinstance(surrogate.datafit.loss, StackedLoss):  # a share of every term's rows
            return jnp.arange(rows).reshape(-1, self.moving).T
        return jnp.arange(rows).reshape(self.moving, -1)

    def _dealt(self, partition: Partition, n: Int[Array, ""]) -> Partition:
        """The units in a random order; a block takes those that start in its Q/C places. It may end up empty."""
        unit, (count, longest) = partition.unit, partition.index.shape
        assert unit is not None
        sizes = jnp.bincount(unit, length=unit.shape[0])  # padded with zeros: the number of units is not static
        rank = jnp.argsort(jax.random.uniform(self._key(n, 0), unit.shape))  # of a unit in the new order
        ordered = jnp.zeros_like(sizes).at[rank].set(sizes)
        start = jnp.cumsum(ordered) - ordered
        weight = jnp.argsort(rank[unit], stable=True)  # the weights, unit by unit in the new order
        block = jnp.minimum(start // -(-unit.shape[0] // count), count - 1)[rank[unit[weight]]]
        place = jnp.arange(unit.shape[0]) - jnp.searchsorted(block, block)
        index = jnp.zeros((count, longest), jnp.int32).at[block, place].set(weight.astype(jnp.int32))
        mask = jnp.zeros((count, longest), partition.mask.dtype).at[block, place].set(1)
        return Partition(index, mask, unit)

    def _key(self, n: Int[Array, ""], use: int):
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), use), n)

    def _units(self, layout: Layout, regularizer: Regularizer) -> np.ndarray:
        """For every weight the number of its unit: the smallest sets of weights that stay together."""
        from ..regularizers.groups import neurons

        if self.by == "layer":
            ids = np.repeat(np.arange(len(layout.sizes)), layout.sizes)
        elif self.by == "neuron":
            ids, _ = neurons(layout.trained_shapes)
        else:
            ids = np.arange(layout.size)
        parts = getattr(regularizer, "parts", (regularizer,))
        grouped = [groups for part in parts if (groups := getattr(part, "groups", None)) is not None]
        if grouped:
            groups = checks.concrete(grouped[0].ids)
            if groups is None:
                raise ValueError("blocks with a group penalty: call init outside jit, so that the groups are known.")
            ids = _joined(ids, groups)
        return ids


def _joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The finest sets of weights that cut neither the sets of a nor those of b, numbered as they first occur."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = int(a.max()) + int(b.max()) + 2  # sets of a, then sets of b; a weight connects the two it is in
    links = coo_array((np.ones(len(a)), (a, b + int(a.max()) + 1)), (size, size))
    labels = connected_components(links, directed=False)[1][a]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def scatter(values: Float[Array, "c b"], partition: Partition, size: int) -> Float[Array, "q"]:
    """Blocks' values back in their places in w."""
    flat = (values * partition.mask).reshape(math.prod(values.shape))
    return jnp.zeros(size, values.dtype).at[partition.index.reshape(-1)].add(flat)


def solve_in_blocks(
    solver: Solver,
    surrogate: AnySurrogate,
    blocks: Blocks | None,
    partition: Partition | None,
    n: Int[Array, ""],
    devices: Any,
) -> Solution:
    """δ = ŵ − w_n; with blocks, each block's own δ_c with the others at w_n, all at once."""
    solve: Any = solver.solve  # each kind of surrogate has solvers of its own
    if blocks is None or partition is None:
        solution, center = solve(surrogate), getattr(surrogate, "center", None)
        return solution if center is None else dataclasses.replace(solution, delta=center + solution.delta)
    assert not isinstance(surrogate, QuadraticSurrogate)  # options refuse it
    moving = blocks.at(partition, n)

    def one(index, mask, rows):
        own = surrogate.on(rows) if isinstance(surrogate, Surrogate) and rows is not None else surrogate
        return solve(own.take(index, mask, float(blocks.overlap)))

    parts = devices.solve_blocks(jax.vmap(one), (moving.index, moving.mask, blocks.own_rows(surrogate)))
    return join_blocks(parts, scatter(parts.delta, moving, surrogate.w.shape[0]))

"""J D Jᵀ, where D is the derivative of a prox: the Gram matrix of the weights that are free to move."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..regularizers.derivative import ProxDerivative
from .base import Linearization, exact
from .structured import Layer, Structured

#: Active columns are gathered into an array with room for this share of all columns, the first that is large enough.
ROOM = (1 / 64, 1 / 8, 1 / 4, 3 / 8, 1 / 2)
#: Below this many columns they are all used, masked: gathering costs more than it saves.
FEW = 1024
#: Columns that are formed at a time: all of them at once would be J.
AT_ONCE = 8192


def active(lin: Linearization, d: ProxDerivative) -> "Active":
    """The products of a linearization with D between, everything that depends on D's structure alone done once."""
    if isinstance(lin, Structured) and Layered.serves(lin, d):
        return Layered(lin, d.uniform)
    return Columns(lin)


class Active:
    """J D Jᵀ for one linearization and many D."""

    def gram(self, d: ProxDerivative) -> Float[Array, "m m"]:
        """J D Jᵀ, sample and output in one index."""
        raise NotImplementedError


class Columns(Active):
    """J materialized."""

    def __init__(self, lin: Linearization):
        n, k = lin.outputs.shape
        self.rows = lin.jacobian().reshape(n * k, lin.size).T  # Jᵀ  [q, m]

    @exact
    def gram(self, d):
        gram = gathered(d.diagonal, lambda index: self.rows[index])
        if d.direction is not None and d.groups is not None:
            along = jax.ops.segment_sum(self.rows * d.direction[:, None], d.groups.ids, d.groups.count)  # Jn_p
            gram = gram + along.T @ along
        return gram


class Layered(Active):
    """Layer by layer, from inputs a and sensitivities g, J never being formed. A layer's share of J D Jᵀ is

        Σ_cf d_cf (a_ic a_jc)(g_if g_jf)  +  Σ_c (a_ic g_i·n_c)(a_jc g_j·n_c)

    the second sum for groups that are a layer's rows: the weights that leave input c. Where d is constant on rows, as
    of the group lasso alone, the first is (a_i d·a_j)(g_i·g_j); otherwise the columns that are not zero are gathered,
    of all layers at once. Parameters that are not factored have columns of their own, as everywhere.
    """

    def __init__(self, lin: Structured, uniform: bool):
        """`uniform`: every D that comes is constant on rows."""
        self.lin, self.parts = lin, []
        for leaf, (layer,) in lin.layers.items():
            g = layer.sensitivities[:, :, 0]  # [n, k, F]
            a = None if layer.inputs is None else jnp.repeat(layer.inputs[:, 0], g.shape[1], axis=0)  # [m, C]
            g = g.reshape(-1, g.shape[-1])  # [m, F]
            with jax.default_matmul_precision("highest"):
                self.parts.append((leaf, layer.use, a, g, g @ g.T))
        self.own, start = [], 0
        for leaf in lin.plan.columns:
            size = lin.plan.sizes[leaf]
            assert lin.columns is not None
            block = lin.columns.matrix[..., start : start + size].reshape(-1, size)
            self.own.append((leaf, lin.leaves[leaf].shape, block))
            start += size
        self.columns = None if uniform else self._tables()

    @staticmethod
    def serves(lin: Structured, d: ProxDerivative) -> bool:
        """Every factored parameter is met once per sample, and groups are rows of its matrix."""
        if any(len(uses) > 1 or uses[0].use.positions > 1 for uses in lin.layers.values()):
            return False
        if d.groups is None:
            return True
        axes = d.groups.axes
        if axes is None or len(axes) != len(lin.leaves):
            return False
        return all(_are_rows(uses[0], axes[leaf], lin.leaves[leaf].shape) for leaf, uses in lin.layers.items())

    @exact
    def gram(self, d):
        split = self.lin.network.split
        diagonal = split(d.diagonal)
        direction = [None] * len(diagonal) if d.direction is None else split(d.direction)
        shares = [] if d.uniform else [self._gathered(d.diagonal)]
        for leaf, use, a, g, gg in self.parts:
            weight = use.arrange(diagonal[leaf])  # [C, F]
            lean = None if direction[leaf] is None else use.arrange(direction[leaf])
            if d.uniform:
                shares.append((g * weight[0]) @ g.T if a is None else ((a * weight[:, 0]) @ a.T) * gg)
            if lean is not None:
                along = g * lean[0] if a is None else a * (g @ lean.T)  # a_ic g_i·n_c  [m, C]; a bias: [m, F]
                shares.append(along @ along.T)
        for leaf, shape, block in self.own:
            if d.uniform:
                shares.append((block * diagonal[leaf].reshape(-1)) @ block.T)
            if direction[leaf] is not None and d.groups is not None and d.groups.axes is not None:
                axis = d.groups.axes[leaf]
                along = (block * direction[leaf].reshape(-1)).reshape(-1, *shape)
                if axis is not None:  # summed over all other axes
                    along = jnp.moveaxis(along, axis + 1, 1).reshape(block.shape[0], shape[axis], -1).sum(2)
                along = along.reshape(block.shape[0], -1)
                shares.append(along @ along.T)
        return sum(shares[1:], start=shares[0])

    def _gathered(self, weight: Float[Array, "q"]) -> Float[Array, "m m"]:
        """Σ_q weight_q c_q c_qᵀ: column q is a row of `left` times a row of `right`."""
        assert self.columns is not None
        left, right, which, where = self.columns
        n, k = self.lin.outputs.shape
        whole = lambda: self.lin.gram().reshape(n * k, n * k)
        return gathered(weight, lambda index: left[which[index]] * right[where[index]], whole)

    def _tables(self) -> tuple[Array, ...]:
        """(left, right, which row of left, which of right) for all weights; biases and own columns: 1 on the left."""
        (n, k), dtype = self.lin.outputs.shape, self.lin.outputs.dtype
        blocks = {leaf: block for leaf, _, block in self.own}
        layers = {leaf: (use, a, g) for leaf, use, a, g, _ in self.parts}
        left, right, which, where = [jnp.ones((1, n * k), dtype)], [], [], []
        tall, wide = 1, 0  # rows of the tables so far
        for leaf, size in enumerate(self.lin.plan.sizes):
            if leaf in blocks:
                which.append(jnp.zeros(size, jnp.int32))
                where.append(wide + jnp.arange(size, dtype=jnp.int32))
                right.append(blocks[leaf].T)
            else:
                use, a, g = layers[leaf]
                like = jax.ShapeDtypeStruct(self.lin.leaves[leaf].shape, jnp.float32)
                back, out = jax.linear_transpose(use.arrange, like), jax.eval_shape(use.arrange, like).dtype
                grid = jnp.indices((1 if a is None else a.shape[1], g.shape[1]), out)
                row, column = (jnp.ravel(back(part)[0]).astype(jnp.int32) for part in grid)
                which.append(row if a is None else tall + row)
                where.append(wide + column)
                right.append(g.T)
                if a is not None:
                    left.append(a.T)
                    tall += a.shape[1]
            wide += right[-1].shape[0]
        return tuple(jnp.concatenate(parts) for parts in (left, right, which, where))


def root(d: ProxDerivative, rows: Float[Array, "q *m"]) -> Float[Array, "q *m"]:
    """D^½ times a vector, or each column of a matrix.

    On the support of a group's direction n the diagonal is one number κ, so that there
    D^½ = √κ I + (√(κ + ‖n‖²) − √κ) nnᵀ/‖n‖².
    """
    over = lambda v: v.reshape(v.shape[0], *(1 for _ in rows.shape[1:]))
    scaled = rows * over(jnp.sqrt(d.diagonal))
    if d.direction is None or d.groups is None:
        return scaled
    groups, n = d.groups, d.direction
    size = groups.norms(n)
    unit = n / groups.each(jnp.where(size > 0, size, 1))
    along = jax.ops.segment_sum(rows * over(unit), groups.ids, groups.count)
    kappa = jnp.sqrt(jax.ops.segment_max(jnp.where(n == 0, 0, d.diagonal), groups.ids, groups.count))
    stretch = jnp.sqrt(kappa**2 + size**2) - kappa
    return scaled + groups.each(along) * over(groups.each(stretch) * unit)


def gathered(
    weight: Float[Array, "q"],
    columns: Callable[[Any], Float[Array, "r m"]],
    whole: Callable[[], Float[Array, "m m"]] | None = None,
) -> Float[Array, "m m"]:
    """Σ_i weight_i c_i c_iᵀ over the columns with weight not zero, `columns(index)` giving some of them as rows.

    Shapes are fixed when a program is compiled, so there are a few programs: for few active columns, for many, and,
    where `whole` gives Σ_i c_i c_iᵀ cheaply, for few that are not fully active, which are subtracted from it.
    """
    size = weight.shape[0]

    def some(room: int, weight):
        index, there = _first(weight, room)
        return _products(columns, index, jnp.where(there, weight[index], 0))

    def every():
        index = slice(None) if size <= AT_ONCE else jnp.arange(size, dtype=jnp.int32)
        return _products(columns, index, weight)

    if size < FEW:
        return every()
    rooms = [int(size * share) for share in ROOM]
    branches = [lambda room=room: some(room, weight) for room in rooms]
    which = sum(jnp.asarray(jnp.count_nonzero(weight) > room, jnp.int32) for room in rooms)
    if whole is not None:
        branches += [lambda room=room, whole=whole: whole() - some(room, 1 - weight) for room in rooms]
        missing = sum(jnp.asarray(jnp.count_nonzero(1 - weight) > room, jnp.int32) for room in rooms)
        which = jnp.where(which < len(rooms), which, len(rooms) + missing)
    return jax.lax.switch(which, [*branches, every])


def _products(
    columns: Callable[[Any], Float[Array, "r m"]], index: Int[Array, "r"] | slice, weight: Float[Array, "r"]
) -> Float[Array, "m m"]:
    """Σ weight c cᵀ over the columns of `index`, some thousands of them at a time."""

    def part(index, weight):
        rows = columns(index)
        return (rows * weight[:, None]).T @ rows

    if isinstance(index, slice) or index.shape[0] <= AT_ONCE:
        return part(index, weight)
    index, weight = (jnp.pad(a, (0, -a.shape[0] % AT_ONCE)).reshape(-1, AT_ONCE) for a in (index, weight))
    zero = jnp.zeros_like(part(index[0], weight[0]))
    return jax.lax.scan(lambda total, given: (total + part(*given), None), zero, (index, weight))[0]


def _first(weight: Float[Array, "q"], room: int) -> tuple[Int[Array, "r"], Bool[Array, "r"]]:
    """The places of up to `room` entries that are not zero, and which of them are: the faster way for either size."""
    size, there = weight.shape[0], weight != 0
    if 64 * room <= size:
        index = jax.lax.top_k(there.astype(jnp.float32), room)[1]
        return index, there[index]
    # counts of those before, in rows of 64 by one product (a running sum is slow), and then each to its place
    rows = jnp.pad(there.astype(jnp.float32), (0, -size % 64)).reshape(-1, 64)
    within = rows @ jnp.triu(jnp.ones((64, 64), jnp.float32))
    total = within[:, -1].astype(jnp.int32)
    before = jnp.cumsum(total) - total
    place = (within.astype(jnp.int32) + before[:, None]).reshape(-1)[:size] - 1
    index = (
        jnp.zeros(room, jnp.int32).at[jnp.where(there, place, room)].set(jnp.arange(size, dtype=jnp.int32), mode="drop")
    )
    return index, jnp.arange(room) < jnp.sum(total)


def _are_rows(layer: Layer, axis: int | None, shape: tuple[int, ...]) -> bool:
    """Whether groups counted along an axis of a parameter are the rows of its layer's matrix (a bias: its entries)."""
    if layer.use.additive:
        return axis is None or shape[axis] == np.prod(shape)
    if axis is None:
        return False
    with jax.ensure_compile_time_eval():
        count = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        seen = np.asarray(layer.use.arrange(jnp.asarray(np.broadcast_to(count, shape), layer.use.out_dtype)))
    return bool(np.all(seen == seen[:, :1]) and len(np.unique(seen[:, 0])) == len(seen))

"""The linearized network of a batch that devices share: each passes its own rows through the network, none forms J.

    f, a, g  of a device's own rows: outputs, layer inputs, sensitivities    → all-gather
    JJᵀ      its own rows, Σ_layers (a_i · a_j)(g_i · g_j) ⎫
    Jh       J_c h_c of its own columns c                  ⎭                 → all-reduce
    h/μ+Jᵀu  its own columns                                                 → all-gather

Columns are shares of a layer's weights [C, F], cut along C, or along F where C is short. Parameters that keep a
materialized Jacobian send it once from own rows to own columns (all-to-all), and contribute J_c J_cᵀ. All of this is
inside `shard_map`: outputs and vectors are whole on every device.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..linearize import Dense, Directions, Linearization, MatrixFree, Passes, Structured
from ..linearize.base import exact
from ..linearize.network import NetworkFunction
from ..linearize.structured import Layer, added, cross_gram


class Shared(Linearization):
    """The same J as one device would have, to rounding. `gram_and_jvp` and `vjp` are one message each."""

    def __init__(self, own: Structured | Dense, n: int, axis: str, units: int):
        """n rows, of which `own` are this device's."""
        self.own, self.axis, self.unit, self.size = own, axis, (jax.lax.axis_index(axis), units), own.size
        layers, leaves = (own.layers, own.leaves) if isinstance(own, Structured) else ({}, ())
        met = [a for uses in layers.values() for use in uses for a in (use.inputs, use.sensitivities) if a is not None]
        rest = own if isinstance(own, Dense) else own.columns
        few = [] if rest is None or rest.size > FEW else [rest.matrix]
        whole = gather_rows([own.outputs, own.row_squares(), *met, *few], axis, n)
        self.outputs, self._row_squares = whole[:2]
        at = {id(a): b for a, b in zip([*met, *few], whole[2:], strict=True)}
        self.layers = {
            leaf: [
                Layer(use.use, None if use.inputs is None else at[id(use.inputs)], at[id(use.sensitivities)])
                for use in uses
            ]
            for leaf, uses in layers.items()
        }
        self.parts: dict[int, _Cut | _Tied] = {
            leaf: (_Cut(uses[0], leaves[leaf], self.unit) if len(uses) == 1 else _Tied(uses, leaves[leaf], self.unit))
            for leaf, uses in self.layers.items()
        }
        self.rest = None
        if rest is not None:
            columns = _own(whole[-1], 2, self.unit) if few else to_columns(rest.matrix, axis, units)[:n]
            self.rest = _Columns(columns, rest.size, self.unit)
        self._held = [*self.parts.values(), *([] if self.rest is None else [self.rest])]

    @exact
    def gram_and_jvp(self, delta, more=None):
        n, k = self.outputs.shape
        number, units = self.unit
        width = math.ceil(n / units)
        gram = jnp.zeros((width * units, k, n, k), self.outputs.dtype)
        if isinstance(self.own, Structured) and self.layers:
            relations = self.own.plan.relations
            rows = added(
                [
                    cross_gram(a, b, relations[a.use.path, b.use.path])
                    for leaf, uses in self.own.layers.items()
                    for a in uses
                    for b in self.layers[leaf]
                ]
            )
            gram = jax.lax.dynamic_update_slice_in_dim(gram, rows, number * width, 0)
        gram = gram[:n]
        if self.rest is not None:
            gram = gram + self.rest.dense.gram()
        every = [self._own_jvp(delta)[None], *([] if more is None else [jax.vmap(self._own_jvp)(more)])]
        total = jax.lax.psum(jnp.concatenate([gram.reshape(-1), *(part.reshape(-1) for part in every)]), self.axis)
        rows = total[(n * k) ** 2 :].reshape(-1, n, k)
        return total[: (n * k) ** 2].reshape(n, k, n, k), rows[0], None if more is None else rows[1:]

    def _own_jvp(self, delta: Float[Array, "q"]) -> Float[Array, "n k"]:
        """J_c δ_c. By columns rather than rows: few products with many rows each, and a share of δ is all it reads."""
        return added([part.jvp(own) for part, own in zip(self._held, self._split(delta), strict=True)])

    def _split(self, vector: Float[Array, "q"]) -> list[Array]:
        """This device's share of a vector, part by part."""
        if not isinstance(self.own, Structured):
            whole = [vector]
        else:
            leaves = self.own.network.split(vector)
            whole = [leaves[i] for i in self.parts]
            if self.rest is not None:
                whole.append(jnp.concatenate([jnp.ravel(leaves[i]) for i in self.own.plan.columns]))
        return [part.share(leaf) for part, leaf in zip(self._held, whole, strict=True)]

    def gram(self):
        return self.gram_and_jvp(jnp.zeros(self.size, self.outputs.dtype))[0]

    @exact
    def jvp(self, delta):
        return jax.lax.psum(self._own_jvp(delta), self.axis)

    @exact
    def vjp(self, v):
        return self._joined([part.vjp(v).reshape(-1) for part in self._held])

    @exact
    def add_vjp(self, h, v):
        pairs = zip(self._held, self._split(h), strict=True)
        return self._joined([part.vjp(v).reshape(-1) + own.reshape(-1) for part, own in pairs])

    @exact
    def vjp_norm_squared(self, v):
        return jax.lax.psum(added([jnp.sum(part.vjp(v) ** 2) for part in self._held]), self.axis)

    def _joined(self, own: list[Array]) -> Float[Array, "q"]:
        """The whole vector from all devices' shares."""
        every = jax.lax.all_gather(jnp.concatenate(own), self.axis)  # [units, Q/units and padding]
        whole, start = [], 0
        for part, piece in zip(self._held, own, strict=True):
            whole.append(part.join(every[:, start : start + piece.size]))
            start += piece.size
        if not isinstance(self.own, Structured):
            return whole[0]
        layered = {i: jnp.ravel(leaf) for i, leaf in zip(self.parts, whole, strict=False)}
        return self.own._join(layered, None if self.rest is None else whole[-1])

    def row_squares(self):
        return self._row_squares


class SharedPasses(Linearization):
    """f of all rows, Jδ and Jᵀv, each device passing its own rows forward and backward."""

    def __init__(self, own: Linearization, n: int, axis: str, units: int):
        self.own, self.axis, self.unit, self.size = own, axis, (jax.lax.axis_index(axis), units), own.size
        self.outputs = gather_rows([own.outputs], axis, n)[0]

    def jvp(self, delta):
        return gather_rows([self.own.jvp(delta)], self.axis, self.outputs.shape[0])[0]

    def vjp(self, v):
        return jax.lax.psum(self.own.vjp(_own(v, 0, self.unit)), self.axis)


def share(network: NetworkFunction, w: Float[Array, "q"], x: Any, form: str, axis: str, units: int) -> Shared:
    """f and J on all rows, each device having passed its own."""
    n, mine = jax.tree.leaves(x)[0].shape[0], own_rows(x, axis, units)
    own = Structured.of(network, w, mine, n) if form == "structured" else Dense.of(network, w, mine)
    return Shared(own, n, axis, units)


def share_along(
    network: NetworkFunction,
    w: Float[Array, "q"],
    x: Any,
    form: str,
    directions: Callable,
    r: int,
    axis: str,
    units: int,
) -> tuple[SharedPasses, Shared]:
    """(f and products with J, the rows C_iJ_i) on all rows, C = directions(f)."""
    n, mine = jax.tree.leaves(x)[0].shape[0], own_rows(x, axis, units)
    own = Passes(network, w, mine, n, r) if form == "structured" else MatrixFree(network, w, mine)
    whole = SharedPasses(own, n, axis, units)
    c = own_rows(directions(whole.outputs), axis, units)
    if isinstance(own, Passes):
        return whole, Shared(own.along(c), n, axis, units)
    dense = Dense.of(Directions.of(network), w, (mine, c))
    return whole, Shared(Dense(jnp.zeros_like(dense.outputs), dense.matrix), n, axis, units)


#: Columns of a materialized Jacobian up to which all devices get all of them, which saves a message.
FEW = 512


def own_rows(x: Any, axis: str, units: int) -> Any:
    """This device's share of the rows; the last ones are filled up with the first row again."""

    def own(x):
        width = math.ceil(x.shape[0] / units)
        filled = jnp.concatenate([x, jnp.repeat(x[:1], width * units - x.shape[0], axis=0)])
        return jax.lax.dynamic_slice_in_dim(filled, jax.lax.axis_index(axis) * width, width)

    return jax.tree.map(own, x)


def gather_rows(parts: list[Array], axis: str, n: int) -> list[Array]:
    """All n rows of arrays of which every device has its own, in one message; what is listed twice goes once."""
    once = list({id(part): part for part in parts}.values())
    every = jax.lax.all_gather(jnp.concatenate([p.reshape(p.shape[0], -1) for p in once], axis=1), axis, tiled=True)
    at, start = {}, 0
    for part in once:
        width = math.prod(part.shape[1:])
        at[id(part)] = every[:n, start : start + width].reshape(n, *part.shape[1:])
        start += width
    return [at[id(part)] for part in parts]


def to_columns(rows: Float[Array, "own k q"], axis: str, units: int) -> Float[Array, "n k own_q"]:
    """From own rows, all columns, to all rows, own columns."""
    filled = jnp.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % units)))
    return jax.lax.all_to_all(filled, axis, split_axis=2, concat_axis=0, tiled=True)


class _Cut:
    """One layer on all rows, its weights [C, F] cut along a side: along C shares lie one behind the other in memory."""

    def __init__(self, layer: Layer, leaf: Array, unit):
        self.use, self.leaf, self.unit = layer.use, leaf, unit
        self.shape = jax.eval_shape(layer.use.arrange, leaf).shape
        long = self.shape[0] >= min(self.shape[1], 8 * unit[1])
        self.side = 0 if layer.inputs is not None and long else 1
        inputs, sensitivities = layer.inputs, layer.sensitivities
        if self.side == 0:
            inputs = _own(inputs, 2, unit)
        else:
            sensitivities = _own(sensitivities, 3, unit)
        self.layer = Layer(layer.use, inputs, sensitivities)

    def share(self, leaf: Array) -> Array:
        return _own(self.use.arrange(leaf), self.side, self.unit)

    def jvp(self, own: Array) -> Float[Array, "n k"]:
        return self.layer.of_matrix(own)

    def vjp(self, v: Float[Array, "n k"]) -> Array:
        return self.layer.matrix(v)

    def join(self, every: Float[Array, "units own"]) -> Array:
        units = every.shape[0]
        if self.side == 0:
            matrix = every.reshape(-1, self.shape[1])[: self.shape[0]]
        else:
            matrix = jnp.moveaxis(every.reshape(units, self.shape[0], -1), 0, 1)
            matrix = matrix.reshape(self.shape[0], -1)[:, : self.shape[1]]
        return jax.linear_transpose(self.use.arrange, self.leaf)(matrix)[0]


class _Tied:
    """A parameter used in several places: each device finds all of it, and keeps a share."""

    def __init__(self, uses: list[Layer], leaf: Array, unit):
        self.uses, self.leaf, self.unit = uses, leaf, unit

    def share(self, leaf: Array) -> Array:
        return _own(jnp.ravel(leaf), 0, self.unit)

    def jvp(self, own: Array) -> Float[Array, "n k"]:
        size, (number, units) = self.leaf.size, self.unit
        apart = jax.lax.dynamic_update_slice_in_dim(jnp.zeros(own.size * units, own.dtype), own, number * own.size, 0)
        alone = apart[:size].reshape(self.leaf.shape)  # zero where other devices have their shares
        return added([layer.jvp(alone) for layer in self.uses])

    def vjp(self, v: Float[Array, "n k"]) -> Array:
        return _own(jnp.ravel(added([layer.vjp(v, self.leaf) for layer in self.uses])), 0, self.unit)

    def join(self, every: Float[Array, "units own"]) -> Array:
        return every.reshape(-1)[: self.leaf.size].reshape(self.leaf.shape)


class _Columns:
    """Own columns of a materialized Jacobian, which has `size` of them."""

    def __init__(self, columns: Float[Array, "n k own"], size: int, unit):
        self.size, self.unit, self.dense = size, unit, Dense(columns[:, :, 0], columns)

    def share(self, vector: Float[Array, "q"]) -> Array:
        return _own(vector, 0, self.unit)

    def jvp(self, own: Array) -> Float[Array, "n k"]:
        return self.dense.jvp(own)

    def vjp(self, v: Float[Array, "n k"]) -> Array:
        return self.dense.vjp(v)

    def join(self, every: Float[Array, "units own"]) -> Array:
        return every.reshape(-1)[: self.size]


def _own(array: Any, axis: int, unit) -> Array:
    """This device's share of an axis, the last one padded with zeros."""
    number, units = unit
    width = math.ceil(array.shape[axis] / units)
    pad = [(0, 0)] * array.ndim
    pad[axis] = (0, width * units - array.shape[axis])
    return jax.lax.dynamic_slice_in_dim(jnp.pad(array, pad), number * width, width, axis)

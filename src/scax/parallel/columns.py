"""J by columns, one share per device: JJᵀ = Σ_c J_c J_cᵀ is one all-reduce, and every device finds its own δ_c.

A dense layer's weights [C, F] are cut along the longer of their sides. With inputs a and sensitivities g cut likewise,

    J_c J_cᵀ = (a_c a_cᵀ) ∘ (g gᵀ)   or   (a aᵀ) ∘ (g_c g_cᵀ)

so no device forms J. Parameters that keep a materialized Jacobian are cut by columns.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..linearize import Dense, Linearization, Paired, Structured
from ..linearize.base import exact
from ..linearize.structured import Layer, _total, cross_gram


class Columns(Linearization):
    """A linearization inside `shard_map`: outputs and vectors are whole on every device, products are shared work.

    `gram_and_jvp` is one all-reduce of (nk)² + nk numbers, `vjp` one all-gather of Q.
    """

    def __init__(self, base: Structured | Dense, axis: str, units: int):
        self.base, self.axis = base, axis
        self.outputs, self.size = base.outputs, base.size
        unit = (jax.lax.axis_index(axis), units)
        self.parts: dict[int, Any] = {}
        if isinstance(base, Dense):
            self.split, self.columns, rest = lambda vector: [vector], [0], base
        else:
            self.split, self.columns, rest = base.network.split, base.plan.columns, base.columns
            for leaf, uses in base.layers.items():
                tied = len(uses) > 1
                held = base.leaves[leaf]
                self.parts[leaf] = _Tied(uses, base.plan.relations, held, unit) if tied else _Cut(uses[0], held, unit)
        self.rest = None if rest is None else _Slice(rest.matrix, unit)

    @staticmethod
    def of(lin: Linearization, axis: str, units: int) -> Linearization:
        """The shared form of a linearization that knows its Gram matrix."""
        if isinstance(lin, Paired):
            return lin.over(Columns.of(lin.base, axis, units))
        assert isinstance(lin, (Structured, Dense))
        return Columns(lin, axis, units)

    @exact
    def gram_and_jvp(self, delta):
        leaves = self.split(delta)
        gram = [part.gram() for part in self.parts.values()]
        rows = [part.jvp(leaves[leaf]) for leaf, part in self.parts.items()]
        if self.rest is not None:
            gram.append(self.rest.gram())
            rows.append(self.rest.jvp(self._rest_of(leaves)))
        n, k = self.outputs.shape
        own = jnp.concatenate([_total(gram).reshape(-1), _total(rows).reshape(-1)])
        total = jax.lax.psum(own, self.axis)
        return total[: (n * k) ** 2].reshape(n, k, n, k), total[(n * k) ** 2 :].reshape(n, k)

    def gram(self):
        return self.gram_and_jvp(jnp.zeros(self.size, self.outputs.dtype))[0]

    def jvp(self, delta):
        return self.base.jvp(delta)

    @exact
    def vjp(self, v):
        held = [*self.parts.values(), *([] if self.rest is None else [self.rest])]
        own = [part.vjp(v).reshape(-1) for part in held]
        every = jax.lax.all_gather(jnp.concatenate(own), self.axis)  # [units, Q/units and padding]
        whole, start = [], 0
        for part, piece in zip(held, own, strict=True):
            whole.append(part.join(every[:, start : start + piece.size]))
            start += piece.size
        layered = dict(zip(self.parts, whole, strict=False))
        rest = None if self.rest is None else whole[-1]
        return rest if isinstance(self.base, Dense) else self.base._join(layered, rest)

    def _rest_of(self, leaves):
        return jnp.concatenate([jnp.ravel(leaves[i]) for i in self.columns])


class _Cut:
    """One layer, its weights [C, F] cut along the longer side."""

    def __init__(self, layer: Layer, leaf: Array, unit):
        self.use, self.leaf, self.unit = layer.use, leaf, unit
        self.shape = jax.eval_shape(layer.use.arrange, leaf).shape
        self.side = 0 if layer.inputs is not None and self.shape[0] >= self.shape[1] else 1
        inputs, sensitivities = layer.inputs, layer.sensitivities
        if self.side == 0:
            inputs = _own(inputs, 2, unit)
        else:
            sensitivities = _own(sensitivities, 3, unit)
        self.layer = Layer(layer.use, inputs, sensitivities)

    def gram(self) -> Float[Array, "n k n k"]:
        return cross_gram(self.layer, self.layer, "same")

    def jvp(self, leaf: Array) -> Float[Array, "n k"]:
        return self.layer.of_matrix(_own(self.use.arrange(leaf), self.side, self.unit))

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
    """A parameter used in several places: each device finds all of it, and contributes an equal share."""

    def __init__(self, uses: list[Layer], relations: Any, leaf: Array, unit):
        self.uses, self.relations, self.leaf, self.unit = uses, relations, leaf, unit

    def gram(self) -> Float[Array, "n k n k"]:
        pairs = [cross_gram(a, b, self.relations[a.use.path, b.use.path]) for a in self.uses for b in self.uses]
        return _total(pairs) / self.unit[1]

    def jvp(self, leaf: Array) -> Float[Array, "n k"]:
        return _total([layer.jvp(leaf) for layer in self.uses]) / self.unit[1]

    def vjp(self, v: Float[Array, "n k"]) -> Array:
        return _own(jnp.ravel(_total([layer.vjp(v, self.leaf) for layer in self.uses])), 0, self.unit)

    def join(self, every: Float[Array, "units own"]) -> Array:
        return every.reshape(-1)[: self.leaf.size].reshape(self.leaf.shape)


class _Slice:
    """Columns of a materialized Jacobian."""

    def __init__(self, matrix: Float[Array, "n k q"], unit):
        self.size = matrix.shape[2]
        own = _own(matrix, 2, unit)
        self.dense, self.unit = Dense(own[:, :, 0], own), unit

    def gram(self) -> Float[Array, "n k n k"]:
        return self.dense.gram()

    def jvp(self, vector: Float[Array, "q"]) -> Float[Array, "n k"]:
        return self.dense.jvp(_own(vector, 0, self.unit))

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

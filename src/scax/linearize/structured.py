"""JJᵀ, Jδ and Jᵀv from layer inputs and sensitivities, without J.

For a dense layer with input a_i and sensitivity g_i = ∂f(x_i)/∂(layer output), row i of J is the outer product
a_i ⊗ g_i, so that its share of the Gram matrix is

    (a_i · a_j)(g_i · g_j),        J h → g_iᵀ(Hᵀa_i),        Jᵀv → Σ_i v_i a_i ⊗ g_i

With several outputs g_i has one row per output; where one sample meets the layer at several positions p (scan steps,
sequence places, pixels) sums run over p, and over pairs (p, q) in the Gram matrix. Where pairs are dear, Σ_p a_p ⊗ g_p
is materialized: columns of J. One pass forward and one backward give all of it. Parameters that are not factored (see
`walk`) keep columns of their own by backward passes to them.

Along directions C_i [r, K] of the outputs in place of all of them, the same is said of the rows C_iJ_i: r backward
passes.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import Linearization, exact, side_by_side
from .dense import Dense
from .network import NetworkFunction
from .walk import Convolution, Path, Use, evaluate, find_uses, multiply_adds, same_matrix

#: Writing a number to memory and reading it again costs about as much as this many multiply-adds.
WRITE = 32


@dataclasses.dataclass(frozen=True)
class Plan:
    """How the Jacobian of each parameter is held, decided from shapes alone: by layers or by columns."""

    jaxpr: Any
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    uses: dict[int, list[Use]]  # parameters that are factored
    layers: tuple[int, ...]  # those held by layers
    relations: dict[tuple[Path, Path], str]  # how two uses of one of them see it

    @property
    def columns(self) -> list[int]:
        """Parameters that keep columns of their own."""
        return [i for i in range(len(self.sizes)) if i not in self.layers]

    @property
    def unread(self) -> list[int]:
        """Those of them that only a backward pass knows."""
        return [i for i in range(len(self.sizes)) if i not in self.uses]

    @property
    def one_pass(self) -> float:
        """Multiply-adds of one sample's way through the network: each weight as often as it is met."""
        return max(multiply_adds(self.jaxpr.jaxpr), sum(self.sizes))

    @staticmethod
    def of(network: NetworkFunction, leaves: tuple, row: Any, rows: int, directions: int | None = None) -> "Plan":
        """Read the network for one sample, and hold each parameter the way that costs least for `rows` samples, seen
        along so many directions, or with all outputs."""
        jaxpr, shape = jax.make_jaxpr(network.of_one, return_shape=True)(leaves, row)
        uses, layers, relations = find_uses(jaxpr.jaxpr, len(leaves)), [], {}
        outputs = shape.shape[0] if directions is None else directions
        for leaf, found in uses.items():
            pairs = {
                (a.path, b.path): same_matrix(a.arrange, b.arrange, leaves[leaf].shape) if a is not b else "same"
                for a in found
                for b in found
            }
            dear = _columns_cost(found, rows, outputs) < _layer_cost(found, rows, outputs)
            if None not in pairs.values() and not dear:
                layers.append(leaf)
                relations.update(pairs)
        sizes = tuple(math.prod(x.shape) for x in leaves)
        return Plan(jaxpr, network.names, sizes, uses, tuple(layers), relations)

    def cost(self, n: int, k: int) -> tuple[float, float]:
        """(multiply-adds of the Gram matrix, J h and Jᵀ u; numbers in the largest array)."""
        work, largest = 0.0, 0.0
        for leaf in self.layers:
            positions = sum(u.positions for u in self.uses[leaf])
            work += _layer_cost(self.uses[leaf], n, k)
            largest = max(largest, (n * k * positions) ** 2 if positions > 1 else 0)
        own = sum(self.sizes[i] for i in self.columns)
        return work + own * n * k * (n * k + 3 + WRITE), max(largest, own * n * k)

    def describe(self, rows: int, outputs: int) -> list[str]:
        """One line per parameter, for people."""
        lines = []
        for i, (name, size) in enumerate(zip(self.names, self.sizes, strict=True)):
            if i in self.layers:
                met = ", ".join(
                    ("bias" if u.additive else f"layer {u.inputs}→{u.outputs}")
                    + (f" at {u.positions} positions" if u.positions > 1 else "")
                    for u in self.uses[i]
                )
                lines.append(f"{name}: {size} weights, {met}" + (" (tied)" if len(self.uses[i]) > 1 else ""))
            else:
                how = " from patches" if any(isinstance(u, Convolution) for u in self.uses.get(i, ())) else ""
                lines.append(f"{name}: {size} weights, own columns{how} ({rows * outputs}×{size} numbers)")
        return lines


def _layer_cost(uses: list[Use], n: int, k: int) -> float:
    """Multiply-adds of a parameter's share of one step, held by layers."""
    p, c, f = sum(u.positions for u in uses), uses[0].inputs, uses[0].outputs
    m = n * k
    gram = (n * p) ** 2 * c + (m * p) ** 2 * (f + (p > 1))
    return gram + 2 * (n * p * c * f + m * p * f)


def _columns_cost(uses: list[Use], n: int, k: int) -> float:
    """The same, held as an [n, k, C·F] array."""
    p, c, f = sum(u.positions for u in uses), uses[0].inputs, uses[0].outputs
    m = n * k
    return m * p * c * f + m * m * c * f + (2 + WRITE) * m * c * f


@dataclasses.dataclass(frozen=True)
class Layer:
    """One use of a factored parameter: its inputs a [n, P, C] (None for a bias: 1) and sensitivities g [n, k, P, F]."""

    use: Use
    inputs: Float[Array, "n p c"] | None
    sensitivities: Float[Array, "n k p f"]

    def jvp(self, leaf: Array) -> Float[Array, "n k"]:
        """g · (aᵀH)."""
        return self.of_matrix(self.use.arrange(leaf))

    def of_matrix(self, matrix: Array) -> Float[Array, "n k"]:
        """The same for weights laid out as [C, F]."""
        if self.inputs is None:
            return jnp.einsum("f,nkpf->nk", matrix[0], self.sensitivities)
        return jnp.einsum("npf,nkpf->nk", self.inputs @ matrix, self.sensitivities)

    def vjp(self, v: Float[Array, "n k"], leaf: Array) -> Array:
        """Σ v a ⊗ g, in the parameter's own shape."""
        return jax.linear_transpose(self.use.arrange, leaf)(self.matrix(v))[0]

    def matrix(self, v: Float[Array, "n k"]) -> Array:
        """The same laid out as [C, F]."""
        weighted = jnp.einsum("nk,nkpf->npf", v, self.sensitivities)
        weighted = weighted.reshape(-1, weighted.shape[-1])
        if self.inputs is None:
            return jnp.sum(weighted, axis=0, keepdims=True)
        return self.inputs.reshape(weighted.shape[0], -1).T @ weighted  # [C, F]

    def rows(self, leaf: Array) -> Float[Array, "n k size"]:
        """Σ_p a ⊗ g for every row, in the parameter's own order: its columns of J."""
        if self.inputs is None:
            each = jnp.sum(self.sensitivities, axis=2)[:, :, None]
        else:
            each = jnp.einsum("npc,nkpf->nkcf", self.inputs, self.sensitivities)
        back = jax.vmap(jax.vmap(jax.linear_transpose(self.use.arrange, leaf)))(each)[0]
        return back.reshape(*back.shape[:2], -1)

    def row_squares(self) -> Float[Array, "n k"]:
        """Σ_{p,q} (a_p · a_q)(g_p · g_q) for every row."""
        right = jnp.einsum("nkpf,nkqf->nkpq", self.sensitivities, self.sensitivities)
        if self.inputs is None:
            return jnp.sum(right, axis=(2, 3))
        left = jnp.einsum("npc,nqc->npq", self.inputs, self.inputs)
        return jnp.einsum("npq,nkpq->nk", left, right)


def cross_gram(a: Layer, b: Layer, relation: str) -> Float[Array, "n k m k"]:
    """Products of the rows of one use with the rows of another (or the same) use of one parameter."""
    if relation == "same":
        right = jnp.einsum("nkpf,mlqf->nkpmlq", a.sensitivities, b.sensitivities)
        if a.inputs is None or b.inputs is None:  # biases: both are
            return jnp.sum(right, axis=(2, 5))
        left = jnp.einsum("npc,mqc->npmq", a.inputs, b.inputs)
        if left.shape[1] == left.shape[3] == 1:
            return left.reshape(left.shape[0], 1, left.shape[2], 1) * right[:, :, 0, :, :, 0]
        return jnp.einsum("npmq,nkpmlq->nkml", left, right)
    # transposed: the inputs of one use live where the sensitivities of the other do
    left = jnp.einsum("npc,mlqc->npmlq", a.inputs, b.sensitivities)
    right = jnp.einsum("nkpf,mqf->nkpmq", a.sensitivities, b.inputs)
    return jnp.einsum("npmlq,nkpmq->nkml", left, right)


class Passes(Linearization):
    """The network's pass forward, kept: f, Jᵀv by one pass back, and J along whatever directions of the outputs."""

    def __init__(
        self, network: NetworkFunction, w: Float[Array, "q"], x: Any, rows: int | None = None, r: int | None = None
    ):
        """`rows`: of the whole batch, where x is a device's share of it; r: how many directions will be asked for."""
        self.network, self.w, self.x, self.size = network, w, x, w.shape[0]
        leaves = self.leaves = network.split(w)
        n = jax.tree.leaves(x)[0].shape[0]
        self.plan = plan = Plan.of(network, leaves, one_row(x), rows or n, r)
        by_path = {use.path: use for found in plan.uses.values() for use in found}
        silent = {path: jnp.zeros((n, *use.repeats, *use.out_shape), use.out_dtype) for path, use in by_path.items()}

        def one(row, columns, probes):
            full = list(leaves)
            for i, leaf in zip(plan.unread, columns, strict=True):
                full[i] = leaf
            (z,), met = evaluate(plan.jaxpr, [*full, *jax.tree.leaves(row)], by_path, probes)
            return z, met

        own = [jnp.broadcast_to(leaves[i], (n, *leaves[i].shape)) for i in plan.unread]  # each row has its own
        forward = lambda columns, probes: jax.vmap(one)(x, columns, probes)
        self.outputs, self._backward, self._met = jax.vjp(forward, own, silent, has_aux=True)

    def along(self, directions: Float[Array, "n r k"]) -> "Structured":
        """The rows C_iJ_i, outputs zero: what directions show is the change."""
        layers, columns = self._rows(directions)
        outputs = jnp.zeros(directions.shape[:2], self.outputs.dtype)
        return Structured(self, outputs, layers, columns)

    def vjp(self, v):
        layers, columns = self._rows(v[:, None])
        one = jnp.ones((v.shape[0], 1), v.dtype)
        each = {
            i: jnp.ravel(added([layer.vjp(one, self.leaves[i]) for layer in uses])) for i, uses in layers.items()
        } | {i: jnp.sum(columns[i], axis=(0, 1)) for i in self.plan.unread}
        return side_by_side([each[i] for i in range(len(self.plan.sizes))])

    def jvp(self, delta):
        return jax.jvp(lambda w: self.network(w, self.x), (self.w,), (delta,))[1]

    def _rows(self, directions: Float[Array, "n r k"]) -> tuple[dict[int, list["Layer"]], dict[int, Array]]:
        """(factored parameters as layers, the others' columns [n, r, size])."""
        columns, sensitivities = jax.vmap(self._backward, in_axes=1, out_axes=1)(directions)
        layers = {
            leaf: [
                Layer(
                    use,
                    None
                    if use.additive
                    else use.arrange_data(self._met[use.path]).astype(self.w.dtype),  # rows may have fewer bits
                    use.arrange_sensitivity(sensitivities[use.path]),
                )
                for use in found
            ]
            for leaf, found in self.plan.uses.items()
        }
        flat = [c.reshape(*directions.shape[:2], -1) for c in columns]
        return layers, dict(zip(self.plan.unread, flat, strict=True))


class Structured(Linearization):
    """J held parameter by parameter: layers where the network allows, columns where it does not. Always exact."""

    def __init__(self, passes: Passes, outputs: Float[Array, "n k"], layers: dict[int, list[Layer]], columns: dict):
        self.network, self.size, self.leaves, self.plan = passes.network, passes.size, passes.leaves, passes.plan
        self.outputs = outputs
        self.layers = {i: layers[i] for i in self.plan.layers}
        dear = {i: added([layer.rows(self.leaves[i]) for layer in layers[i]]) for i in self.plan.columns if i in layers}
        whole = [(dear | columns)[i] for i in self.plan.columns]
        self.columns = Dense(outputs, jnp.concatenate(whole, axis=2)) if whole else None

    @staticmethod
    def of(network: NetworkFunction, w: Float[Array, "q"], x: Any, rows: int | None = None) -> "Structured":
        """All outputs of the network."""
        passes = Passes(network, w, x, rows)
        n, k = passes.outputs.shape
        unit = jnp.broadcast_to(jnp.eye(k, dtype=passes.outputs.dtype), (n, k, k))
        return Structured(passes, passes.outputs, *passes._rows(unit))

    @exact
    def jvp(self, delta):
        leaves = self.network.split(delta)
        parts = [layer.jvp(leaves[leaf]) for leaf, uses in self.layers.items() for layer in uses]
        if self.columns is not None:
            parts.append(self.columns.jvp(jnp.concatenate([jnp.ravel(leaves[i]) for i in self.plan.columns])))
        return added(parts)

    @exact
    def vjp(self, v):
        return self._join(
            {i: jnp.ravel(added([layer.vjp(v, self.leaves[i]) for layer in uses])) for i, uses in self.layers.items()},
            None if self.columns is None else self.columns.vjp(v),
        )

    @exact
    def gram(self):
        parts = [
            cross_gram(a, b, self.plan.relations[a.use.path, b.use.path])
            for uses in self.layers.values()
            for a in uses
            for b in uses
        ]
        if self.columns is not None:
            parts.append(self.columns.gram())
        return added(parts)

    @exact
    def jacobian(self):
        return self._join(
            {i: added([layer.rows(self.leaves[i]) for layer in uses]) for i, uses in self.layers.items()},
            None if self.columns is None else self.columns.matrix,
        )

    def row_squares(self):
        tied = any(len(uses) > 1 for uses in self.layers.values())
        if tied:
            n, k = self.outputs.shape
            return jnp.diagonal(self.gram().reshape(n * k, n * k)).reshape(n, k)
        parts = [layer.row_squares() for uses in self.layers.values() for layer in uses]
        if self.columns is not None:
            parts.append(self.columns.row_squares())
        return added(parts)

    def column_squares(self, scale):
        # Σ_i s_i² (a_i ⊗ g_i)² = (a²)ᵀ(s² g²) at one position; several positions add up before squaring
        return Dense(self.outputs, self.jacobian()).column_squares(scale)

    def _join(self, layered: dict[int, Array], columns: Any) -> Float[Array, "*rows q"]:
        """All parameters side by side in the last axis, from both kinds."""
        parts, start = [], 0
        for i, size in enumerate(self.plan.sizes):
            if i in layered:
                parts.append(layered[i])
            else:
                parts.append(columns[..., start : start + size])
                start += size
        return side_by_side(parts)


def one_row(x: Any) -> Any:
    """The shapes of a single row of x."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x)


def added(parts: list[Array]) -> Array:
    """Σ parts."""
    return sum(parts[1:], start=parts[0])

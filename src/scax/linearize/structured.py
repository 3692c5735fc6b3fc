"""JJᵀ, Jδ and Jᵀv from layer inputs and sensitivities, without J.

For a dense layer with input a_i and sensitivity g_i = ∂f(x_i)/∂(layer output), row i of J is the outer product
a_i ⊗ g_i, so that its share of the Gram matrix is

    (a_i · a_j)(g_i · g_j),        J h → g_iᵀ(Hᵀa_i),        Jᵀv → Σ_i v_i a_i ⊗ g_i

With several outputs g_i has one row per output; where one sample meets the layer at several positions p (scan steps,
sequence places) sums run over p, and over pairs (p, q) in the Gram matrix. One pass forward and one backward give all
of it. Parameters that are not factored (see `walk`) keep a materialized Jacobian of their own columns.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import Linearization, exact
from .dense import Dense
from .network import NetworkFunction
from .walk import Path, Use, evaluate, find_uses, multiply_adds, same_matrix

#: Writing a number to memory and reading it again costs about as much as this many multiply-adds.
WRITE = 32


@dataclasses.dataclass(frozen=True)
class Plan:
    """How the Jacobian of each parameter is held, decided from shapes alone: by layers or by columns."""

    jaxpr: Any
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    uses: dict[int, list[Use]]  # parameters held by layers
    relations: dict[tuple[Path, Path], str]  # how two uses of one parameter see it

    @property
    def columns(self) -> list[int]:
        """Parameters that keep columns of their own."""
        return [i for i in range(len(self.sizes)) if i not in self.uses]

    @property
    def one_pass(self) -> float:
        """Multiply-adds of one sample's way through the network: each weight as often as it is met."""
        return max(multiply_adds(self.jaxpr.jaxpr), sum(self.sizes))

    @staticmethod
    def of(network: NetworkFunction, leaves: tuple, row: Any, rows: int) -> "Plan":
        """Read the network for one sample, and hold each parameter the way that costs least for `rows` samples."""
        jaxpr, shape = jax.make_jaxpr(network.of_one, return_shape=True)(leaves, row)
        uses, relations = find_uses(jaxpr.jaxpr, len(leaves)), {}
        for leaf, found in list(uses.items()):
            pairs = {
                (a.path, b.path): same_matrix(a.arrange, b.arrange, leaves[leaf].shape) if a is not b else "same"
                for a in found
                for b in found
            }
            dear = _columns_cost(found, rows, shape.shape[0]) < _layer_cost(found, rows, shape.shape[0])
            if None in pairs.values() or dear:
                del uses[leaf]
            else:
                relations.update(pairs)
        return Plan(jaxpr, network.names, tuple(math.prod(x.shape) for x in leaves), uses, relations)

    def cost(self, n: int, k: int) -> tuple[float, float]:
        """(multiply-adds of the Gram matrix, J h and Jᵀ u; numbers in the largest array)."""
        work, largest = 0.0, 0.0
        for uses in self.uses.values():
            positions = sum(u.positions for u in uses)
            work += _layer_cost(uses, n, k)
            largest = max(largest, (n * k * positions) ** 2 if positions > 1 else 0)
        own = sum(self.sizes[i] for i in self.columns)
        return work + own * n * k * (n * k + 3 + WRITE), max(largest, own * n * k)

    def describe(self, rows: int, outputs: int) -> list[str]:
        """One line per parameter, for people."""
        lines = []
        for i, (name, size) in enumerate(zip(self.names, self.sizes, strict=True)):
            if i in self.uses:
                met = ", ".join(
                    ("bias" if u.additive else f"layer {u.inputs}→{u.outputs}")
                    + (f" at {u.positions} positions" if u.positions > 1 else "")
                    for u in self.uses[i]
                )
                lines.append(f"{name}: {size} weights, {met}" + (" (tied)" if len(self.uses[i]) > 1 else ""))
            else:
                lines.append(f"{name}: {size} weights, own columns ({rows * outputs}×{size} numbers)")
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
        pushed = matrix[None] if self.inputs is None else self.inputs @ matrix  # [n, P, F]
        return jnp.sum(pushed[:, None] * self.sensitivities, axis=(2, 3))

    def vjp(self, v: Float[Array, "n k"], leaf: Array) -> Array:
        """Σ v a ⊗ g, in the parameter's own shape."""
        return jax.linear_transpose(self.use.arrange, leaf)(self.matrix(v))[0]

    def matrix(self, v: Float[Array, "n k"]) -> Array:
        """The same laid out as [C, F]."""
        weighted = jnp.sum(v[:, :, None, None] * self.sensitivities, axis=1)  # [n, P, F]
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


class Structured(Linearization):
    """J held parameter by parameter: layers where the network allows, columns where it does not. Always exact."""

    def __init__(self, network: NetworkFunction, w: Float[Array, "q"], x: Any, rows: int | None = None):
        """`rows`: of the whole batch, where x is a device's share of it."""
        self.network, self.size = network, w.shape[0]
        leaves = self.leaves = network.split(w)
        self.plan = plan = Plan.of(network, leaves, one_row(x), rows or jax.tree.leaves(x)[0].shape[0])
        by_path = {use.path: use for found in plan.uses.values() for use in found}
        silent = {path: jnp.zeros(use.repeats + use.out_shape, use.out_dtype) for path, use in by_path.items()}

        def one(row):
            def forward(columns, probes):
                full = list(leaves)
                for i, leaf in zip(plan.columns, columns, strict=True):
                    full[i] = leaf
                (z,), met = evaluate(plan.jaxpr, [*full, *jax.tree.leaves(row)], by_path, probes)
                return z, met

            z, backward, met = jax.vjp(forward, [leaves[i] for i in plan.columns], silent, has_aux=True)
            unit = jnp.eye(z.shape[0], dtype=z.dtype)
            columns, sensitivities = jax.vmap(backward)(unit)
            flat = [c.reshape(z.shape[0], -1) for c in columns]
            return z, met, sensitivities, jnp.concatenate(flat, axis=1) if flat else None

        self.outputs, met, sensitivities, columns = jax.vmap(one)(x)
        self.columns = None if columns is None else Dense(self.outputs, columns)
        self.layers = {
            leaf: [
                Layer(
                    use,
                    None
                    if use.additive
                    else use.arrange_data(met[use.path]).astype(w.dtype),  # rows may have fewer bits
                    use.arrange_sensitivity(sensitivities[use.path]),
                )
                for use in found
            ]
            for leaf, found in plan.uses.items()
        }

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
        return jnp.concatenate(parts, axis=-1)


def one_row(x: Any) -> Any:
    """The shapes of a single row of x."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x)


def added(parts: list[Array]) -> Array:
    """Σ parts."""
    return sum(parts[1:], start=parts[0])

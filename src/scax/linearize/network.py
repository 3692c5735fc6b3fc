"""The network as the linearizations see it: a function of flat weights, or of the trained leaves, and of rows."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..layout import Layout
from ..problem import Problem


@dataclasses.dataclass(frozen=True)
class NetworkFunction:
    """f(w; x) ∈ [n, k], the frozen parameters being part of it."""

    problem: Problem
    layout: Layout
    frozen: tuple

    def __call__(self, w: Float[Array, "q"], x: Any) -> Float[Array, "n k"]:
        return self.of_leaves(self.split(w), x)

    def of_leaves(self, leaves: tuple, x: Any) -> Float[Array, "n k"]:
        return self.problem.outputs(self.layout.merge(leaves, self.frozen), x)

    @property
    def parts(self) -> tuple["NetworkFunction", ...]:
        """The function of each term; itself where there is one."""
        return tuple(NetworkFunction(part, self.layout, self.frozen) for part in self.problem.parts)

    def split(self, w: Float[Array, "q"]) -> tuple:
        """The trained leaves of w."""
        return self.layout.leaves(w)

    def of_one(self, leaves: tuple, row: Any) -> Float[Array, "k"]:
        """f of a single row."""
        return self.of_leaves(leaves, jax.tree.map(lambda a: a[None], row))[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The trained leaves' names, as in params."""
        paths = jax.tree_util.tree_leaves_with_path(
            self.layout.merge(tuple(range(len(self.layout.sizes))), self.frozen)
        )
        names = [jax.tree_util.keystr(path) for path, _ in paths]
        return tuple(name for name, keep in zip(names, self.layout.trained, strict=True) if keep)


@dataclasses.dataclass(frozen=True)
class Directions(NetworkFunction):
    """C_i f(w; x_i) ∈ [n, r] of rows (x_i, C_i): outputs seen along r directions each, C_i [r, k] being data.

    Its Jacobian is J̃ = CJ, in whatever form the network's own has.
    """

    @staticmethod
    def of(network: NetworkFunction) -> "Directions":
        return Directions(network.problem, network.layout, network.frozen)

    def of_leaves(self, leaves: tuple, x: tuple[Array, Float[Array, "n r k"]]) -> Float[Array, "n r"]:
        rows, directions = x
        return jnp.einsum("nrk,nk->nr", directions, super().of_leaves(leaves, rows))

"""The network as the linearizations see it: a function of flat weights, or of the trained leaves, and of rows."""

import dataclasses
from typing import Any

import jax
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

    @property
    def names(self) -> tuple[str, ...]:
        """The trained leaves' names, as in params."""
        paths = jax.tree_util.tree_leaves_with_path(
            self.layout.merge(tuple(range(len(self.layout.sizes))), self.frozen)
        )
        names = [jax.tree_util.keystr(path) for path, _ in paths]
        return tuple(name for name, keep in zip(names, self.layout.trained, strict=True) if keep)

"""Where each weight lies in the flat vector w, and which leaves are trained at all."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from . import checks


@dataclasses.dataclass(frozen=True)
class Layout:
    """The way between a params pytree and the flat vector w ∈ R^Q of its trained leaves.

    Weights are flattened once, when training starts; every formula then speaks of one vector.
    """

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]
    trained: tuple[bool, ...]

    @staticmethod
    def of(params: PyTree, trainable: Any = None) -> "Layout":
        leaves, treedef = jax.tree.flatten(params)
        if not leaves:
            raise ValueError("params has no leaves: give a pytree with at least one floating array.")
        trained = tuple(True for _ in leaves) if trainable is None else trainable.match(params)
        if not any(trained):
            raise ValueError("trainable leaves nothing to train: at least one leaf of params must be True.")
        chosen = [leaf if keep else None for leaf, keep in zip(leaves, trained, strict=True)]
        checks.params(jax.tree.unflatten(treedef, chosen))
        for leaf, keep in zip(leaves, trained, strict=True):
            if not keep and jnp.issubdtype(getattr(leaf, "dtype", bool), jnp.floating):
                checks.finite("a frozen parameter", leaf, "Start from finite weights.")
        return Layout(treedef, tuple(jnp.shape(leaf) for leaf in leaves), trained)

    @property
    def trained_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the trained leaves, in their order in w."""
        return tuple(s for s, keep in zip(self.shapes, self.trained, strict=True) if keep)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the trained leaves, in their order in w."""
        return tuple(math.prod(s) for s in self.trained_shapes)

    @property
    def size(self) -> int:
        """Q, the number of trained weights."""
        return sum(self.sizes)

    def dtype(self, params: PyTree) -> Any:
        """The precision of the trained weights."""
        return self.split(params)[0][0].dtype

    def split(self, params: PyTree) -> tuple[tuple, tuple]:
        """(trained leaves, frozen leaves)."""
        leaves, treedef = jax.tree.flatten(params)
        if treedef != self.treedef:
            raise ValueError(f"params has the structure {treedef}, expected {self.treedef}.")
        arrays = [(jnp.asarray(leaf), keep) for leaf, keep in zip(leaves, self.trained, strict=True)]
        return tuple(a for a, keep in arrays if keep), tuple(a for a, keep in arrays if not keep)

    def merge(self, trained: tuple, frozen: tuple = ()) -> PyTree:
        """The params pytree of trained and frozen leaves."""
        moving, still = iter(trained), iter(frozen)
        return jax.tree.unflatten(self.treedef, [next(moving if keep else still) for keep in self.trained])

    def flatten(self, params: PyTree) -> Float[Array, "q"]:
        """w: the trained leaves, raveled one after the other."""
        return jnp.concatenate([jnp.ravel(leaf) for leaf in self.split(params)[0]])

    def unflatten(self, w: Float[Array, "*runs q"], frozen: tuple = ()) -> PyTree:
        """The params pytree of w."""
        return self.merge(self.leaves(w), frozen)

    def leaves(self, w: Float[Array, "*runs q"]) -> tuple:
        """The trained leaves of w; leading axes (seeds, strengths) stay in front of each."""
        trained, start = [], 0
        for shape, size in zip(self.trained_shapes, self.sizes, strict=True):
            trained.append(w[..., start : start + size].reshape(w.shape[:-1] + shape))
            start += size
        return tuple(trained)


@dataclasses.dataclass(frozen=True)
class Mask:
    """Which leaves of params are trained: a pytree of bools, True to train, as a hashable value."""

    treedef: Any
    flags: tuple[bool, ...]

    @staticmethod
    def of(tree: PyTree) -> "Mask":
        flags, treedef = jax.tree.flatten(tree)
        for flag in flags:
            if not isinstance(flag, (bool, np.bool_)):
                raise TypeError(f"trainable must be a pytree of True and False, found {flag!r}.")
        return Mask(treedef, tuple(bool(flag) for flag in flags))

    def match(self, params: PyTree) -> tuple[bool, ...]:
        """One flag per leaf of params; a single flag in place of a subtree stands for all of it."""
        tree = jax.tree.unflatten(self.treedef, list(self.flags))
        try:
            full = jax.tree.map(lambda flag, sub: jax.tree.map(lambda _: flag, sub), tree, params)
        except ValueError as error:
            raise ValueError(f"trainable does not have the structure of params: {error}") from None
        return tuple(jax.tree.leaves(full))

"""One mini-batch, as every part of the method sees it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from . import checks
from ._struct import static, struct


@struct
class Pairs:
    """Neighboring rows whose outputs should agree: the manifold penalty's share of a mini-batch.

    `extra` are rows beside the batch; `left` and `right` index the batch's rows followed by the extra ones, and
    `weight` is q_ij/k times the number of rows of the graph over the number drawn.
    """

    extra: Shaped[Array, "e *features"]
    left: Int[Array, "p"]
    right: Int[Array, "p"]
    weight: Float[Array, "p"]


@struct
class Batch:
    """Rows x, targets y, optional sample weights, optional neighbor pairs.

    >>> batch = scax.Batch(x, y, weight=jnp.ones(40))
    >>> float(problem.objective(params, batch.x, batch.y)) > 0
    True
    """

    x: Any
    y: Any
    weight: Any = None
    pairs: Pairs | None = None

    @staticmethod
    def of(batch: Any) -> "Batch":
        """A Batch from a Batch, (x, y) or (x, y, weight)."""
        if isinstance(batch, Batch):
            return batch
        if isinstance(batch, (tuple, list)) and len(batch) in (2, 3):
            x, y, *weight = (part if part is None or hasattr(part, "dtype") else np.asarray(part) for part in batch)
            checks.real_numbers("y", y)
            return Batch(x, y, weight[0] if weight else None)
        raise TypeError(f"a batch is (x, y), (x, y, weight) or scax.Batch, got {type(batch).__name__}.")

    def check(self, dtype: Any) -> None:
        """Refuse shapes, dtypes and values that no step could use."""
        checks.features("x", self.x, dtype)
        n = np.shape(self.x)[0]
        checks.targets(self.y, n)
        if self.weight is not None:
            checks.weights(self.weight, n)

    def scaled(self) -> "Batch":
        """The same batch, its sample weights scaled where their sum would leave the range of float32."""
        values = None if self.weight is None else checks.concrete(self.weight)
        if values is None or values.size == 0:
            return self
        most = values.max()
        if 1e-30 < most < 1e30 or not 0 < most < np.inf:  # `check` refuses the last
            return self
        return dataclasses.replace(self, weight=values.astype(float) / most)

    @property
    def size(self) -> int:
        return self.x.shape[0]

    def shares(self, dtype: Any) -> Float[Array, "n"]:
        """Each sample's share of the average, Σ = 1: the one place where a batch is averaged."""
        if self.weight is None:
            return jnp.full(self.size, 1 / self.size, dtype)
        weight = jnp.asarray(self.weight, dtype)
        most = jnp.max(weight)
        weight = weight * jnp.where(most > 1e19, 1e-19, jnp.where(most < 1e-19, 1e19, 1))  # the sum stays in range
        total = jnp.sum(weight)
        return weight / jnp.where(total > 0, total, 1)


@struct
class TermBatch:
    """One batch for each term, in the problem's order; `widths` are the terms' numbers of outputs."""

    parts: tuple[Batch, ...]
    names: tuple[str, ...] = static()
    widths: tuple[int, ...] = static(default=())

    @staticmethod
    def of(batch: Any, names: tuple[str, ...]) -> "TermBatch":
        """From a dictionary of (x, y), (x, y, weight), Batch, or x alone, whose targets are zeros."""
        if isinstance(batch, TermBatch):
            return batch
        if not isinstance(batch, Mapping):
            raise TypeError(
                f"the problem has terms {', '.join(map(repr, names))}: a batch is a dictionary with rows for each, "
                f"got {type(batch).__name__}."
            )
        check_names(batch, names, "the batch")
        parts = []
        for name in names:
            rows = batch[name]
            with checks.about(f"term {name!r}"):
                alone = hasattr(rows, "dtype") or isinstance(rows, list)
                if alone:
                    rows = rows if hasattr(rows, "dtype") else np.asarray(rows)
                parts.append(Batch(rows, None) if alone else Batch.of(rows))
                if parts[-1].pairs is not None:
                    raise ValueError("neighbor pairs belong to problems without terms.")
        return TermBatch(tuple(parts), names)

    def map(self, change: Any) -> "TermBatch":
        """The same with every part changed."""
        return dataclasses.replace(self, parts=tuple(change(part) for part in self.parts))

    @property
    def x(self) -> Any:
        """The rows, by name; of a single term the rows themselves."""
        return self._each([part.x for part in self.parts])

    @property
    def y(self) -> Any:
        """The targets, likewise."""
        return self._each([part.y for part in self.parts])

    def _each(self, values: list) -> Any:
        return values[0] if len(values) == 1 else dict(zip(self.names, values, strict=True))

    @property
    def pairs(self) -> None:
        return None

    @property
    def weight(self) -> None:
        return None

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def term(self) -> np.ndarray:
        """The number of each row's term."""
        return np.repeat(np.arange(len(self.parts)), [part.size for part in self.parts])


#: The rows of a problem: of one function, or of several terms.
AnyBatch = Batch | TermBatch


def check_names(given: Mapping[str, Any], names: tuple[str, ...], what: str) -> None:
    """Refuse a dictionary that has not one entry for each term."""
    if missing := [name for name in names if name not in given]:
        raise ValueError(f"{what} has no rows for term {missing[0]!r}: give rows for {', '.join(map(repr, names))}.")
    if extra := [name for name in given if name not in names]:
        allowed = ", ".join(map(repr, names))
        raise ValueError(f"{what} has rows for {extra[0]!r}, which is no term: the terms are {allowed}.")

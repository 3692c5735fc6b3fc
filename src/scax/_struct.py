"""Frozen dataclasses that are pytrees: numbers are leaves, structure is static.

A strength, a step size or a bound is a leaf, so a sweep or `vmap` over it does not recompile; a function,
a name or a flag is static. The constructor checks what a person wrote; JAX rebuilds the object around tracers
without calling it, so checks never meet a tracer they cannot read.
"""

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

T = TypeVar("T")

#: a strength, rate or bound: a plain number, NumPy's or JAX's, or an array of them for a sweep
Number = float | int | np.number | np.ndarray | jax.Array


def static(default: Any = dataclasses.MISSING) -> Any:
    """A field that is part of the structure: it must be hashable, and another value compiles anew."""
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(static,))
def struct(cls: type[T]) -> type[T]:
    """Make `cls` a frozen dataclass and a pytree."""
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    data = tuple(f.name for f in fields if not f.metadata.get("static"))
    meta = tuple(f.name for f in fields if f.metadata.get("static"))

    def flatten(self: T):
        return [(jax.tree_util.GetAttrKey(n), getattr(self, n)) for n in data], tuple(getattr(self, n) for n in meta)

    def unflatten(aux: tuple, children) -> T:
        self = object.__new__(cls)
        for name, value in zip(data + meta, (*children, *aux), strict=True):
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
    return cls

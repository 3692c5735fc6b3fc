"""What is refused, and the sentence that says so: the argument, what was given, what to do.

Every check reads concrete values only. Inside `jit`, `vmap` or `scan` values are not known; shapes and dtypes
still are, and are checked there too.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._compat import Tracer


def concrete(value: Any) -> np.ndarray | None:
    """The value as a NumPy array, or None inside a transformation, where it is not known yet."""
    return None if isinstance(value, Tracer) else np.asarray(value)


@contextlib.contextmanager
def about(what: str) -> Iterator[None]:
    """Errors within say what they are about, first."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}: {error}") from error


def number(name: str, value: Any, ok: Callable[[np.ndarray], Any], wanted: str) -> None:
    """Refuse a strength or rate outside its range; arrays (a sweep) are checked entry by entry."""
    values = concrete(value)
    if values is None:
        return
    if isinstance(value, (list, tuple)):
        raise TypeError(f"{name} must be a number or an array, got a {type(value).__name__}.")
    if values.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not np.all(np.isfinite(values)) or not np.all(ok(values)):
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")


def each(name: str, value: Any, count: int, what: str) -> None:
    """Refuse a vector that has not one number for each of `count` things; one number is for all of them."""
    if np.ndim(value) and np.shape(value) != (count,):
        raise ValueError(
            f"{name} has shape {np.shape(value)}, and there are {count} {what}: give one number, or one for each."
        )


def nonnegative(name: str, value: Any) -> None:
    number(name, value, lambda v: v >= 0, "a finite number ≥ 0")


def positive(name: str, value: Any) -> None:
    number(name, value, lambda v: v > 0, "a finite number > 0")


def whole_number(name: str, value: Any, least: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number ≥ {least}, got {value!r}.")


def fraction(name: str, value: Any) -> None:
    number(name, value, lambda v: (v >= 0) & (v <= 1), "between 0 and 1")


def finite(name: str, value: Any, advice: str) -> None:
    values = concrete(value)
    if values is not None and not np.all(np.isfinite(values)):
        where = np.argwhere(~np.isfinite(values))
        first = tuple(int(i) for i in where[0])
        raise ValueError(f"{name} has {len(where)} value(s) that are not finite, the first at {first}. {advice}")


def in_range(name: str, value: Any) -> None:
    """Refuse finite numbers that become infinite in the precision that JAX computes with."""
    kind = np.dtype(getattr(value, "dtype", type(value)))
    used = jax.dtypes.canonicalize_dtype(kind) if kind.kind == "f" else kind
    values = concrete(value) if used.itemsize < kind.itemsize else None
    if values is None or values.size == 0:
        return
    largest, limit = np.max(np.abs(values)), np.finfo(used).max
    if limit < largest < np.inf:
        raise ValueError(
            f"{name} has values up to {largest:.2g}, beyond the largest {used.name}, {limit:.2g}: divide {name} by "
            f"{largest:.0e}, or train in float64 (jax.config.update('jax_enable_x64', True))."
        )


def warn_not_finite(objective: float, step: int, x: Any, y: Any) -> None:
    """Warn that a training has ended without a finite objective, and say how large its numbers are."""
    if np.isfinite(objective):
        return
    sizes = ", ".join(f"{name} up to {np.max(np.abs(np.asarray(v, float))):.2g}" for name, v in (("x", x), ("y", y)))
    warnings.warn(
        f"the objective is {objective} after {step} steps, on rows with {sizes}: the weights are of no use. "
        "Scale x and y to about 1, or take smaller steps.",
        RuntimeWarning,
        stacklevel=3,
    )


def features(name: str, x: Any, dtype: Any) -> None:
    """Rows must be real numbers or integers (indices, categories), at least one, finite, in range, and no wider than
    the weights."""
    kind = jnp.asarray(x).dtype if not hasattr(x, "dtype") else x.dtype
    is_index = jnp.issubdtype(kind, jnp.integer)
    if not is_index and not jnp.issubdtype(kind, jnp.floating):
        raise TypeError(
            f"{name} has dtype {kind}; features must be floating, or integers for indices. Scale or encode them, then "
            f"convert: {name}.astype({jnp.dtype(dtype).name!r})."
        )
    if np.ndim(x) < 1 or np.shape(x)[0] == 0:
        raise ValueError(f"{name} has shape {np.shape(x)}: a batch needs at least one row.")
    if is_index:
        return
    if jax.dtypes.canonicalize_dtype(kind).itemsize > jnp.dtype(dtype).itemsize:
        raise TypeError(
            f"{name} is {kind} while the weights are {jnp.dtype(dtype).name}: convert {name} with "
            f".astype({jnp.dtype(dtype).name!r}), or build the weights in {kind}."
        )
    finite(name, x, "Impute or drop them first.")
    in_range(name, x)


def rows(name: str, value: Any, n: int, of: str = "x") -> None:
    if np.ndim(value) < 1 or np.shape(value)[0] != n:
        raise ValueError(f"{name} has shape {np.shape(value)} but {of} has {n} rows: they must match.")


def real_numbers(name: str, y: Any) -> None:
    kind = np.dtype(getattr(y, "dtype", type(y)))
    if kind.kind not in "biuf" and not jnp.issubdtype(kind, jnp.floating):
        raise TypeError(f"{name} has dtype {kind}: targets must be real numbers, or integers for classes.")


def targets(y: Any, n: int) -> None:
    """Targets: one per row, real numbers or class indices that survive the conversion to an array."""
    rows("y", y, n)
    real_numbers("y", y)
    in_range("y", y)
    kind = np.dtype(getattr(y, "dtype", type(y)))
    values = concrete(y) if kind.kind in "iu" else None
    largest = jnp.iinfo(jax.dtypes.canonicalize_dtype(kind)).max if kind.kind in "iu" else 0
    if values is not None and values.size and int(values.max()) > largest:
        raise ValueError(f"y has integers up to {values.max()}, beyond {largest}: convert it with y.astype('float32').")


def random_key(key: Any) -> None:
    """One key of jax.random."""
    if not jnp.issubdtype(getattr(key, "dtype", bool), jax.dtypes.prng_key) or key.shape:
        raise TypeError(f"key must be one random key, such as jax.random.key(0), got {key!r}.")


def weights(weight: Any, n: int) -> None:
    """Sample weights: one per row, none negative, not all zero."""
    if np.shape(weight) != (n,):
        raise ValueError(f"weight has shape {np.shape(weight)}, expected ({n},): one sample weight per row of x.")
    values = concrete(weight)
    if values is not None:
        finite("weight", values, "Use 0 to leave a row out.")
        if np.any(values < 0):
            raise ValueError(f"weight has a negative entry ({values.min()}): sample weights must be ≥ 0.")
        if not np.any(values > 0):
            raise ValueError("weight is all zero: at least one row must count.")


def params(tree: Any) -> None:
    """Weights must be floating, of one dtype, finite."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    if not leaves:
        raise ValueError("params has no trained leaves: give a pytree with at least one floating array.")
    dtypes = {}
    for path, leaf in leaves:
        name = "params" + jax.tree_util.keystr(path)
        kind = getattr(leaf, "dtype", None)
        if kind is None or not jnp.issubdtype(kind, jnp.floating):
            raise TypeError(
                f"{name} is {type(leaf).__name__ if kind is None else kind}; trained weights must be floating "
                "arrays. Convert it, or leave it out of training with Problem(..., trainable=mask)."
            )
        if jnp.dtype(kind).itemsize < 4:
            raise TypeError(
                f"{name} is {kind}: a step solves linear systems, which takes float32 or float64. Convert it."
            )
        dtypes.setdefault(jax.dtypes.canonicalize_dtype(kind), name)
        finite(name, leaf, "Start from finite weights.")
    if len(dtypes) > 1:
        listed = ", ".join(f"{name} is {kind}" for kind, name in dtypes.items())
        raise TypeError(f"trained weights have several dtypes ({listed}): convert them to one.")


def choice(name: str, value: Any, allowed: Any) -> None:
    """Refuse a word that is not in the list, and point at the nearest that is."""
    import difflib

    allowed = list(allowed)
    if value not in allowed:
        near = difflib.get_close_matches(str(value), allowed, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name}={value!r} is not known: choose one of {', '.join(map(repr, allowed))}.{hint}")

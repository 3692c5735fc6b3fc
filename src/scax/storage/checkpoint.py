"""The state of a run, saved leaf by leaf and restored to the bit.

Any pytree will do: the state of SCA or of a baseline, the stream of batches, random keys. A template of the same
structure (a fresh state) says what the file must hold; names, shapes and types are compared before it is used.
"""

import math
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .container import Contents, Place, read, write
from .errors import FileError

KIND = "checkpoint"


def save_checkpoint(
    path: str | os.PathLike, tree: Any, info: dict[str, Any] | None = None, *, follow: bool = True
) -> None:
    """Save a pytree and `info` (JSON values: step, history position, …) as one file, whole or not at all.

    Where `path` is a symbolic link, the file that it points to is replaced, or with `follow=False` the link itself.

    >>> import tempfile
    >>> file = tempfile.mkdtemp() + "/checkpoint.safetensors"
    >>> scax.storage.save_checkpoint(file, params, {"step": 100})
    >>> restored, info = scax.storage.load_checkpoint(file, params)
    >>> info["step"]
    100
    """
    arrays, keys = {}, {}
    for name, leaf in _leaves(tree):
        if _is_key(leaf):
            keys[name] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        arrays[name] = np.asarray(leaf)
    write(path, KIND, {"info": info or {}, "keys": keys}, arrays, follow=follow)


def load_checkpoint(path: str | os.PathLike, template: Any) -> tuple[Any, dict[str, Any]]:
    """(tree, info): the saved pytree in the structure of `template` (arrays, or the shapes jax.eval_shape gives).

    >>> import tempfile
    >>> file = tempfile.mkdtemp() + "/checkpoint.safetensors"
    >>> scax.storage.save_checkpoint(file, params, {})
    >>> restored, _ = scax.storage.load_checkpoint(file, template=params)
    """
    wanted = _leaves(template)
    saved = read(path, KIND, lambda places: _compare_sizes(path, {p.name: p for p in places}, wanted))
    keys = saved.description.get("keys")
    if not isinstance(keys, dict):
        raise FileError(f"{path} is damaged: its description is unreadable. Use another copy.")
    leaves = [_restore(path, name, saved.arrays[name], leaf, keys.get(name)) for name, leaf in wanted]
    return jax.tree.unflatten(jax.tree.structure(template), leaves), _info(path, saved)


def _compare_sizes(path: str | os.PathLike, places: dict[str, Place], wanted: list[tuple[str, Any]]) -> None:
    """Refuse a file of other arrays before any of them is read."""
    names = {name for name, _ in wanted}
    if missing := sorted(names - set(places)):
        raise _other(path, f"it lacks {missing[0]}")
    if extra := sorted(set(places) - names):
        raise _other(path, f"it holds {extra[0][:80]}, which this run does not have")
    for name, leaf in wanted:
        place = places[name]
        if _is_key(leaf):
            if place.nbytes > 1024 * max(1, math.prod(leaf.shape)):
                raise _other(path, f"{name} is not a random key of this JAX")
        elif isinstance(leaf, (bool, int, float, complex)):
            if place.shape != ():
                raise _other(path, f"{name} has shape {list(place.shape)} and should be a single number")
        elif place.shape != tuple(np.shape(leaf)) or place.dtype != np.dtype(leaf.dtype).name:
            shape = list(np.shape(leaf))
            raise _other(path, f"{name} is {place.dtype}{list(place.shape)} and should be {leaf.dtype}{shape}")


def read_info(path: str | os.PathLike) -> dict[str, Any]:
    """The `info` of a checkpoint alone; the whole file is checked all the same."""
    return _info(path, read(path, KIND))


def _info(path: str | os.PathLike, saved: Contents) -> dict[str, Any]:
    info = saved.description.get("info")
    if not isinstance(info, dict):
        raise FileError(f"{path} is damaged: its description is unreadable. Use another copy.")
    return info


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    """(name, leaf): the key path in words; "state" for a bare leaf."""
    return [("state" + jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _restore(path: str | os.PathLike, name: str, array: np.ndarray, leaf: Any, impl: Any) -> Any:
    if _is_key(leaf) != (impl is not None):
        raise _other(path, f"{name} is a random key in one and not in the other")
    if impl is not None:
        try:
            key = jax.random.wrap_key_data(jnp.asarray(array), impl=impl)
        except (ValueError, TypeError):
            raise _other(path, f"{name} is not a random key of this JAX") from None
        if key.dtype != leaf.dtype or key.shape != leaf.shape:
            raise _other(path, f"{name} is {key.dtype}{list(key.shape)} and should be {leaf.dtype}{list(leaf.shape)}")
        return key
    if isinstance(leaf, (bool, int, float, complex)):
        try:
            return type(leaf)(array.item())
        except (TypeError, ValueError, OverflowError):
            raise _other(path, f"{name} is {array.item()!r}, which it cannot be") from None
    if isinstance(leaf, np.ndarray | np.generic):
        return array
    if getattr(leaf, "weak_type", False) and array.shape == ():
        return jnp.asarray(array.item())  # a Python number: the result is weakly typed again, and promotes as before
    return jnp.asarray(array)


def _other(path: str | os.PathLike, why: str) -> FileError:
    return FileError(f"{path} belongs to another run: {why}. Resume with the options the run was started with.")

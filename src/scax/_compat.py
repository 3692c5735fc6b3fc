"""Calls into JAX whose form has changed between releases, in one place; and which releases those are."""

import functools
import os
import re
import warnings

import jax
import jax.core
import jax.extend.core
from jax.sharding import AxisType, Mesh

#: Releases of JAX that the suite has passed on: at least the first, before the second.
OLDEST, BEYOND = (0, 10), (0, 13)

Tracer = jax.core.Tracer
Literal = jax.extend.core.Literal
shard_map = jax.shard_map


def check_version(version: str = jax.__version__) -> None:
    """Refuse a JAX that is too old, and warn about one that nothing is known of."""
    release = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    needed = f"scax needs jax>={_text(OLDEST)},<{_text(BEYOND)}"
    if release < OLDEST:
        raise ImportError(f"{needed}, and {version} is installed: pip install --upgrade 'jax>={_text(OLDEST)}'")
    if release >= BEYOND:
        warnings.warn(
            f"{needed}, and {version} is installed, which it has not been tested with. If a step fails: "
            f"pip install 'jax<{_text(BEYOND)}', or a newer scax.",
            stacklevel=3,
        )


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


_forked = [False]  # whether this process came from a fork of one in which JAX had started its threads


def _note_fork() -> None:
    from jax._src import xla_bridge  # no public name tells whether JAX has started

    _forked[0] |= xla_bridge.backends_are_initialized()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def refuse_fork() -> None:
    """Refuse to compute in a forked child of a process that has used JAX: its threads are not there, and it hangs."""
    if _forked[0]:
        raise RuntimeError(
            "this process was forked from one that had used JAX, which would hang here: start workers with "
            "multiprocessing.get_context('spawn'), or with joblib's default backend, loky."
        )


@functools.cache
def has_gpu() -> bool:
    """Whether this process has a GPU; starts JAX's backends."""
    return any(device.platform in ("gpu", "cuda", "rocm") for device in jax.devices())


def flat_mesh(mesh: Mesh) -> Mesh:
    """The mesh with one axis, an Auto one: with explicit axes, as of jax.make_mesh, every array would have to say how
    it is sharded."""
    return Mesh(mesh.devices.reshape(-1), ("_".join(mesh.axis_names),), axis_types=(AxisType.Auto,))


def bind(eqn, values: list) -> list:
    """Evaluate one equation of a jaxpr; the way sub-functions are handed over depends on the release."""
    bound = eqn.primitive.get_bind_params(eqn.params)
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    out = eqn.primitive.bind(*functions, *values, **params)
    return list(out) if eqn.primitive.multiple_results else [out]


def scan_sizes(eqn) -> tuple[int, int]:
    """(constants, carried values) of a scan: how many of its inputs are which, the rest being scanned over."""
    if "num_consts" in eqn.params:
        return eqn.params["num_consts"], eqn.params["num_carry"]
    constants, carried, _ = eqn.params["ft_in"].unpack()  # JAX 0.12
    return len(constants.vals), len(carried.vals)


check_version()

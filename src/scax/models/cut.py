"""The same network with fewer units: which may go, the arrays without them, and whether the network takes those."""

import collections
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .program import Leaves, Program
from .units import Axis, ProgramAxes, Units, find, fix, whole
from .zeros import useful

Apply = Callable[[PyTree, Array], Any]


@dataclasses.dataclass(frozen=True)
class Cut:
    """The smaller params, and the places of the inputs that are left along one axis of x."""

    params: PyTree
    inputs: np.ndarray
    axis: int


def cut(apply: Apply, params: PyTree, x: Any, all_inputs: bool, written: bool) -> Cut:
    """Leave out every unit that no product has a use for. Of a set of units one stays, for an array needs one.

    Inputs are left out along an axis of x that products alone read, if there is one such axis and no other. `written`:
    as for `find`.
    """
    leaves = Leaves.of(params)
    program = Program.of(apply, leaves, x)
    axes_of = find(program, written)
    row = [whole(axis) for axis in axes_of.axes[program.x]]
    free = [d for d, axis in enumerate(row) if d > 0 and len(axis) == 1 and not axis[0].fixed]
    if all_inputs or len(free) != 1:
        fix(*row)
    features = free[0] if len(free) == 1 else max(1, x.ndim - 1)
    idle = _idle(program, axes_of, leaves.arrays)
    keep = {units: ~gone if not gone.all() else np.arange(units.size) == 0 for units, gone in idle.items()}
    small = []
    for leaf, less, axes in zip(leaves.arrays, _zeroed(leaves.arrays, axes_of, idle), axes_of.axes, strict=False):
        for d, axis in enumerate(axes):
            less = np.compress(_keep_mask(axis, keep), less, axis=d)
        small.append(jnp.asarray(less) if isinstance(leaf, jax.Array) else less)
    inputs = np.flatnonzero(_keep_mask(row[features], keep)) if x.ndim > 1 else np.arange(1)
    return Cut(leaves.merge(small), inputs, features)


def _idle(program: Program, axes_of: ProgramAxes, arrays: list) -> dict[Units, np.ndarray]:
    """Units whose terms are zero in every product over them.

    Without them others may have no use either: their weights are set to zero, and it is looked at again. A unit that
    zeros wake up (b − 1 with b = 1 is zero, and with b = 0 is not) stays as it is, and all of its set with it.
    """
    sets = dict.fromkeys(u for axes in axes_of.axes[: program.x + 1] for axis in axes for u in whole(axis))
    order = [units for units in sets if not units.fixed]
    uses = jax.jit(functools.partial(useful, program, axes_of, order))
    idle, current = {u: np.zeros(u.size, bool) for u in order}, arrays
    while True:
        idle_now = {u: ~np.asarray(used) & (not u.fixed) for u, used in zip(order, uses(current), strict=True)}
        awake = [u for u in order if np.any(idle[u] & ~idle_now[u])]
        for units in awake:
            units.fixed = True
        if awake:
            idle, current = {u: np.zeros(u.size, bool) for u in order}, arrays
        elif all(np.array_equal(idle[u], idle_now[u]) for u in order):
            return idle
        else:
            idle, current = idle_now, _zeroed(arrays, axes_of, idle_now)


def _zeroed(arrays: list, axes_of: ProgramAxes, idle: dict[Units, np.ndarray]) -> list[np.ndarray]:
    """The arrays with the weights of idle units at zero."""
    zeroed = []
    for leaf, axes in zip(arrays, axes_of.axes, strict=False):
        leaf = np.asarray(leaf)
        for d, axis in enumerate(axes):
            used = _keep_mask(axis, {u: ~gone for u, gone in idle.items()})
            leaf = np.where(used.reshape([-1 if i == d else 1 for i in range(leaf.ndim)]), leaf, np.zeros_like(leaf))
        zeroed.append(leaf)
    return zeroed


def _keep_mask(axis: Axis, keep: dict[Units, np.ndarray]) -> np.ndarray:
    """Whether each place of an axis is kept."""
    masks = [keep.get(units, np.ones(units.size, bool)) for units in whole(axis)]
    return functools.reduce(lambda a, b: np.logical_and.outer(a, b).ravel(), masks, np.ones(1, bool))


def along(x: Any, places: np.ndarray, axis: int) -> Any:
    """Rows with the inputs at these places alone."""
    everything = x.ndim <= axis or len(places) == x.shape[axis]
    return x if everything else x[(slice(None),) * axis + (places,)]


def disagreement(apply: Apply, params: PyTree, small: Apply, less: Cut, x: Any) -> str | None:
    """Why the smaller network is not the larger one, if so: by the numbers in its program, and by its outputs on these
    rows and, where they are floating, on as many random ones."""
    x = np.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = np.concatenate([x, np.random.default_rng(0).normal(size=x.shape).astype(x.dtype)])
    with jax.default_matmul_precision("highest"):
        expected = _outputs(apply, params, x)
        try:
            given = _outputs(small, less.params, along(x, less.inputs, less.axis))
            other = _numbers(small, less.params, along(x, less.inputs, less.axis)) - _numbers(apply, params, x)
        except Exception as error:  # whatever a network may raise
            reason = str(error).strip().partition("\n")[0]
            return f"does not take params of other shapes ({type(error).__name__}: {reason})"
    if [z.shape for z in given] != [z.shape for z in expected]:
        return "gives outputs of another shape with params of other shapes"
    if other:
        return f"has numbers that depend on a size: with params of other shapes also {', '.join(sorted(other))}"
    for z, target in zip(given, expected, strict=True):
        finite = np.isfinite(target)
        if not np.any(finite) and target.size:
            return "gives no output that is finite: is a weight infinite or NaN?"
        tolerance = math.sqrt(jnp.finfo(z.dtype).eps) if jnp.issubdtype(z.dtype, jnp.inexact) else 0.0
        if not np.allclose(z, target, tolerance, tolerance * np.max(np.abs(target[finite]), initial=0), equal_nan=True):
            return f"gives outputs {np.max(np.abs(z - target)[finite]):.2g} apart with params of other shapes"
    return None


def _numbers(apply: Apply, params: PyTree, x: Any) -> collections.Counter[str]:
    """The single numbers in a network's program, and how often each is there."""
    constants = Program.of(apply, Leaves.of(params), x).constants.values()
    single = [
        v for v in constants if np.size(v) == 1 and jnp.issubdtype(jnp.result_type(v), jnp.number)
    ]  # no random key
    return collections.Counter(f"{np.asarray(value).item():.9g}" for value in single)


def _outputs(apply: Apply, params: PyTree, x: Any) -> list[np.ndarray]:
    leaves = Leaves.of(params)
    given = jax.jit(leaves.function(apply))(leaves.arrays, x)
    return [np.asarray(z) for z in jax.tree.leaves(given)]

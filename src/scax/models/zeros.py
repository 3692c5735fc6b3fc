"""Which units a product has any use for: those with a term that is not zero by what the parameters are."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from .._compat import bind
from .program import Program, Step
from .units import ELEMENTWISE, MOVES, PRODUCTS, REDUCTIONS, WINDOWS, Found, Units, by_features, contracted, whole

#: a value where it is the same for every row (0 elsewhere), and where it is not; None: nowhere
Known = tuple[Array, Array | None]


def useful(program: Program, found: Found, sets: list[Units], arrays: list) -> list[Bool[Array, "_"]]:
    """For each of these sets, the units with a term aᵢbᵢ of some product over them that may be other than zero.

    Each value is computed as far as the parameters alone decide it: zero times anything is zero, and behind it the
    network's own functions say what becomes of a constant.
    """
    row = program.shapes[program.x]
    known: dict[int, Known] = {i: (jnp.asarray(a), None) for i, a in [*enumerate(arrays), *program.constants.items()]}
    known[program.x] = jnp.zeros(row, program.dtypes[program.x]), jnp.ones(row, bool)
    uses = {units: jnp.zeros(units.size, bool) for units in sets}
    for step in program.steps:
        taken = [known[i] for i in step.takes]
        if by_features(step):
            axes = [found.axes[step.takes[0]][d] for d in contracted(step)[0]]
            for axis, met in zip(axes, _met(step, taken), strict=True):
                for units, used in _apart(whole(axis), met):
                    if units in uses:
                        uses[units] |= used
        known.update(zip(step.gives, _given(program, step, taken), strict=True))
    return list(uses.values())


def _may(value: Known) -> Array:
    """Where it may be other than zero."""
    return value[0] != 0 if value[1] is None else (value[0] != 0) | value[1]


def _met(step: Step, taken: list[Known]) -> list[Array]:
    """For each axis summed over, where terms may be other than zero."""
    batch = step.eqn.params["dimension_numbers"][1] if step.name == "dot_general" else ((), ())
    sides = []
    for value, shared, summed in zip(taken, batch, contracted(step), strict=True):
        there, kept = _may(value), (*shared, *summed)
        free = tuple(d for d in range(there.ndim) if d not in kept)
        order = sorted(kept)  # the axes that are left, as they come
        sides.append(jnp.transpose(jnp.any(there, axis=free), [order.index(d) for d in kept]))
    both, first = sides[0] & sides[1], len(batch[0])
    return [jnp.any(both, axis=tuple(d for d in range(both.ndim) if d != i)) for i in range(first, both.ndim)]


def _apart(axis: tuple[Units, ...], met: Array) -> list[tuple[Units, Array]]:
    """A mask of an axis as one for each of the sets that it is the product of."""
    met = met.reshape([units.size for units in axis])
    return [(u, jnp.any(met, axis=tuple(j for j in range(len(axis)) if j != i))) for i, u in enumerate(axis)]


def _given(program: Program, step: Step, taken: list[Known]) -> list[Known]:
    values, masks = [value for value, _ in taken], [mask for _, mask in taken]
    if all(mask is None for mask in masks):
        return [(value, None) for value in bind(step.eqn, values)]
    unknown = _unknown(step, taken)
    if unknown is None:
        made = [(program.shapes[i], program.dtypes[i]) for i in step.gives]
        return [(jnp.zeros(shape, dtype), jnp.ones(shape, bool)) for shape, dtype in made]
    given = bind(step.eqn, values)
    return [(jnp.where(u, jnp.zeros_like(v), v), u) for v, u in zip(given, unknown, strict=True)]


def _unknown(step: Step, taken: list[Known]) -> list[Array] | None:
    """Where the outputs of a step depend on the row; None if nothing is known of it."""
    full = [jnp.zeros(v.shape, bool) if mask is None else mask for v, mask in taken]
    if step.name in PRODUCTS or step.name == "mul":
        if not all(jnp.issubdtype(value.dtype, jnp.floating) for value, _ in taken):
            return None  # counting terms in few bits starts again at zero
        (a, b), (may_a, may_b) = full, [_may(value) for value in taken]
        one, two = [value.dtype for value, _ in taken]
        meet = lambda a, b: bind(step.eqn, [a.astype(one), b.astype(two)])[0] != 0
        return [meet(a, may_b) | meet(may_a, b)]
    if step.name in ELEMENTWISE:
        shape = step.eqn.outvars[0].aval.shape
        return [jnp.broadcast_to(functools.reduce(jnp.logical_or, full), shape)]
    if step.name in MOVES:
        return bind(step.eqn, full)
    if step.name in REDUCTIONS:
        return [jnp.any(full[0], axis=tuple(step.eqn.params["axes"]))]
    if step.name in WINDOWS:
        p = step.eqn.params
        shapes = (p["window_dimensions"], p["window_strides"], p["padding"], p["base_dilation"], p["window_dilation"])
        return [jax.lax.reduce_window(full[0], False, jax.lax.bitwise_or, *shapes)]
    return None

"""Which units a product has any use for: those with a term that is not zero by what the parameters are."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from .._compat import bind
from .program import Program, Step
from .units import ELEMENTWISE, MOVES, PRODUCTS, REDUCTIONS, WINDOWS, ProgramAxes, Units, by_features, contracted, whole

#: a value where it is the same for every row (0 elsewhere), and where it is not; None: nowhere
Masked = tuple[Array, Array | None]


def useful(program: Program, axes_of: ProgramAxes, sets: list[Units], arrays: list) -> list[Bool[Array, "_"]]:
    """For each of these sets, the units with a term aᵢbᵢ of some product over them that may be other than zero.

    Each value is computed as far as the parameters alone decide it: zero times anything is zero, and behind it the
    network's own functions say what becomes of a constant.
    """
    row = program.shapes[program.x]
    values: dict[int, Masked] = {i: (jnp.asarray(a), None) for i, a in [*enumerate(arrays), *program.constants.items()]}
    values[program.x] = jnp.zeros(row, program.dtypes[program.x]), jnp.ones(row, bool)
    uses = {units: jnp.zeros(units.size, bool) for units in sets}
    for step in program.steps:
        inputs = [values[i] for i in step.takes]
        if by_features(step):
            axes = [axes_of.axes[step.takes[0]][d] for d in contracted(step)[0]]
            for axis, terms in zip(axes, _nonzero_terms(step, inputs), strict=True):
                for units, used in _split_mask(whole(axis), terms):
                    if units in uses:
                        uses[units] |= used
        values.update(zip(step.gives, _outputs(program, step, inputs), strict=True))
    return list(uses.values())


def _may_be_nonzero(value: Masked) -> Array:
    """Where it may be other than zero."""
    return value[0] != 0 if value[1] is None else (value[0] != 0) | value[1]


def _nonzero_terms(step: Step, inputs: list[Masked]) -> list[Array]:
    """For each axis summed over, where terms may be other than zero."""
    batch = step.eqn.params["dimension_numbers"][1] if step.name == "dot_general" else ((), ())
    sides = []
    for value, shared, summed in zip(inputs, batch, contracted(step), strict=True):
        nonzero, axes = _may_be_nonzero(value), (*shared, *summed)
        free = tuple(d for d in range(nonzero.ndim) if d not in axes)
        order = sorted(axes)  # the axes that are left, as they come
        sides.append(jnp.transpose(jnp.any(nonzero, axis=free), [order.index(d) for d in axes]))
    both, first = sides[0] & sides[1], len(batch[0])
    return [jnp.any(both, axis=tuple(d for d in range(both.ndim) if d != i)) for i in range(first, both.ndim)]


def _split_mask(axis: tuple[Units, ...], terms: Array) -> list[tuple[Units, Array]]:
    """A mask of an axis as one for each of the sets that it is the product of."""
    terms = terms.reshape([units.size for units in axis])
    return [(u, jnp.any(terms, axis=tuple(j for j in range(len(axis)) if j != i))) for i, u in enumerate(axis)]


def _outputs(program: Program, step: Step, inputs: list[Masked]) -> list[Masked]:
    values, masks = [value for value, _ in inputs], [mask for _, mask in inputs]
    if all(mask is None for mask in masks):
        return [(value, None) for value in bind(step.eqn, values)]
    depends = _depends(step, inputs)
    if depends is None:
        shapes = [(program.shapes[i], program.dtypes[i]) for i in step.gives]
        return [(jnp.zeros(shape, dtype), jnp.ones(shape, bool)) for shape, dtype in shapes]
    outputs = bind(step.eqn, values)
    return [(jnp.where(u, jnp.zeros_like(v), v), u) for v, u in zip(outputs, depends, strict=True)]


def _depends(step: Step, inputs: list[Masked]) -> list[Array] | None:
    """Where the outputs of a step depend on the row; None where that is not known."""
    full = [jnp.zeros(v.shape, bool) if mask is None else mask for v, mask in inputs]
    if step.name in PRODUCTS or step.name == "mul":
        if not all(jnp.issubdtype(value.dtype, jnp.floating) for value, _ in inputs):
            return None  # counting terms in few bits starts again at zero
        (a, b), (may_a, may_b) = full, [_may_be_nonzero(value) for value in inputs]
        one, two = [value.dtype for value, _ in inputs]
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

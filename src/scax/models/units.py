"""Which axes of which arrays of a network are the same units, channels for example.

A product over an axis joins what enters it with the rows of the kernel; the columns of the kernel are the axis of what
leaves it; a sum joins the axes of its terms, a reshape those that it merges. Whatever acts along an axis in any other
way (a softmax over it, a part of it cut out, an operation not known here) makes its units fixed: all of them stay.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

from .program import Program, Step

#: outputs at one place depend on the inputs at that place alone
# fmt: off
ELEMENTWISE = {
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil",
    "clamp", "convert_element_type", "copy", "copy_p", "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc",
    "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "lgamma", "log", "log1p",
    "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "not", "or", "pow", "reduce_precision", "rem",
    "round", "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh",
    "xor",
}
# fmt: on
#: the same numbers at other places
MOVES = {"broadcast_in_dim", "concatenate", "expand_dims", "pad", "reshape", "rev", "slice", "split", "squeeze"}
MOVES |= {"stack", "transpose"}
#: some axes taken together and gone
REDUCTIONS = {"argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum"}
#: pooling
WINDOWS = {"reduce_window_max", "reduce_window_min", "reduce_window_sum"}
PRODUCTS = {"conv_general_dilated", "dot_general"}


@dataclasses.dataclass(eq=False)
class Units:
    """A set of units of which some may go. `fixed`: none may. `parts`: this set turned out to be the product of these
    others, the last running fastest, or to be one other."""

    size: int
    fixed: bool = False
    parts: "tuple[Units, ...] | None" = None


Axis = tuple[Units, ...]  # the product of these; none for an axis of size 1
Axes = tuple[Axis, ...]


def whole(axis: Iterable[Units]) -> Axis:
    """An axis in terms of the sets known by now."""
    return tuple(u for units in axis for u in ((units,) if units.parts is None else whole(units.parts)))


def fix(*axes: Iterable[Units]) -> None:
    for units in whole(u for axis in axes for u in axis):
        units.fixed = True


def tie(a: Iterable[Units], b: Iterable[Units]) -> None:
    """Two axes are one: sets of one size become the same, a larger one is split; what does not fit is fixed."""
    a, b = whole(a), whole(b)
    while a and b:
        (p, *_), (q, *_) = a, b
        if p is not q:
            if p.size < q.size:
                p, q = q, p
            if q.size == 0 or p.size % q.size:
                fix(a, b)
                return
            q.fixed |= p.fixed
            rest = () if p.size == q.size else (Units(p.size // q.size, p.fixed),)
            p.parts = (q, *rest)
            a, b = whole(a), whole(b)
        a, b = a[1:], b[1:]
    fix(a, b)


def new(shape: Sequence[int], fixed: bool) -> Axes:
    """Axes not seen before."""
    return tuple(() if size == 1 else (Units(size, fixed),) for size in shape)


@dataclasses.dataclass(frozen=True)
class ProgramAxes:
    """The axes of every value of a program, and what its products make."""

    axes: list[Axes]
    neurons: int


def find(program: Program, written: bool = False) -> ProgramAxes:
    """Read the program once. `neurons` are the outputs of products of data with parameters that a later one reads.

    `written`: sizes that come from nowhere but a broadcast are numbers in the program, and fixed.
    """
    axes: list[Axes] = [()] * len(program.shapes)
    #: for values that depend on x, the products they come from directly
    origin: dict[int, set[int]] = {program.x: set()}
    outputs: dict[int, int] = {}
    read: set[int] = set()
    for i in [*range(program.x + 1), *program.constants]:
        axes[i] = new(program.shapes[i], i in program.constants)
    for place, step in enumerate(program.steps):
        shapes = [program.shapes[i] for i in step.gives]
        for i, output in zip(
            step.gives, _output_axes(step, [axes[i] for i in step.takes], shapes, written), strict=True
        ):
            axes[i] = output
        sources = [origin[i] for i in step.takes if i in origin]
        reached = set().union(*sources)
        if step.name in PRODUCTS and len(sources) == 1:
            kernel = next(k for k, i in enumerate(step.takes) if i not in origin)
            outputs[place] = math.prod(program.shapes[step.takes[kernel]][d] for d in _free(step, kernel))
            read, reached = read | reached, {place}
        if sources:
            origin |= dict.fromkeys(step.gives, reached)
    unread = set(range(program.x)).difference(*(step.takes for step in program.steps))
    fix(*(axis for i in (*program.outputs, *unread) for axis in axes[i]))
    return ProgramAxes(axes, sum(outputs[place] for place in read))


def contracted(step: Step) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of both factors over which a product sums: features, not places."""
    if step.name == "dot_general":
        return step.eqn.params["dimension_numbers"][0]
    numbers = step.eqn.params["dimension_numbers"]
    return (numbers.lhs_spec[1],), (numbers.rhs_spec[1],)


def by_features(step: Step) -> bool:
    """A product, or a convolution in which every input channel meets every output channel."""
    groups = [step.eqn.params.get(f"{kind}_group_count", 1) for kind in ("feature", "batch")]
    return step.name in PRODUCTS and groups == [1, 1]


def _free(step: Step, factor: int) -> list[int]:
    """The axes of a product's parameters that its outputs have."""
    if step.name == "conv_general_dilated":
        return [step.eqn.params["dimension_numbers"].rhs_spec[0]]
    (contract, batch), n = step.eqn.params["dimension_numbers"], len(step.eqn.invars[factor].aval.shape)
    return [d for d in range(n) if d not in contract[factor] and d not in batch[factor]]


def _output_axes(step: Step, inputs: list[Axes], shapes: list[tuple[int, ...]], written: bool) -> list[Axes]:
    """The axes of a step's outputs, those of its inputs tied or fixed on the way."""
    eqn, name = step.eqn, step.name
    if name in ELEMENTWISE:
        return [_joined([axes for axes in inputs if len(axes) == len(shapes[0])])]
    if by_features(step):
        return [_product(step, inputs[0], inputs[1], shapes[0])]
    if name in REDUCTIONS:
        gone = eqn.params["axes"]
        fix(*(inputs[0][d] for d in gone))
        return [tuple(axis for d, axis in enumerate(inputs[0]) if d not in gone)]
    if name == "transpose":
        return [tuple(inputs[0][d] for d in eqn.params["permutation"])]
    if name in ("squeeze", "expand_dims", "reshape"):
        return [_reshaped(inputs[0], shapes[0])]
    if name == "broadcast_in_dim":
        source = dict(zip(eqn.params["broadcast_dimensions"], inputs[0], strict=True))
        return [tuple(source.get(d) or axis for d, axis in enumerate(new(shapes[0], written)))]
    if name == "stack":
        (beside,), at = new(shapes[0][eqn.params["axis"] :][:1], fixed=True), eqn.params["axis"]
        joined = _joined(inputs)
        return [(*joined[:at], beside, *joined[at:])]
    acted = _acted(step)
    if acted is None:
        fix(*(axis for axes in inputs for axis in axes))
        return [new(shape, fixed=True) for shape in shapes]
    operands = [axes for axes in inputs if len(axes) == len(shapes[0])]
    fix(*(axes[d] for axes in operands for d in acted))
    joined = _joined([tuple(() if d in acted else axis for d, axis in enumerate(axes)) for axes in operands])
    outputs = [new(shape, fixed=True) for shape in shapes]
    return [tuple(axes[d] if d in acted else axis for d, axis in enumerate(joined)) for axes in outputs]


def _joined(operands: list[Axes]) -> Axes:
    """Axes of values that meet place by place; along an axis of size 1 a value is the same everywhere."""
    joined = []
    for axes in zip(*operands, strict=True):
        first, *others = [axis for axis in axes if axis] or [()]
        for other in others:
            tie(first, other)
        joined.append(first)
    return tuple(joined)


def _product(step: Step, left: Axes, right: Axes, shape: tuple[int, ...]) -> Axes:
    for i, j in zip(*contracted(step), strict=True):
        tie(left[i], right[j])
    if step.name == "dot_general":
        batch = step.eqn.params["dimension_numbers"][1]
        shared = _joined([tuple(left[d] for d in batch[0]), tuple(right[d] for d in batch[1])])
        return (*shared, *(left[d] for d in _free(step, 0)), *(right[d] for d in _free(step, 1)))
    numbers = step.eqn.params["dimension_numbers"]
    fix(*(left[d] for d in numbers.lhs_spec[2:]), *(right[d] for d in numbers.rhs_spec[2:]))
    axes = list(new(shape, fixed=True))
    axes[numbers.out_spec[0]] = left[numbers.lhs_spec[0]]
    axes[numbers.out_spec[1]] = right[numbers.rhs_spec[0]]
    return tuple(axes)


def _reshaped(inputs: Axes, shape: tuple[int, ...]) -> Axes:
    """Flattened, a set of units is part of a longer axis. Where a reshape splits one, into heads for example, the
    program has their number, and they are fixed."""
    before = whole(u for axis in inputs for u in axis)
    after = new(shape, fixed=False)
    tie(before, (u for axis in after for u in axis))
    fix(*(split for units in before if len(split := whole((units,))) > 1))
    return after


def _acted(step: Step) -> set[int] | None:
    """The axes along which a step that keeps their number does anything; None if it is not known."""
    p = step.eqn.params
    if step.name == "rev":
        return set(p["dimensions"])
    if step.name == "concatenate":
        return {p["dimension"]}
    if step.name == "split":
        return {p["axis"]}
    if step.name == "slice":
        sizes = zip(step.eqn.invars[0].aval.shape, step.eqn.outvars[0].aval.shape, strict=True)
        return {d for d, (before, after) in enumerate(sizes) if before != after}
    if step.name == "pad":
        return {d for d, added in enumerate(p["padding_config"]) if any(added)}
    if step.name in WINDOWS:
        kinds = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
        return {d for d, around in enumerate(p["padding"]) if any(around) or any(p[kind][d] != 1 for kind in kinds)}
    return None

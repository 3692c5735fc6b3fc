"""Which solver, and why: from sizes and parts known before anything compiles."""

import dataclasses
from typing import Any, ClassVar

from .. import checks
from .._struct import static, struct
from ..problem import Problem
from .base import Choice, Solver
from .conjugate_gradients import ConjugateGradients
from .cost import LARGEST_ARRAY, Dimensions, costs
from .direct import Direct
from .fista import Fista
from .semismooth import Semismooth

#: Equations up to which a direct solve is cheaper than hundreds of passes over the batch, and more exact.
LARGEST_SYSTEM = 2048
#: What the step of a training may leave to gain, as a share of what it gains.
ENOUGH = 0.1

#: The solvers by their public names. "newton" is "structured" by another name: Newton's method for whatever smooth
#: loss, in sample space, on layers where the network has them and on columns where it has not.
SOLVERS: dict[str, Solver] = {
    "weight-space": Direct("weight", "dense"),
    "sample-space": Direct("sample", "dense"),
    "structured": Direct("sample", "structured"),
    "newton": Direct("sample", "structured"),
    "cg": ConjugateGradients(),
    "fista": Fista(),
    "semismooth": Semismooth(),
}


@struct
class Auto(Solver):
    """The cheapest solver that serves the problem; `tolerance` is handed to it, None leaves it its own.

    Conjugate gradients are taken only where every direct solve is large, or where the loss is well damped. Without a
    tolerance, surrogates with a prox are solved until a tenth of the step's gain is left: the next batch's is another
    one, and trainings end no worse (docs/measurements/sparse.md).
    """

    tolerance: float | None = static(default=None)
    name: ClassVar[str] = "auto"

    def supports(self, problem: Problem) -> str | None:
        return None

    def choose(self, dimensions: Dimensions) -> Choice:
        smooth = dimensions.problem.regularizer.is_smooth
        solver, reason = _cheapest_smooth(dimensions) if smooth else _cheapest_with_prox(dimensions)
        options: dict[str, Any] = {}
        if self.tolerance is not None:
            options = {"tolerance": self.tolerance}
        elif solver.stops_on_gap:
            options = {"enough": ENOUGH}
        return Choice(dataclasses.replace(solver, **options), reason)  # type: ignore[type-var]


def as_solver(value: Any) -> Solver:
    """A solver from its name, or a Solver as it is."""
    if isinstance(value, str):
        checks.choice("solver", value, ["auto", *SOLVERS])
        return Auto() if value == "auto" else SOLVERS[value]
    if not isinstance(value, Solver):
        raise TypeError(f"solver must be a name or a scax.solvers.Solver, got {value!r}.")
    return value


def _cheapest_smooth(dimensions: Dimensions) -> tuple[Solver, str]:
    """The least multiply-adds of all that fit.

    Conjugate gradients lose time and digits as damping falls, so that only large systems are left to them, and those of
    losses that keep it high (`Loss.caution`).
    """
    table = costs(dimensions)
    fitting = {name: cost for name, cost in table.items() if cost.feasible}
    is_small = dimensions.equations <= LARGEST_SYSTEM and dimensions.problem.loss.caution <= 1
    # residuals of equations have no noise: damping falls to where conjugate gradients no longer converge
    is_small = is_small or len(dimensions.problem.names) > 1
    if is_small and len(fitting) > 1:
        del fitting["cg"]
    best = min(fitting, key=lambda name: fitting[name].multiply_adds)
    how = "one solve" if dimensions.takes_one_solve else "Newton"
    return SOLVERS[best], f"{how}: {table[best]}, the least of {', '.join(sorted(fitting))}"


def _cheapest_with_prox(dimensions: Dimensions) -> tuple[Solver, str]:
    """Newton's few small systems, unless they are large or the prox has no known derivative."""
    regularizer, side = dimensions.problem.regularizer, dimensions.equations
    name = type(regularizer).__name__
    if not regularizer.has_prox_derivative:
        return SOLVERS["fista"], f"{name} is not smooth and has a prox, whose derivative is not known"
    if side > LARGEST_SYSTEM or dimensions.rows * dimensions.outputs * dimensions.weights > LARGEST_ARRAY:
        return SOLVERS["fista"], f"{name} is not smooth, and a Newton step would solve a system of {side:,} equations"
    return SOLVERS["semismooth"], f"{name} is not smooth; Newton steps solve a system of {side:,} equations"

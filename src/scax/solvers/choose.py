"""Which solver, and why: from sizes and parts known before anything compiles."""

from typing import ClassVar

from .._struct import static, struct
from ..problem import Problem
from .base import Choice, Solver
from .cost import LARGEST_ARRAY, Setting, costs
from .fista import Fista
from .semismooth import Semismooth
from .smooth import ConjugateGradientsSolver, Newton, SampleSpaceSolver, StructuredSolver, WeightSpaceSolver

#: Equations up to which a few Newton systems are cheaper than hundreds of passes over the batch.
LARGEST_SYSTEM = 2048
#: What the step of a training may leave to gain, as a share of what it gains.
ENOUGH = 0.1

SOLVERS: dict[str, type[Solver]] = {
    cls.name: cls
    for cls in (
        WeightSpaceSolver,
        SampleSpaceSolver,
        StructuredSolver,
        ConjugateGradientsSolver,
        Newton,
        Fista,
        Semismooth,
    )
}


@struct
class Auto(Solver):
    """The cheapest solver that serves the problem; `tolerance` is handed to it, None leaves it its own.

    Without one, surrogates with a prox are solved until a tenth of the step's gain is left: the next batch's is
    another one, and trainings end no worse (docs/sparse.md).
    """

    tolerance: float | None = static(default=None)
    name: ClassVar[str] = "auto"

    def supports(self, problem: Problem) -> str | None:
        return None

    def choose(self, setting: Setting) -> Choice:
        problem = setting.problem
        if not problem.regularizer.is_smooth:
            solver, reason = _nonsmooth(setting)
            return Choice(self._made(solver), reason)
        table = costs(setting)
        feasible = {name: cost for name, cost in table.items() if cost.feasible}
        best = min(feasible, key=lambda name: feasible[name].multiply_adds)
        how = "one solve" if problem.loss.is_quadratic else "Newton"
        return Choice(self._made(SOLVERS[best]), f"{how}: {table[best]}, the least of {', '.join(sorted(table))}")

    def _made(self, solver: type[Solver]) -> Solver:
        if self.tolerance is not None:
            return solver(tolerance=self.tolerance)  # type: ignore[call-arg]
        return solver(enough=ENOUGH) if issubclass(solver, Semismooth | Fista) else solver()


def _nonsmooth(setting: Setting) -> tuple[type[Solver], str]:
    """Newton's few small systems, unless they are large or the prox has no known derivative."""
    regularizer, m, q = setting.problem.regularizer, setting.rows * setting.outputs, setting.weights
    name = type(regularizer).__name__
    if not regularizer.has_prox_derivative:
        return Fista, f"{name} is not smooth and has a prox, whose derivative is not known"
    side = min(m, q)
    if side > LARGEST_SYSTEM or m * q > LARGEST_ARRAY:
        return Fista, f"{name} is not smooth, and a Newton step would solve a system of {side:,} equations"
    return Semismooth, f"{name} is not smooth; Newton steps solve a system of {side:,} equations"

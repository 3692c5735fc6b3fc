"""Which solver, and why: from sizes and parts known before anything compiles."""

from typing import ClassVar

from .._struct import static, struct
from ..problem import Problem
from .base import Choice, Solver
from .cost import Setting, costs
from .fista import Fista
from .smooth import ConjugateGradientsSolver, Newton, SampleSpaceSolver, StructuredSolver, WeightSpaceSolver

SOLVERS: dict[str, type[Solver]] = {
    cls.name: cls
    for cls in (WeightSpaceSolver, SampleSpaceSolver, StructuredSolver, ConjugateGradientsSolver, Newton, Fista)
}


@struct
class Auto(Solver):
    """The cheapest solver that serves the problem; `tolerance` is handed to it, None leaves it its own."""

    tolerance: float | None = static(default=None)
    name: ClassVar[str] = "auto"

    def supports(self, problem: Problem) -> str | None:
        return None

    def choose(self, setting: Setting) -> Choice:
        problem = setting.problem
        if not problem.regularizer.smooth:
            return Choice(self._made(Fista), f"{type(problem.regularizer).__name__} is not smooth and has a prox")
        table = costs(setting)
        feasible = {name: cost for name, cost in table.items() if cost.feasible}
        best = min(feasible, key=lambda name: feasible[name].multiply_adds)
        how = "one solve" if problem.loss.quadratic else "Newton"
        return Choice(self._made(SOLVERS[best]), f"{how}: {table[best]}, the least of {', '.join(sorted(table))}")

    def _made(self, solver: type[Solver]) -> Solver:
        return solver() if self.tolerance is None else solver(tolerance=self.tolerance)  # type: ignore[call-arg]

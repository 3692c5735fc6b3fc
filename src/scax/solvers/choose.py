"""Which solver, and why: from sizes and parts known before anything compiles."""

from typing import ClassVar

from .._struct import struct
from ..problem import Problem
from .base import Choice, Solver
from .fista import Fista
from .smooth import ConjugateGradientsSolver, Newton, SampleSpaceSolver, StructuredSolver, WeightSpaceSolver

SOLVERS: dict[str, type[Solver]] = {
    cls.name: cls for cls in (WeightSpaceSolver, SampleSpaceSolver, StructuredSolver, ConjugateGradientsSolver, Newton, Fista)
}

#: Above this many numbers neither J nor a Gram matrix is materialized (1 GB in float32).
LARGEST_ARRAY = 2**28
#: Above this size a Cholesky costs more than the few dozen passes conjugate gradients need.
LARGEST_CHOLESKY = 4096


@struct
class Auto(Solver):
    """The cheapest solver that serves the problem."""

    name: ClassVar[str] = "auto"

    def supports(self, problem: Problem) -> str | None:
        return None

    def choose(self, problem: Problem, rows: int, outputs: int, weights: int) -> Choice:
        m, q = rows * outputs, weights
        if not problem.regularizer.smooth:
            return Choice(Fista(), f"{type(problem.regularizer).__name__} is not smooth and has a prox")
        if m * q > LARGEST_ARRAY or min(m, q) > LARGEST_CHOLESKY:
            return Choice(ConjugateGradientsSolver(), f"a {m}×{q} Jacobian is too large to materialize or factor")
        how = "one solve" if problem.loss.quadratic else "Newton"
        if m <= q:
            return Choice(SampleSpaceSolver(), f"{how} with an LK×LK = {m}×{m} matrix instead of a {q}×{q} one")
        return Choice(WeightSpaceSolver(), f"{how} with a Q×Q = {q}×{q} matrix, smaller than LK×LK = {m}×{m}")

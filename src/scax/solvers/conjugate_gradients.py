"""Smooth surrogates without any matrix."""

from typing import ClassVar

from .._struct import static, struct
from ..problem import Problem
from ..surrogate.surrogate import Surrogate
from .base import Solution, Solver, attainable
from .linear import MatrixFreeSpace
from .newton import needs_smooth, solve_smooth


@struct
class ConjugateGradients(Solver):
    """Preconditioned conjugate gradients on the smaller side, inside Newton where the loss is not quadratic.

    Only products with J and Jᵀ: for networks and batches where neither J nor JJᵀ fits. `cg_iterations` limits each
    linear solve, `max_iterations` Newton's method.
    """

    tolerance: float | None = static(default=None)
    max_iterations: int = static(default=50)
    cg_iterations: int = static(default=500)
    name: ClassVar[str] = "cg"
    form: ClassVar[str] = "matrix-free"

    def supports(self, problem: Problem) -> str | None:
        return needs_smooth(self.name, problem)

    def solve(self, surrogate: Surrogate) -> Solution:
        tolerance = attainable(self.tolerance, surrogate.w.dtype) / 10  # the solve inside must not limit Newton's
        space = MatrixFreeSpace(
            surrogate.lin, surrogate.pull, surrogate.curvature, tolerance=tolerance, max_iterations=self.cg_iterations
        )
        return solve_smooth(space, surrogate, self.tolerance, self.max_iterations)

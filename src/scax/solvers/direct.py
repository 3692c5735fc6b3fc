"""Smooth surrogates by Cholesky: in sample space or weight space, from layers or from a materialized Jacobian."""

from .. import checks
from .._struct import static, struct
from ..problem import Problem
from ..surrogate.surrogate import Surrogate
from .base import Solution, Solver
from .linear import SampleSpace, Space, WeightSpace
from .newton import needs_smooth, solve_smooth


@struct
class Direct(Solver):
    """One Cholesky per linear solve; as many solves as Newton needs, one where the loss is quadratic.

    space  "sample": a matrix of LK×LK numbers, from JJᵀ;  "weight": of Q×Q, from JᵀJ, the paper's form
    form   "structured": J parameter by parameter, as layer inputs and sensitivities where that is cheaper than columns
           of its own;  "dense": J as one array
    """

    space: str = static(default="sample")
    form: str = static(default="structured")
    tolerance: float | None = static(default=None)
    max_iterations: int = static(default=50)

    def __post_init__(self):
        checks.choice("space", self.space, ["sample", "weight"])
        checks.choice("form", self.form, ["structured", "dense"])

    @property
    def name(self) -> str:
        if self.in_sample_space:
            return "structured" if self.form == "structured" else "sample-space"
        return "weight-space"

    @property
    def in_sample_space(self) -> bool:
        return self.space == "sample"

    @property
    def uses_gram(self) -> bool:
        return self.in_sample_space

    def supports(self, problem: Problem) -> str | None:
        return needs_smooth(self.name, problem)

    def solve(self, surrogate: Surrogate) -> Solution:
        kind: type[Space] = SampleSpace if self.in_sample_space else WeightSpace
        space = kind(surrogate.lin, surrogate.pull, surrogate.curvature)
        return solve_smooth(space, surrogate, self.tolerance, self.max_iterations)

"""What a step costs with each solver: multiply-adds and numbers written, from shapes known before anything compiles.

The constants were measured in float32 on one thread of a CPU; `python -m benchmarks.cost_model` measures again.
"""

import dataclasses
import math

from ..linearize.structured import WRITE, Plan
from ..problem import Problem

#: A Cholesky of m rows and its substitutions take as long as m³/3 multiply-adds of a matrix product over this.
FACTORIZATION = 0.8
#: Conjugate gradients: iterations to expect of a linear solve, their slower products counted in.
CG_ITERATIONS = 180
#: Rows of the curvature memory are stiff: times as many.
STIFF = 4
#: Newton: linear solves to expect where the loss is not quadratic.
NEWTON_ITERATIONS = 4
#: Several directions at once through every layer: many small products take this many times as long as a large one.
SEVERAL = 8
#: A step's rules and the dispatch of its many small operations take as long as so many multiply-adds.
OVERHEAD = 5e5
#: Passes over the batch that every step takes, forward or backward, beside those of its linear algebra.
PASSES = 6
#: Above this many numbers an array is not materialized (1 GB in float32).
LARGEST_ARRAY = 2**28


@dataclasses.dataclass(frozen=True)
class Dimensions:
    """The sizes of one step: `rows` loss terms (neighbor pairs included) of `outputs` each, `weights` in a block, and
    `memory_rows` beside them (of the curvature memory, as rows of `outputs` each), whose products with each other are
    known."""

    problem: Problem
    rows: int
    outputs: int
    weights: int
    plan: Plan | None = None  # how the structured form would hold J; None where it cannot be used (blocks)
    memory_rows: int = 0
    is_quadratic: bool | None = None  # whether one solve is the solution; None: as of the loss

    @property
    def takes_one_solve(self) -> bool:
        return self.problem.loss.is_quadratic if self.is_quadratic is None else self.is_quadratic

    @property
    def equations(self) -> int:
        """Of the smaller linear system, LK or Q."""
        return min(self.rows * self.outputs, self.weights)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Multiply-adds of a step's linear algebra, and the largest array it holds."""

    multiply_adds: float
    largest: float

    @property
    def feasible(self) -> bool:
        return self.largest <= LARGEST_ARRAY

    def __str__(self) -> str:
        return f"{self.multiply_adds:.2g} multiply-adds, largest array {self.largest:.2g} numbers"


def costs(dimensions: Dimensions) -> dict[str, Cost]:
    """The cost of solving a smooth surrogate, by solver."""
    m, q = dimensions.rows * dimensions.outputs, dimensions.weights
    r = dimensions.memory_rows * dimensions.outputs
    solves = 1 if dimensions.takes_one_solve else NEWTON_ITERATIONS
    iterations = CG_ITERATIONS * (STIFF if r else 1)
    small = solves * (m + r) ** 3 / 3 / FACTORIZATION
    one_pass = q if dimensions.plan is None else dimensions.plan.one_pass  # of one row
    jacobian = m * one_pass + WRITE * m * q  # backward passes, then J written
    products = 2 * (m + r) * q  # J h and Jᵀ u
    table = {
        "weight-space": Cost(
            jacobian + products + solves * ((m + r) * q**2 + q**3 / 3 / FACTORIZATION), max(m * q, q * q)
        ),
        "sample-space": Cost(jacobian + products + m * (m + r) * q + small, max(m * q, (m + r) ** 2)),
        "cg": Cost(solves * iterations * 4 * (dimensions.rows * one_pass + r * q), q),
    }
    if dimensions.plan is not None:
        work, largest = dimensions.plan.cost(dimensions.rows, dimensions.outputs)
        if r:  # each of them through every layer
            work += SEVERAL * r * (2 * q + dimensions.rows * one_pass)
        table["structured"] = Cost(work + small, max(largest, (m + r) ** 2))
    return table


def step_cost(dimensions: Dimensions) -> float:
    """Multiply-adds of a whole step by the cheapest solver, infinite where nothing fits."""
    fitting = [cost.multiply_adds for name, cost in costs(dimensions).items() if cost.feasible and name != "cg"]
    one_pass = dimensions.weights if dimensions.plan is None else dimensions.plan.one_pass
    return OVERHEAD + PASSES * dimensions.rows * one_pass + min(fitting, default=math.inf)

"""How a step is solved, decided from shapes alone: the solver, the form of J, and whether JJᵀ is formed."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float

from ..linearize.network import NetworkFunction
from ..linearize.structured import Plan, one_row
from ..losses.base import Loss
from ..problem import Problem
from .base import Solver
from .closed_form import ClosedForm
from .cost import Dimensions, step_cost
from .quadratic import QuadraticModel

#: Directions per row that `curvature="auto"` samples: the row's gradient and a random one.
DIRECTIONS = 2
#: How many times the price of a sampled step an exact one must be for "auto" to sample; with a quadratic loss, whose
#: targets may have no noise, exact steps gain more (docs/measurements/outputs.md).
CHEAPER, CHEAPER_QUADRATIC = 4.0, 32.0


@dataclasses.dataclass(frozen=True)
class StepPlan:
    """A solver and why it was taken, and what it needs of the linearized network."""

    solver: Solver
    reason: str
    form: str  # of J
    uses_gram: bool
    dimensions: Dimensions
    directions: int | None = None  # sampled per row in place of its Hessian; None: exact
    second_order: bool = False  # the loss in its second-order model at w_n
    curvature: str = ""  # and why


def plan_step(
    solver: Solver,
    network: NetworkFunction,
    w: Float[Array, "q"] | jax.ShapeDtypeStruct,
    x: Any,
    rows: int,
    *,
    memory_rows: int = 0,
    block_width: int | None = None,
    own_batches: bool = False,
    full: bool = False,
    curvature: str | int = "exact",
    needs_exact: str | None = None,
    whole_memory: bool = False,
    adaptive: bool = False,
) -> StepPlan:
    """The plan for inputs `x` that make `rows` rows of the loss and the neighbor pairs.

    memory_rows  of the curvature memory
    block_width  weights in a block; None where all weights are solved for at once
    own_batches  every block differentiates its own rows alone
    full         the loss is linearized as well
    whole_memory a matrix of all past curvature is part of the problem
    curvature    "exact", "quadratic", "auto", or a number of sampled directions per row
    needs_exact  why "auto" keeps the loss as it is
    adaptive     the damping follows how steps do: "auto" may solve a model of the loss in its place
    """
    outputs = jax.eval_shape(network, w, x).shape[1]
    width = w.shape[0] if block_width is None else block_width
    dimensions = Dimensions(network.problem, rows, outputs, width)
    if full:
        return StepPlan(ClosedForm(), "the full linearization is solved by one prox", "matrix-free", False, dimensions)
    if whole_memory:
        reason = f"past curvature is a matrix of {width}×{width} numbers, which one Cholesky solves with"
        return StepPlan(QuadraticModel(), reason, "dense", False, dimensions)

    def sized(directions: int | None, second_order: bool = False) -> Dimensions:
        """With so many directions per row, or whole Hessians."""
        seen, one_solve = (outputs, second_order or None) if directions is None else (directions, True)
        own = dataclasses.replace(dimensions, outputs=seen, is_quadratic=one_solve)
        if block_width is not None:
            return own
        # derivatives of a network are not read as layers: J of several terms is materialized
        plan = None if len(network.problem.names) > 1 else _read(network, w, x, rows, directions)
        return dataclasses.replace(own, plan=plan, memory_rows=-(-memory_rows // seen))

    if curvature == "auto" and needs_exact is not None:
        directions, second_order, why = None, False, needs_exact
    else:
        whole_loss = _needs_whole_loss(network.problem, adaptive)
        directions, second_order, why = choose_curvature(curvature, rows, outputs, sized, whole_loss)
    dimensions = sized(directions, second_order)
    choice = solver.choose(dimensions)
    form = choice.solver.form
    if block_width is not None:
        form = "matrix-free" if own_batches else "dense"  # each block takes its columns of J, or forms its own rows
    uses_gram = choice.solver.uses_gram and block_width is None
    return StepPlan(choice.solver, choice.reason, form, uses_gram, dimensions, directions, second_order, why)


def _read(network: NetworkFunction, w: Any, x: Any, rows: int, directions: int | None) -> Plan:
    leaves = jax.eval_shape(network.split, w)
    return Plan.of(network, leaves, one_row(x), rows, directions)


def _needs_whole_loss(problem: Problem, adaptive: bool) -> str | None:
    """Why a loss of one output is not met in its second-order model; None where it may be."""
    if not adaptive:
        return "of the dampings Relative alone follows how far the model holds"
    if not problem.regularizer.is_smooth:
        return "a penalty with a corner is solved for together with the loss"
    if type(problem.loss).remainder is not Loss.remainder:
        return "rows on the straight arms of the loss have no curvature in a model"
    return None


def choose_curvature(
    curvature: str | int,
    rows: int,
    outputs: int,
    sized: Callable[[int | None], Dimensions],
    whole_loss: str | None = "asked for",
) -> tuple[int | None, bool, str]:
    """(directions sampled per row, whether the loss is met in its second-order model, why). `sized` gives a step's
    sizes with so many directions, None for the whole Hessian; `whole_loss` says why one output keeps its loss."""
    loss_is_quadratic = sized(None).takes_one_solve
    if curvature == "exact":
        return None, False, "asked for"
    if curvature == "quadratic":
        return None, not loss_is_quadratic, "asked for"
    if outputs == 1:
        if curvature != "auto" or loss_is_quadratic:
            return None, False, "one output has one direction"
        if whole_loss is not None:
            return None, False, whole_loss
        return None, True, "one solve where the loss itself takes several"
    if isinstance(curvature, str):
        if outputs <= DIRECTIONS:
            return None, False, f"{outputs} outputs have no more directions than are sampled"
        exact, sampled = step_cost(sized(None)), step_cost(sized(DIRECTIONS))
        price = (
            f"a step {exact / sampled:.2g} times the price of" if math.isfinite(exact) else "too large a system beside"
        )
        how = f"L·K = {rows * outputs:,} equations make {price} {DIRECTIONS}·L = {DIRECTIONS * rows:,}"
        is_dear = exact > (CHEAPER_QUADRATIC if loss_is_quadratic else CHEAPER) * sampled
        return (DIRECTIONS if is_dear else None), False, how
    if curvature >= outputs:
        return None, False, f"{curvature} directions are no fewer than K = {outputs} outputs"
    return int(curvature), False, "asked for"

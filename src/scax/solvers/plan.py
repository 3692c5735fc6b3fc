"""How a step is solved, decided from shapes alone: the solver, the form of J, and whether JJᵀ is formed."""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array, Float

from ..linearize.network import NetworkFunction
from ..linearize.structured import Plan
from .base import Solver
from .closed_form import ClosedForm
from .cost import Dimensions


@dataclasses.dataclass(frozen=True)
class StepPlan:
    """A solver and why it was taken, and what it needs of the linearized network."""

    solver: Solver
    reason: str
    form: str  # of J
    uses_gram: bool
    dimensions: Dimensions


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
) -> StepPlan:
    """The plan for inputs `x` that make `rows` rows of the loss and the neighbor pairs.

    memory_rows  of the curvature memory
    block_width  weights in a block; None where all weights are solved for at once
    own_batches  every block differentiates its own rows alone
    full         the loss is linearized as well
    """
    outputs = jax.eval_shape(network, w, x).shape[1]
    dimensions = Dimensions(network.problem, rows, outputs, w.shape[0] if block_width is None else block_width)
    if full:
        return StepPlan(ClosedForm(), "the full linearization is solved by one prox", "matrix-free", False, dimensions)
    if block_width is None:
        memory_rows = -(-memory_rows // outputs)
        # derivatives of a network are not read as layers: J of several terms is materialized
        plan = None if len(network.problem.names) > 1 else _read(network, w, x, rows)
        dimensions = dataclasses.replace(dimensions, plan=plan, memory_rows=memory_rows)
    choice = solver.choose(dimensions)
    form = choice.solver.form
    if block_width is not None:
        form = "matrix-free" if own_batches else "dense"  # each block takes its columns of J, or forms its own rows
    uses_gram = choice.solver.uses_gram and block_width is None
    return StepPlan(choice.solver, choice.reason, form, uses_gram, dimensions)


def _read(network: NetworkFunction, w: Any, x: Any, rows: int) -> Plan:
    leaves = jax.eval_shape(network.split, w)
    return Plan.of(network, leaves, jax.ShapeDtypeStruct(x.shape[1:], x.dtype), rows)

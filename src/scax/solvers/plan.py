"""How a step is solved: which solver, and on which form of J, decided from sizes while the step is traced."""

import dataclasses

import jax
from jaxtyping import Array, Float

from ..linearize.network import NetworkFunction
from ..linearize.structured import Plan
from .base import Solver
from .closed_form import ClosedForm
from .cost import Setting


@dataclasses.dataclass(frozen=True)
class StepPlan:
    """A solver, the form of J it works on, and why."""

    solver: Solver
    form: str  # "dense", "structured" or "matrix-free"
    uses_gram: bool  # JJᵀ of all rows is formed, and others may read from it
    reason: str
    setting: Setting | None = None  # the sizes that decided; None where there was nothing to decide


def plan_step(
    solver: Solver,
    network: NetworkFunction,
    w: Float[Array, "q"],
    rows: Array,
    loss_rows: int,
    *,
    memory_rows: int = 0,
    block_width: int | None = None,
    own_batches: bool = False,
    full: bool = False,
) -> StepPlan:
    """For `loss_rows` terms of the loss (neighbor pairs included) on these rows, beside `memory_rows` of the curvature
    memory; `block_width` weights in a block, None without blocks, whose batches are `own_batches` or one for all."""
    if full:
        return StepPlan(ClosedForm(), "matrix-free", False, "the full linearization is solved by one prox")
    outputs = jax.eval_shape(network, w, rows).shape[1]
    if block_width is not None:
        setting = Setting(network.problem, loss_rows, outputs, block_width)
    else:
        row = jax.ShapeDtypeStruct(rows.shape[1:], rows.dtype)
        layers = Plan.of(network, network.split(w), row, loss_rows)
        setting = Setting(network.problem, loss_rows, outputs, w.shape[0], layers, -(-memory_rows // outputs))
    choice = solver.choose(setting)
    if block_width is None:
        return StepPlan(choice.solver, choice.solver.jacobian, choice.solver.grams, choice.reason, setting)
    # each block takes its columns; with batches of their own, of the Jacobian of their own rows
    return StepPlan(choice.solver, "matrix-free" if own_batches else "dense", False, choice.reason, setting)

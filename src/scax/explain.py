"""What a step will do, said before it is done."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from . import checks
from .linearize.network import NetworkFunction
from .sharding import Serial
from .solvers.cost import costs
from .solvers.plan import plan_step

if TYPE_CHECKING:
    from .sca import SCA


def explain(sca: "SCA", params: PyTree, x: Any) -> str:
    """The sizes, the solver and the reason, what each solver would cost, and how the network was read."""
    state = sca.init(params)
    checks.features("x", x, state.w.dtype)
    problem, x = sca.problem, jnp.asarray(x)
    n, k = jax.eval_shape(problem.outputs, params, x).shape
    lines = [f"batch L = {n}, outputs K = {k}, weights Q = {state.w.shape[0]}"]
    loss_rows, rows = n, x
    if problem.manifold is not None:
        graph = problem.manifold.graph
        pairs = graph.pairs(jnp.zeros((graph.size, *x.shape[1:]), x.dtype), jnp.zeros(n, int))
        loss_rows, rows = n + pairs.left.shape[0], jnp.concatenate([x, pairs.extra.astype(x.dtype)])
        lines.append(f"manifold rows: {pairs.left.shape[0]} neighbor pairs beside the batch's {n} rows")
    if sca.blocks is not None and state.blocks is not None:
        lines.append(
            f"blocks: {sca.blocks.count} by {sca.blocks.by}, at most {state.blocks.index.shape[1]} weights each"
        )
    memory_rows = 0 if state.rules.memory is None else state.rules.memory.squares.shape[0]
    if memory_rows:
        lines.append(f"metric: {memory_rows} rows remembered from past batches beside the batch's {n}")
    plan = plan_step(
        (sca.parallel or Serial()).solver(sca.solver),
        NetworkFunction(problem, state.layout, state.frozen),
        state.w,
        rows,
        loss_rows,
        memory_rows=memory_rows,
        block_width=None if state.blocks is None else state.blocks.index.shape[1],
        full=sca.surrogate == "full",
    )
    lines.append(f"solver {plan.solver.name}: {plan.reason}")
    if plan.setting is not None and problem.regularizer.is_smooth:
        lines += [f"  {name}: {cost}" for name, cost in sorted(costs(plan.setting).items())]
    if plan.setting is not None and plan.setting.plan is not None and plan.form == "structured":
        lines += ["network:", *(f"  {line}" for line in plan.setting.plan.describe(plan.setting.rows, k))]
    return "\n".join(lines)

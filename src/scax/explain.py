"""What a step will do, said before it is done."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from . import checks
from .batch import Batch
from .solvers.cost import costs
from .surrogate.iteration import Iteration


def explain(sca, params: PyTree, x: Any) -> str:
    """The sizes, the solver and the reason, what each solver would cost, and how the network was read."""
    state = sca.init(params)
    checks.features("x", x, state.w.dtype)
    problem, x = sca.problem, jnp.asarray(x)
    n, k = jax.eval_shape(problem.outputs, params, x).shape
    lines = [f"batch L = {n}, outputs K = {k}, weights Q = {state.w.shape[0]}"]
    pairs = None
    if problem.manifold is not None:
        graph = problem.manifold.graph
        pairs = graph.pairs(jnp.zeros((graph.size, *x.shape[1:]), x.dtype), jnp.zeros(n, int))
        lines.append(f"manifold rows: {pairs.left.shape[0]} neighbor pairs beside the batch's {n} rows")
    if state.blocks is not None:
        lines.append(
            f"blocks: {sca.blocks.count} by {sca.blocks.by}, at most {state.blocks.index.shape[1]} weights each"
        )
    if sca.surrogate == "full":
        return "\n".join([*lines, "solver closed-form: the full linearization is solved by one prox"])
    if state.metric is not None:
        lines.append(
            f"metric: {state.metric.squares.shape[0]} rows remembered from past batches beside the batch's {n}"
        )
    setting = Iteration(problem, state, Batch(x, jnp.zeros((n, k)), None, pairs)).setting()
    choice = sca.solver.choose(setting)
    lines.append(f"solver {choice.solver.name}: {choice.reason}")
    if problem.regularizer.is_smooth:
        lines += [f"  {name}: {cost}" for name, cost in sorted(costs(setting).items())]
    if setting.plan is not None and choice.solver.jacobian == "structured":
        lines += ["network:", *(f"  {line}" for line in setting.plan.describe(setting.rows, k))]
    return "\n".join(lines)

"""What a step will do, said before it is done."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree


def explain(sca, params: PyTree, x: Any) -> str:
    """The sizes, the solver and the reason, one to a line."""
    problem = sca.problem
    layout = problem.layout(params)
    z = jax.eval_shape(problem.outputs, params, x)
    n, k = z.shape
    rows, q = n, layout.size
    if problem.manifold is not None:
        rows += n * problem.manifold.graph.neighbors.shape[1]
    lines = [f"batch L = {n}, outputs K = {k}, weights Q = {q}"]
    if rows != n:
        lines.append(f"manifold rows: {rows - n} neighbor pairs beside the batch's {n} rows")
    if sca.surrogate == "full":
        return "\n".join([*lines, "solver closed-form: the full linearization is solved by one prox"])
    if sca.blocks is not None:
        partition = sca.blocks.partition(layout, problem.regularizer, jnp.float32)
        q = partition.index.shape[1]
        lines.append(f"blocks: {sca.blocks.count} by {sca.blocks.by}, at most {q} weights each")
    choice = sca.solver.choose(problem, rows, k, q)
    return "\n".join([*lines, f"solver {choice.solver.name}: {choice.reason}"])

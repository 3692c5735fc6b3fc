"""What a step will do, in words, before it is done."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..batch import Batch
from ..linearize.network import NetworkFunction
from .base import Solver
from .cost import costs
from .plan import plan_step


def explain(
    solver: Solver,
    network: NetworkFunction,
    w: Float[Array, "q"],
    x: Any,
    *,
    memory_rows: int = 0,
    blocks: tuple[int, str, int] | None = None,
    full: bool = False,
    rules: str = "",
    curvature: str | int = "exact",
    needs_exact: str | None = None,
    whole_memory: bool = False,
    adaptive: bool = False,
) -> str:
    """The sizes of a step on inputs `x`, the solver and the reason, what each solver would cost, and how the network
    was read. `blocks` are their number, what they are made of and the weights in the largest; `rules` is a line about
    what decides between steps."""
    problem, n = network.problem, sum(leaf.shape[0] for leaf in jax.tree.leaves(x))
    pairs = None
    if problem.manifold is not None:
        graph = problem.manifold.graph
        pairs = graph.pairs(jnp.zeros((graph.size, *x.shape[1:]), x.dtype), jnp.zeros(n, int))
    rows = n + (0 if pairs is None else pairs.left.shape[0])
    width = None if blocks is None else blocks[2]
    inputs = x if pairs is None else problem.rows(Batch(x, jnp.zeros((n, 1)), None, pairs))[0]
    plan = plan_step(
        solver,
        network,
        w,
        inputs,
        rows,
        memory_rows=memory_rows,
        block_width=width,
        full=full,
        curvature=curvature,
        needs_exact=needs_exact,
        whole_memory=whole_memory,
        adaptive=adaptive,
    )
    outputs, sizes = plan.dimensions.outputs, plan.dimensions

    every = jax.eval_shape(network, w, inputs).shape[1]
    lines = [f"batch L = {n}, outputs K = {every}, weights Q = {w.shape[0]}"]
    if len(problem.names) > 1:
        each = ", ".join(f"{name} {x[name].shape[0]} rows" for name in problem.names)
        size = f"{n * outputs}×{w.shape[0]} numbers"
        lines.append(
            f"terms: {each}; J is {'never formed' if plan.form == 'matrix-free' else f'materialized ({size})'}"
        )
    if pairs is not None:
        lines.append(f"manifold rows: {pairs.left.shape[0]} neighbor pairs beside the batch's {n} rows")
    if blocks is not None:
        lines.append(f"blocks: {blocks[0]} by {blocks[1]}, at most {blocks[2]} weights each")
    if memory_rows and not full:
        lines.append(f"metric: {memory_rows} rows remembered from past batches beside the batch's {n}")
    if plan.curvature:
        how = "quadratic" if plan.second_order else "exact"
        how = how if plan.directions is None else f"{plan.directions} sampled per row"
        lines.append(f"curvature {how}: {plan.curvature}")
    if rules:
        lines.append(f"rules: {rules}")
    lines.append(f"solver {plan.solver.name}: {plan.reason}")
    if problem.regularizer.is_smooth and not full and not whole_memory:
        lines += [f"  {name}: {cost}" for name, cost in sorted(costs(sizes).items())]
    if sizes.plan is not None and plan.form == "structured":
        lines += ["network:", *(f"  {line}" for line in sizes.plan.describe(rows, outputs))]
    return "\n".join(lines)

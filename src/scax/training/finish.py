"""How a run ends exactly sparse, and how stationary its end is."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from ..problem import Problem
from ..rules.acceptance import Acceptance
from ..rules.damping import Recovering
from ..rules.sequences import Constant
from ..sca import SCA
from ..solvers import Semismooth
from ..solvers.choose import LARGEST_SYSTEM
from . import engine
from .feed import Whole

#: Steps on all rows: with the network linearized, and with the loss linearized too, where the first would be too large.
NEWTON_STEPS, GRADIENT_STEPS = 15, 200
#: Of the first, where the penalty is convexified anew at each: at least so many, and at most where they are cheap.
CONCAVE_STEPS = 60, 400
#: A step this short, against the weights, is the last.
STILL = 1e-5
#: Numbers in a Jacobian of all rows up to which it is formed (128 MB in float32).
LARGEST_JACOBIAN = 2**25
#: Multiply-adds of all Newton steps up to which they are taken, half a minute on one core, and up to which they are
#: cheap.
LARGEST_WORK, SMALL_WORK = 1.5e11, 3e9


@dataclasses.dataclass(frozen=True)
class Stationarity:
    """How far weights are from a stationary point.

    It is the distance of 0 from ∂U(w), over ‖∇ loss‖: on the weights that are not zero (their gradient), and on those
    that are (by how much the slope exceeds what the penalty can hold). Both are 0 at a stationary point.

    >>> lasso = scax.Problem(net.apply, scax.Squared(), scax.L1(1e-2))
    >>> scax.stationarity(lasso, scax.finish(lasso, params, (x, y)), (x, y)).zeros > 0  # the share of weights
    True
    """

    on: float
    off: float
    zeros: float  # share of weights that are exactly zero


def finisher(problem: Problem, rows: int, outputs: int, weights: int) -> tuple[SCA, int]:
    """(method, steps) that end on the surrogate's own minimizer, for a batch of all rows.

    During training α < 1 mixes ŵ with w_n, and averaging mixes iterates: weights shrink towards zero without reaching
    it. Here α = 1, nothing is carried or averaged, all rows take part, and a step that raises the objective is refused
    with more damping: every iterate has the zeros of its prox, and the sequence descends to a stationary point.
    """
    steps = NEWTON_STEPS if problem.regularizer.is_convex else CONCAVE_STEPS[0]
    newton = problem.regularizer.has_prox_derivative and min(rows * outputs, weights) <= LARGEST_SYSTEM
    newton = newton and rows * outputs * weights <= LARGEST_JACOBIAN
    # JᵀHJ or J D Jᵀ: once for a quadratic loss in weight space, else for each of a few Newton steps
    each = 1 if problem.loss.is_quadratic and rows * outputs > weights else 5
    work = each * rows * outputs * weights * min(rows * outputs, weights)
    newton = newton and steps * work <= LARGEST_WORK
    if not problem.regularizer.is_convex:
        steps = min(max(steps, int(SMALL_WORK / work)), CONCAVE_STEPS[1])
    options: dict[str, Any] = {
        "step_size": Constant(1.0),
        "carry": 0.0,
        "mean_power": None,
        "acceptance": Acceptance(rise=1e-12),
    }
    if newton:
        damping = Recovering(base=1e-3, rise=4.0, fall=0.5)
        return SCA(problem, damping=damping, solver=Semismooth(tolerance=1e-4, max_iterations=20), **options), steps
    damping = Recovering(base=1e-2, rise=2.0, fall=0.9)
    return SCA(problem, surrogate="full", damping=damping, **options), GRADIENT_STEPS


def finish(problem: Problem, params: PyTree, data: Any, *, steps: int | None = None) -> PyTree:
    """Params near the end of a run, moved on to a stationary point with exact zeros; unchanged for smooth penalties.

    `data` are (x, y) or (x, y, weight), all of it; `steps` on it, by default 15, 60 to 400 with a penalty that is not
    convex, or 200 cheap ones where it is large.

    >>> lasso = scax.Problem(net.apply, scax.Squared(), scax.L1(0.1))
    >>> ended = scax.finish(lasso, params, (x, y))
    >>> any(bool(jnp.any(leaf == 0)) for leaf in jax.tree.leaves(ended))
    True
    """
    if problem.regularizer.is_smooth or problem.manifold is not None:
        return params
    batch = problem.ready(params, data)
    layout = problem.layout(params)
    outputs = jax.eval_shape(problem.outputs, params, batch.x).shape[1]
    method, count = finisher(problem, batch.size, outputs, layout.size)
    feed = Whole(batch)
    carry = engine.start(method, params, feed, jax.random.key(0), until=stands_still)
    for part in engine.drive(engine.run(method, until=stands_still), carry, feed, [count if steps is None else steps]):
        carry = part.carry
    return engine.solution(method, carry.state)


def stands_still(state: Any, info: Any) -> Bool[Array, ""]:
    """Whether a step was taken that no longer moves the weights."""
    return info.accepted & (info.step_norm <= STILL * jnp.linalg.norm(state.w))


def stationarity(problem: Problem, params: PyTree, data: Any) -> Stationarity:
    """How far weights are from a stationary point of the objective.

    It is measured through the prox: w = prox_t(w − t ∇loss) at a stationary point, and (w − prox)/t is what is missing.

    >>> bool(scax.stationarity(problem, params, (x, y)).on > 0)  # an untrained network is not stationary
    True
    """
    batch = problem.ready(params, data)
    layout = problem.layout(params)
    frozen = layout.split(params)[1]
    w = layout.flatten(params)

    @jax.jit
    def missing(w):
        def loss(w):
            z = problem.outputs(layout.unflatten(w, frozen), batch.x)
            return problem.data_term(z, batch, problem.pairs(batch))

        slope = jax.grad(loss)(w)
        step = jnp.asarray(1e-3, w.dtype)
        return (w - problem.regularizer.majorizer(w).prox(w - step * slope, step)) / step, slope

    gap, slope = missing(w)
    size = jnp.maximum(jnp.linalg.norm(slope), jnp.finfo(w.dtype).tiny)
    zero = w == 0
    norm = lambda v: float(jnp.linalg.norm(v) / size)
    return Stationarity(norm(jnp.where(zero, 0, gap)), norm(jnp.where(zero, gap, 0)), float(jnp.mean(zero)))

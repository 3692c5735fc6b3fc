"""Stochastic successive convex approximation: Algorithm 1, as it is run.

ŵ       = argmin_w  ρ/L Σ_{i∈batch} l(y_i, f_i + J_i(w − w_n)) + R(w) + (1−ρ) dᵀ(w − w_n)
                    + τ‖w − w_n − β δ_prev‖² + ς‖B(w − w_n − β δ_prev)‖²
w_{n+1} = w_n + α (ŵ − w_n)
d_{n+1} = (1−ρ) d_n + ρ · 1/L Σ_{i∈B} ∇l_i(w_n)
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from . import checks
from ._struct import Number, static, struct
from .batch import Batch
from .layout import Layout
from .linearize.network import NetworkFunction
from .options import known, settle
from .problem import Problem
from .rules.acceptance import Acceptance, verdict
from .rules.curvature_memory import USUAL, LowRank, in_use
from .rules.damping import PARTIAL, Damping
from .rules.sequences import STEP_SIZE, Approach, Sequence, carry_at
from .sharding.blocks import Blocks, Partition
from .sharding.mesh import Parallel
from .solvers import Auto, Solver
from .surrogate.iteration import Iteration


@struct
class State:
    """What the next step needs. A pytree: save it, vmap it, donate it."""

    w: Float[Array, "q"]
    memory: Float[Array, "q"] | None  # d_n, None where ρ ≡ 1
    carried: Float[Array, "q"] | None  # δ_{n−1} = ŵ_n − w_{n−1}, None where β ≡ 0
    mean: Float[Array, "q"] | None  # the averaged iterate, None where it is off
    step_size: Float[Array, ""]
    averaging: Float[Array, ""]
    damping: Float[Array, ""]
    held: Any  # what the damping rule remembers
    metric: Any  # and the metric, None where there is none
    level: Float[Array, ""]  # recent level of the batch objective
    count: Int[Array, ""]
    blocks: Partition | None
    frozen: tuple
    layout: Layout = static()

    @property
    def params(self) -> PyTree:
        """The iterate, in the shape given to `init`."""
        return self.layout.unflatten(self.w, self.frozen)


@struct
class Info:
    """What a person wants to see of one step."""

    loss: Float[Array, ""]  # the batch's average loss at w_n, before the step
    step_norm: Float[Array, ""]  # ‖w_{n+1} − w_n‖
    accepted: Bool[Array, ""]
    status: Int[Array, ""]  # a scax.Status
    iterations: Int[Array, ""]
    optimality: Float[Array, ""]  # the solver's own relative residual or duality gap
    step_size: Float[Array, ""]
    averaging: Float[Array, ""]
    damping: Float[Array, ""]


@struct
class SCA:
    """The method: `init(params) -> State`, `step(State, batch) -> (State, Info)`.

    step_size   α_n: a Sequence, a number or a function of the step
    averaging   ρ_n: likewise; 1, the default, keeps no memory of past gradients
    damping     τ: a number fixes it, a Damping looks after it; left out, it suits the surrogate
    metric      the shape of the proximal term: None for τ‖·‖²; "low-rank" (or a LowRank) remembers in which directions
                past batches curved; "auto" does so for up to 1000 weights, smooth penalties and a `Relative` damping
    carry       β_n: how much of the previous displacement the proximal center carries on, a number or a function of
                the step; 0 is the paper
    mean_power  the solution averages the iterates with weights growing like n^mean_power; None: the last iterate
    surrogate   "partial" linearizes the network, "full" the loss as well
    solver      "auto", a name, or a Solver with its own options
    blocks      None, or Blocks(count, by=…, active=…, redraw=…), solved side by side
    parallel    None, or Parallel(mesh, scheme=…): the step spread over devices
    acceptance  True, False (every finite step is taken), or an Acceptance with its own bounds
    """

    problem: Problem
    _: dataclasses.KW_ONLY
    step_size: Sequence | Any = STEP_SIZE
    averaging: Sequence | Any = None
    damping: Damping | Any = PARTIAL
    metric: LowRank | Any = USUAL
    carry: Approach | Any = Approach(0.65, scale=6.0)
    mean_power: Number | None = 8.0
    surrogate: str = static(default="partial")
    solver: Solver | Any = Auto()
    blocks: Blocks | None = static(default=None)
    parallel: Parallel | None = static(default=None)
    acceptance: Acceptance | Any = Acceptance()

    def init(self, params: PyTree, batch: Any = None) -> State:
        """The state before the first step; `batch` (optional, the larger the better) starts d_0 from data."""
        layout = self.problem.layout(params)
        w, rho = self.problem.regularizer.admit(layout.flatten(params)), self.averaging
        state = State(
            w=w,
            memory=None if rho is None else jnp.zeros_like(w),
            carried=None if known(self.carry, 0) else jnp.zeros_like(w),
            mean=None if self.mean_power is None else jnp.array(w),  # a copy: a state can be donated
            step_size=jnp.asarray(self.step_size.first, w.dtype),
            averaging=jnp.asarray(1 if rho is None else rho.first, w.dtype),
            damping=jnp.asarray(self.damping.first, w.dtype),
            held=self.damping.start(w.dtype),
            metric=None if (metric := in_use(self)) is None else metric.start(w.shape[0], w.dtype),
            level=jnp.zeros((), w.dtype),
            count=jnp.asarray(0, jnp.int32),
            blocks=None if self.blocks is None else self.blocks.partition(layout, self.problem.regularizer, w.dtype),
            frozen=tuple(jnp.array(leaf) for leaf in layout.split(params)[1]),
            layout=layout,
        )
        if batch is None or rho is None:
            return state
        return dataclasses.replace(state, memory=_gradient(self, state, self.problem.ready(state.params, batch)))

    def step(self, state: State, batch: Any) -> tuple[State, Info]:
        """One iteration on a mini-batch (x, y), (x, y, weight) or Batch. Pure; compiled once per batch shape."""
        has, wants = None if state.metric is None else state.metric.squares.shape[-1], None
        if (metric := in_use(self)) is not None:
            wants = metric.rows(state.w.shape[-1])
        if has != wants:
            raise ValueError(
                f"state remembers {has or 'no'} rows of past batches, and this SCA {wants or 'none'}: make the state "
                "with this SCA's init, or give it the metric= that the state was made with."
            )
        return _step(self, state, self.problem.ready(state.params, batch))

    def solution(self, state: State) -> PyTree:
        """What to deploy: the averaged iterate, or the last one where averaging of iterates is off."""
        return state.layout.unflatten(state.w if state.mean is None else state.mean, state.frozen)

    def explain(self, params: PyTree, x: Any) -> str:
        """Which solver a batch like x gets, and why, in words."""
        from .solvers.explain import explain

        state = self.init(params)
        checks.features("x", x, state.w.dtype)
        blocks = None
        if self.blocks is not None and state.blocks is not None:
            blocks = self.blocks.count, self.blocks.by, state.blocks.index.shape[1]
        return explain(
            self.solver,
            NetworkFunction(self.problem, state.layout, state.frozen),
            state.w,
            jnp.asarray(x),
            memory_rows=0 if state.metric is None else state.metric.squares.shape[0],
            blocks=blocks,
            full=self.surrogate == "full",
        )

    def __post_init__(self):
        settle(self)


@jax.jit
def _step(sca: SCA, state: State, batch: Batch) -> tuple[State, Info]:
    sca = jax.tree.map(lambda leaf: _in_precision(leaf, state.w.dtype), sca)
    return (_iterate if sca.parallel is None else sca.parallel.spread(_iterate))(sca, state, batch)


def _iterate(sca: SCA, state: State, batch: Batch) -> tuple[State, Info]:
    """Algorithm 1, one iteration. Symbols as at the top of this file; w is w_n, δ is ŵ − w_n."""
    w, n = state.w, state.count
    α, ρ = state.step_size, state.averaging
    now = Iteration(sca.problem, state, batch, sca.blocks, sca.parallel)

    # the network, linearized; the convex problem that remains; its solution
    lin = now.linearize(sca.solver, sca.surrogate)
    τ, held = sca.damping.at(state.held, n, now.measures(lin))
    memory = None if state.memory is None else (1 - ρ) * state.memory
    carried = None if state.carried is None else carry_at(sca.carry, n) * state.carried
    ς, metric = (None, None) if sca.metric is None or state.metric is None else now.remember(sca.metric, lin)
    solution = now.solve(now.surrogate(lin, ρ, memory, carried, τ, ς, metric))
    δ = solution.delta

    # the step, if it is one to take
    proposal = w + α * δ
    step_norm = α * jnp.linalg.norm(δ)
    level = state.level
    lost = inaccurate = rose = jnp.asarray(False)
    if sca.acceptance is not None:
        before = now.objective(lin)
        if (mean := state.mean) is not None:
            lost = sca.acceptance.lost(before, level, n, lambda: now.objective_at(mean))
        level = jnp.where(lost, level, sca.acceptance.track(level, before, n))
        inaccurate = sca.acceptance.inaccurate(solution.optimality)
        rose = sca.acceptance.rose(before, now.objective_at(proposal), level)
    accepted, status = verdict(jnp.isfinite(step_norm), solution.status, inaccurate, rose, lost)
    taken = lambda new, old: jnp.where(accepted, new, old)

    # what the next step needs
    τ_next, held = sca.damping.judged(held, τ, accepted)
    w_next = taken(proposal, w if state.mean is None else jnp.where(lost, state.mean, w))
    following = dataclasses.replace(
        state,
        w=w_next,
        memory=None
        if state.memory is None
        else now.finite((1 - ρ) * state.memory + ρ * now.gradient(lin), state.memory),
        carried=None if carried is None else taken(δ, 0),
        mean=None
        if state.mean is None or sca.mean_power is None
        else state.mean + (w_next - state.mean) * (sca.mean_power + 1) / (n + sca.mean_power + 1),
        step_size=sca.step_size.next(α, n).astype(w.dtype),
        averaging=ρ if sca.averaging is None else sca.averaging.next(ρ, n).astype(w.dtype),
        damping=τ_next,
        held=held,
        metric=metric,
        level=level,
        count=n + 1,
    )
    info = Info(
        now.loss(lin),
        taken(step_norm, 0),
        accepted,
        status,
        solution.iterations,
        solution.optimality,
        α,
        ρ,
        τ,
    )
    return following, info


@jax.jit
def _gradient(sca: SCA, state: State, batch: Batch) -> Float[Array, "q"]:
    """1/L Σ ∇l_i(w): the start of the memory from data."""
    now = Iteration(sca.problem, state, batch)
    return now.gradient(now.linearize(sca.solver, "full"))


def _in_precision(leaf, dtype):
    """Strengths and rates live in the weights' precision."""
    leaf = jnp.asarray(leaf)
    return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

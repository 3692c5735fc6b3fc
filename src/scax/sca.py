"""Stochastic successive convex approximation: Algorithm 1, as it is run.

ŵ       = argmin_w  ρ/L Σ_{i∈batch} l(y_i, f_i + J_i(w − w_n)) + R(w) + (1−ρ) dᵀ(w − w_n)
                    + τ‖w − w_n − β δ_prev‖² + ς‖B(w − w_n − β δ_prev)‖²
w_{n+1} = w_n + α (ŵ − w_n)
d_{n+1} = (1−ρ) d_n + ρ · 1/L Σ_{i∈B} ∇l_i(w_n)
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from . import checks, rules
from ._struct import Number, static, struct
from .batch import Batch, TermBatch
from .linearize.network import NetworkFunction
from .options import active_rules, needs_exact_curvature, resolve_options
from .problem import Problem
from .rules.acceptance import Trial
from .rules.base import Outcome, Reading, Rule, Seen
from .rules.curvature_memory import AUTOMATIC, CurvatureMatrix, CurvatureMemory, FullMatrix, LowRank, keeps_matrix
from .rules.damping import Relative
from .sharding import Blocks, Parallel, Serial, solve_in_blocks
from .solvers import Auto, Solver
from .solvers.plan import plan_step
from .state import Info, State
from .surrogate import (
    AnySurrogate,
    LinearizedBatch,
    build_linear_surrogate,
    build_quadratic_surrogate,
    build_surrogate,
)
from .surrogate.sampled import step_key


@struct
class SCA:
    """The method: `init(params) -> State`, `step(State, batch) -> (State, Info)`.

    clock       what the rules that are left out read instead of the step: None, the default, for one that stands still
                while fresh batches improve (`rules.Progress`), or a Rule such as `rules.StepCount()`
    step_size   α_n: a Sequence, a number or a function of the step; None falls like t^−.55 with the clock's time
    averaging   ρ_n: likewise; 1, the default, keeps no memory of past gradients
    damping     τ: a number fixes it, a Rule adapts it; None, the default, is the rule that suits the surrogate
    metric      the shape of the proximal term: None for τ‖·‖²; "low-rank" (or a LowRank) remembers in which directions
                past batches curved; "full" (or a rules.FullMatrix) all of past curvature, a Q×Q matrix, with rules for
                residuals without noise (`train` takes it where all points are drawn anew); "auto" is "low-rank" for
                up to 1000 weights, smooth penalties and a `Relative` damping
    carry       β_n: how much of the previous displacement the proximal center carries on, a number or a function of
                the step; None approaches 1 with the clock's time; 0 is the paper
    mean_power  the solution averages the iterates with weights growing like n^mean_power; None: the last iterate
    surrogate   "partial" linearizes the network, "full" the loss as well
    solver      "auto", a name, or a Solver with its own options
    blocks      None, or Blocks(count, by=…, active=…, redraw=…), solved side by side
    parallel    None, or Parallel(mesh, scheme=…): the step spread over devices
    acceptance  True, False (every finite step is taken), or an Acceptance with its own bounds
    curvature   how much of the loss each row brings into the problem: "exact", all of it; "quadratic", its second-order
                model at w_n, one linear solve; r, a whole number: r directions of that model per row, the
                gradient exact, L·r equations in place of L·K; "auto", the default: two directions where that makes the
                step clearly cheaper, else exact, with one output and a damping that adapts quadratic
    all_rows    whether every batch holds all rows: what is left out is then Levenberg–Marquardt's (α = 1, β = 0, τ by
                the gain ratio, the last iterate), and `info.status` says when nothing is left to gain; `train` sets it

    >>> sca = scax.SCA(problem)
    >>> state = sca.init(params)
    >>> state, info = sca.step(state, (x, y))  # pure: for jit, scan and vmap
    >>> bool(info.accepted), float(problem.objective(state.params, x, y)) < float(problem.objective(params, x, y))
    (True, True)
    >>> deploy = sca.solution(state)  # the averaged iterate: the same pytree as params
    """

    solves_prox: ClassVar[bool] = True  # the surrogate contains R itself: a run may end with exact zeros

    problem: Problem
    _: dataclasses.KW_ONLY
    clock: Rule | None = None
    step_size: Any = None
    averaging: Any = None
    damping: Rule | Any = None
    metric: LowRank | FullMatrix | Any = AUTOMATIC
    carry: Any = None
    mean_power: Number | None = 8.0
    surrogate: str = static(default="partial")
    solver: Solver | Any = Auto()
    blocks: Blocks | None = static(default=None)
    parallel: Parallel | None = static(default=None)
    acceptance: Any = True
    curvature: str | int = static(default="auto")
    all_rows: bool = static(default=False)

    def __post_init__(self):
        resolve_options(self)

    def init(self, params: PyTree, batch: Any = None) -> State:
        """The state before the first step; `batch` (optional, the larger the better) starts d_0 from data."""
        layout, regularizer = self.problem.layout(params), self.problem.regularizer
        w, active = regularizer.validate_start(layout.flatten(params)), active_rules(self)
        state = State(
            w=w,
            memory=None if active.averaging is None else jnp.zeros_like(w),
            carried=None if active.carry is None else jnp.zeros_like(w),
            mean=None if active.iterate_average is None else jnp.array(w),
            rules=rules.init(active, w),
            damping=jnp.zeros((), w.dtype),
            count=jnp.asarray(0, jnp.int32),
            blocks=None if self.blocks is None else self.blocks.partition(layout, regularizer, w.dtype),
            frozen=tuple(jnp.array(leaf) for leaf in layout.split(params)[1]),
            layout=layout,
        )
        if batch is None or state.memory is None:
            return state
        return dataclasses.replace(state, memory=_gradient(self, state, self.problem.ready(params, batch)))

    def on_all_rows(self) -> "SCA":
        """The same method for batches that hold all rows; itself where steps are random or stale all the same: with
        blocks that are drawn, a memory of past gradients, or the loss linearized."""
        drawn = self.blocks is not None and (self.blocks.active is not None or self.blocks.own_batch)
        if drawn or self.averaging is not None or self.surrogate == "full":
            return self
        return dataclasses.replace(self, all_rows=True)

    def on_fresh_points(self, params: PyTree, rows: int) -> "SCA":
        """The same method for points that are drawn anew at every step, `rows` of them; itself where parts were chosen
        that a matrix of past curvature cannot stand beside, or where that is too large."""
        others = (self.blocks, self.parallel, self.averaging, self.carry, self.step_size, self.damping, self.clock)
        is_plain = all(part is None for part in others) and isinstance(self.solver, Auto)
        is_plain = is_plain and isinstance(self.metric, LowRank) and self.metric.automatic
        is_plain = is_plain and self.curvature in ("auto", "exact")
        fits = keeps_matrix(self.problem.layout(params).size, rows)
        if not (is_plain and fits and self.surrogate == "partial" and self.problem.regularizer.is_smooth):
            return self
        return dataclasses.replace(self, metric=FullMatrix())

    def step(self, state: State, batch: Any) -> tuple[State, Info]:
        """One iteration on a mini-batch (x, y), (x, y, weight) or Batch. Pure; compiled once per batch shape."""
        if not isinstance(state, State):
            raise TypeError(
                f"step takes a State and got {type(state).__name__}: state = sca.init(params), then "
                "state, info = sca.step(state, batch)."
            )
        return _step(self, state, self.problem.batch(batch))

    def solution(self, state: State) -> PyTree:
        """What to deploy: the averaged iterate, or the last one where averaging of iterates is off."""
        w = state.w
        if state.mean is not None and state.rules.iterate_average is not None:
            w = state.mean + (w - state.mean) * state.rules.iterate_average.untried
        return state.layout.unflatten(w, state.frozen)

    def explain(self, params: PyTree, x: Any) -> str:
        """Which solver a batch like x gets, and why, and what decides between steps, in words.

        Of a problem of terms x is a dictionary; a function of a key in place of rows stands for points drawn anew at
        every step, beside which tables give all their rows.
        """
        from .solvers.explain import explain

        if self.problem.names and isinstance(x, Mapping) and any(map(callable, x.values())):
            drawn = {name: rows(jax.random.key(0)) if callable(rows) else rows for name, rows in x.items()}
            fresh = self.on_fresh_points(params, self.problem.batch(drawn).size)
            return fresh.explain(params, drawn)
        state = self.init(params)
        rows = self.problem.batch(x) if self.problem.names else None
        if rows is None:
            checks.features("x", x, state.w.dtype)
        blocks = None
        if self.blocks is not None and state.blocks is not None:
            blocks = self.blocks.count, self.blocks.by, state.blocks.index.shape[1]
        return explain(
            (self.parallel or Serial()).solver(self.solver),
            NetworkFunction(self.problem, state.layout, state.frozen),
            state.w,
            jnp.asarray(x) if rows is None else jax.tree.map(jnp.asarray, rows.x),
            memory_rows=_memory_rows(state),
            whole_memory=isinstance(state.rules.memory, CurvatureMatrix),
            blocks=blocks,
            full=self.surrogate == "full",
            curvature=self.curvature,
            needs_exact=needs_exact_curvature(self),
            adaptive=isinstance(active_rules(self).damping, Relative),
            rules=f"{active_rules(self).clock.explain()}; damping {type(active_rules(self).damping).__name__}",
        )


@jax.jit
def _step(sca: SCA, state: State, batch: Any) -> tuple[State, Info]:
    sca = jax.tree.map(lambda leaf: _in_precision(leaf, state.w.dtype), sca)
    # shapes and dtypes alone, while the step is traced: it costs nothing afterwards
    _check_memory(sca, state)
    batch = sca.problem.conform(state.params, batch, state.w.dtype)
    return (sca.parallel or Serial()).spread(_iterate)(sca, state, batch)


def _iterate(sca: SCA, state: State, batch: Batch | TermBatch) -> tuple[State, Info]:
    """Algorithm 1, one iteration. Symbols as at the top of this file; w is w_n, δ is ŵ − w_n."""
    w, n, active = state.w, state.count, active_rules(sca)

    # the network, linearized on the batch, and what the rules make of it
    linearized, solver = _linearize(sca, state, batch)
    linearized, rule_states = _weigh_terms(linearized, active, state)
    seen = _observe(linearized, state)
    proposal, rule_states = rules.propose(active, rule_states, seen)
    α, ρ, time = proposal.step_size, proposal.averaging, proposal.clock.time

    # the convex problem that remains, and its solution
    surrogate = _build(sca, state, linearized, proposal)
    solution = solve_in_blocks(solver, surrogate, sca.blocks, state.blocks, n, sca.parallel or Serial())
    δ = solution.delta

    # what the batch says of w_n, which was not fitted to it, and of the averaged iterate
    alarm, mean, at_mean = active.acceptance.alarm(state.rules.acceptance, seen), state.mean, None
    average, so_far = active.iterate_average, rule_states.iterate_average
    if mean is not None and average is not None and so_far is not None:
        mean, at_mean, average_state = average.judge(
            so_far, mean, w, seen, proposal.clock, alarm, linearized.objective_at
        )
        rule_states = dataclasses.replace(rule_states, iterate_average=average_state)

    # the step, if it is one to take
    w_new = w + α * δ
    step_norm = α * jnp.linalg.norm(δ)
    after, predicted = partial(linearized.objective_at, w_new), partial(linearized.predicted_at, w_new)
    pull = jnp.zeros((), w.dtype) if state.carried is None else proposal.pull(state.carried)
    trial = Trial(solution.status, solution.optimality, step_norm, jnp.linalg.norm(w), after, predicted, at_mean, pull)
    (accepted, restored, status), acceptance = active.acceptance.decide(state.rules.acceptance, seen, trial)
    w_next = jnp.where(accepted, w_new, w if mean is None else jnp.where(restored, mean, w))

    # what the next step needs
    outcome = Outcome(n, accepted, step_norm, seen.objective, after, predicted)
    clock = jax.tree.map(partial(jnp.where, restored), state.rules.clock, rule_states.clock)  # those weights are gone
    rule_states = dataclasses.replace(rule_states, clock=clock, acceptance=acceptance)
    rule_states = rules.update(active, rule_states, outcome)
    memory = state.memory
    if memory is not None:
        memory = _if_finite((1 - ρ) * memory + ρ * linearized.gradient(), memory)
    following = dataclasses.replace(
        state,
        w=w_next,
        memory=memory,
        carried=None if state.carried is None else jnp.where(accepted, δ, 0),
        mean=mean,
        rules=rule_states,
        damping=proposal.damping,
        count=n + 1,
    )
    info = Info(
        loss=linearized.loss(),
        objective=seen.objective,
        step_norm=jnp.where(accepted, step_norm, 0),
        accepted=accepted,
        status=status,
        iterations=solution.iterations,
        optimality=solution.optimality,
        step_size=α,
        averaging=ρ,
        damping=proposal.damping,
        clock=time,
        multiplier=proposal.clock.multiplier,
        reported=rules.report(active, rule_states),
        terms=linearized.term_losses(),
    )
    return following, info


def convex_problem(sca: SCA, state: State, batch: Any) -> tuple[AnySurrogate, Solver]:
    """The convex problem of the next step on a batch, and the solver that it gets."""
    linearized, solver = _linearize(sca, state, sca.problem.ready(state.params, batch))
    linearized, rule_states = _weigh_terms(linearized, active_rules(sca), state)
    proposal, _ = rules.propose(active_rules(sca), rule_states, _observe(linearized, state))
    return _build(sca, state, linearized, proposal), solver


def _build(sca: SCA, state: State, linearized: LinearizedBatch, proposal: rules.Proposal) -> AnySurrogate:
    parts = linearized, proposal, state.memory, state.carried
    if isinstance(proposal.memory, CurvatureMatrix):
        return build_quadratic_surrogate(*parts)
    return build_linear_surrogate(*parts) if sca.surrogate == "full" else build_surrogate(*parts)


def _linearize(sca: SCA, state: State, batch: Batch | TermBatch) -> tuple[LinearizedBatch, Solver]:
    """f and J on all rows of the batch, J in the form that the solver of this step works on; and that solver."""
    devices, problem, w = sca.parallel or Serial(), sca.problem, state.w
    network = NetworkFunction(problem, state.layout, state.frozen)
    rows, pairs = problem.rows(batch)
    plan = plan_step(
        devices.solver(sca.solver),
        network,
        w,
        rows,
        batch.size + (0 if pairs is None else pairs.left.shape[0]),
        memory_rows=_memory_rows(state),
        whole_memory=isinstance(state.rules.memory, CurvatureMatrix),
        block_width=None if state.blocks is None else state.blocks.index.shape[1],
        own_batches=sca.blocks is not None and sca.blocks.own_batch,
        full=sca.surrogate == "full",
        curvature=sca.curvature,
        needs_exact=needs_exact_curvature(sca),
        adaptive=isinstance(active_rules(sca).damping, Relative),
    )
    outputs_at = lambda w: devices.outputs(network, w, rows)
    make = partial(LinearizedBatch.of, problem, w, batch, pairs, outputs_at=outputs_at)
    if plan.directions is None:
        return make(devices.linearize(network, w, rows, plan), second_order=plan.second_order), plan.solver

    def directions(z):
        y = problem.targets(batch, z.shape[1], z.dtype)
        return problem.loss.directions(z, y, step_key(state.count), plan.directions)

    whole, lin = devices.sample(network, w, rows, plan, directions)
    return make(whole, sampled=lin), plan.solver


def _memory_rows(state: State) -> int:
    """Rows of past curvature that stand beside the batch's."""
    memory = state.rules.memory
    return memory.squares.shape[0] if isinstance(memory, CurvatureMemory) else 0


def _weigh_terms(
    linearized: LinearizedBatch, active: rules.Rules, state: State
) -> tuple[LinearizedBatch, rules.RuleStates]:
    """The weights of the terms come first: the objective that the other rules see depends on them."""
    if active.weights is None or state.rules.weights is None:
        return linearized, state.rules
    ω, after = active.weights.propose(state.rules.weights, _observe(linearized, state))
    return linearized.with_weights(ω), dataclasses.replace(state.rules, weights=after)


def _observe(linearized: LinearizedBatch, state: State) -> Seen:
    """What the rules may know of the batch."""
    n = state.count
    return Seen(
        step=n,
        rows=linearized.effective_rows(),
        objective=linearized.objective(),
        caution=linearized.caution,
        curvature=lambda: linearized.curvature(n),
        spread=lambda: linearized.spread(n),
        weighted_rows=lambda few: linearized.weighted_rows(few, n),
        along=lambda: linearized.along(state.carried),
        clock=Reading.of_step(n, linearized.w.dtype),
        gauss_newton=linearized.gauss_newton,
        curvature_left=linearized.curvature_left,
        term_curvatures=lambda: linearized.term_curvatures(n),
    )


@jax.jit
def _gradient(sca: SCA, state: State, batch: Batch | TermBatch) -> Float[Array, "q"]:
    """1/L Σ ∇l_i(w): the start of the memory from data."""
    linear = dataclasses.replace(sca, surrogate="full", curvature="auto", metric=None)
    return _linearize(linear, state, batch)[0].gradient()


def check_sca(value: Any) -> None:
    """Refuse another method where nothing but an SCA can serve."""
    if isinstance(value, SCA):
        return
    if hasattr(value, "update") and hasattr(value, "init"):
        raise TypeError(
            "sca must be a scax.SCA, got an optax optimizer: train with it by "
            "scax.train(scax.baseline(optimizer, problem), params, data, steps=...)."
        )
    raise TypeError(f"sca must be a scax.SCA, got {value!r}.")


def _check_memory(sca: SCA, state: State) -> None:
    """Refuse a state made with another curvature memory."""
    memory, own = active_rules(sca).memory, state.rules.memory
    expected = memory.row_count(state.w.shape[-1]) if isinstance(memory, LowRank) else 0
    rows = _memory_rows(state)
    if rows != expected or isinstance(memory, FullMatrix) != isinstance(own, CurvatureMatrix):
        raise ValueError(
            f"state remembers {rows or 'no'} rows of past batches, and this SCA {expected or 'none'}: make the state "
            "with this SCA's init, or give it the metric= that the state was made with."
        )


def _if_finite(new: Float[Array, "q"], old: Float[Array, "q"]) -> Float[Array, "q"]:
    """The new vector, unless it has a value that is not finite."""
    return jnp.where(jnp.all(jnp.isfinite(new)), new, old)


def _in_precision(leaf: Any, dtype: Any) -> Array:
    """Strengths and rates live in the weights' precision."""
    leaf = jnp.asarray(leaf)
    return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

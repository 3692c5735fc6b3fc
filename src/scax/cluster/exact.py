"""The server of exact rounds: it adds up what sites send, solves, and steps; a method for the engine.

A round sends the trial weights w + δ to the sites; those that answer send their `Statistics` there.

    δ       = argmin_δ  1/n (bᵀδ + ½δᵀAδ) + R(w + δ) + τ‖δ‖²        A, b, n the totals at w
    w ← w + δ  if the objective of all sites falls there; τ by the gain ratio, as with all rows in one place

The first round has no totals yet and tries w itself. A site that does not answer, or whose sums cannot be right, is
spoken for by its last model, seen from the new weights: what it has to say is late, not lost.

Sums without bounds (not finite, or out of all proportion) may come of a step too long: the step is refused, the site
is not, and a shorter one is tried. Where they come `FORGIVEN` times in a row, the next round sends w itself, where the
site's sums were right and no step can be to blame. If they are right again, steps go on getting shorter; if not, the
site is left out, and nothing is forgiven it until it has been right once.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import rules
from .._struct import static, struct
from ..batch import Batch
from ..layout import Layout
from ..linearize.dense import Dense
from ..linearize.network import NetworkFunction
from ..losses import Squared
from ..options import active_rules
from ..problem import Problem
from ..rules.acceptance import Trial
from ..rules.base import Outcome, Reading, Seen
from ..rules.damping import GainRatio
from ..rules.rules import RuleStates
from ..sca import SCA
from ..solvers import Fista, QuadraticModel, Semismooth, Solver
from ..solvers.base import Solution
from ..status import Status
from ..surrogate.datafit import Datafit
from ..surrogate.surrogate import LinearSurrogate, QuadraticSurrogate, Surrogate
from .sites import Round, Sites
from .statistics import LEAP, Reason, Statistics, find_reasons, numbers_sent, site_statistics

#: As with all rows in one place, and more of it at first: a refused step is a round lost.
DAMPING = GainRatio(share=1e-2)
#: Rounds in a row in which the step is blamed for the sums of one site, before w itself is sent.
FORGIVEN = 2
#: What a step too long may be the reason of.
UNBOUNDED = (Reason.NOT_FINITE, Reason.LEAP, Reason.UNLIKE)


@struct
class ServerState:
    """What the server keeps between two rounds."""

    w: Float[Array, "q"]
    models: Statistics  # of every site, seen from w
    has_answered: Bool[Array, "sites"]  # it has answered once
    fresh: Bool[Array, "sites"]  # its model was made at w itself
    refused: Int[Array, "sites"]  # rounds in which its sums could not be right
    reason: Int[Array, "sites"]  # why, the last time: a `Reason`
    is_bad: Bool[Array, "sites"]  # they could not when it answered last
    forgiven: Int[Array, "sites"]  # rounds in a row in which the step was blamed for them
    rules: RuleStates
    count: Int[Array, ""]
    frozen: tuple
    layout: Layout = static()

    @property
    def params(self) -> PyTree:
        return self.layout.unflatten(self.w, self.frozen)


@struct
class RoundInfo:
    """What a round reports."""

    accepted: Bool[Array, ""]
    status: Int[Array, ""]
    damping: Float[Array, ""]
    answered: Int[Array, ""]
    left_out: Int[Array, ""]
    overflowed: Int[Array, ""]
    reason: Int[Array, "sites"]  # why their sums were not used: a `Reason`
    bytes_up: Float[Array, ""]
    bytes_down: Float[Array, ""]
    is_end: Bool[Array, ""]

    @property
    def records(self) -> dict[str, Array]:
        names = ("accepted", "damping", "answered", "left_out", "overflowed", "bytes_up", "bytes_down")
        return {name: getattr(self, name) for name in names}


@struct
class ExactRounds:
    """`init`, `step` and `solution` like SCA's; a step is a round, its batch a `Round`."""

    solves_prox: ClassVar[bool] = True

    problem: Problem
    sites: int = static()

    def init(self, params: PyTree) -> ServerState:
        layout = self.problem.layout(params)
        w = self.problem.regularizer.validate_start(layout.flatten(params))
        no = jnp.zeros(self.sites, bool)
        return ServerState(
            w=w,
            models=Statistics.zeros(self.sites, w),
            has_answered=no,
            fresh=no,
            refused=jnp.zeros(self.sites, jnp.int32),
            reason=jnp.zeros(self.sites, jnp.int32),
            is_bad=no,
            forgiven=jnp.zeros(self.sites, jnp.int32),
            rules=rules.init(self._rules(), w),
            count=jnp.zeros((), jnp.int32),
            frozen=tuple(jnp.array(leaf) for leaf in layout.split(params)[1]),
            layout=layout,
        )

    def solution(self, state: ServerState) -> PyTree:
        return state.params

    def objective(self, state: ServerState) -> Float[Array, ""]:
        """U at w, as far as the sites have said."""
        total = state.models.total()
        return total.loss / jnp.where(total.rows > 0, total.rows, 1) + self.problem.regularizer.value(state.w)

    def step(self, state: ServerState, batch: Round) -> tuple[ServerState, RoundInfo]:
        """One round: where to go, what the sites say of it, and whether to stay there."""
        proposed = propose(self.problem, self._rules(), state)
        trial = state.w + proposed[0]
        network = NetworkFunction(self.problem, state.layout, state.frozen)
        sent = batch.gather(lambda rows: site_statistics(network, trial, rows, state.count), state.models)
        return receive(self.problem, self._rules(), state, *proposed, sent, batch.answered)

    def trial(self, state: ServerState) -> Float[Array, "q"]:
        """What the server sends, where the sites are other processes."""
        return state.w + propose(self.problem, self._rules(), state)[0]

    def receive(
        self, state: ServerState, sent: Statistics, answered: Bool[Array, "sites"]
    ) -> tuple[ServerState, RoundInfo]:
        """And what becomes of their answers."""
        proposed = propose(self.problem, self._rules(), state)
        return receive(self.problem, self._rules(), state, *proposed, sent, answered)

    def prepare(self, batch: Batch) -> Sites:
        """A site's rows, for its answers."""
        return Sites.of([batch])

    def answer(
        self, params: PyTree, w: Float[Array, "q"], rows: Sites, count: Int[Array, ""], site: Int[Array, ""]
    ) -> Statistics:
        """What a site sends back, in its own process."""
        layout = self.problem.layout(params)
        network = NetworkFunction(self.problem, layout, layout.split(params)[1])
        compute = lambda piece: site_statistics(network, w, piece, count)
        sums = Round(rows.pieces, rows.owner, jnp.ones(1, bool)).gather(compute, Statistics.zeros(1, w))
        return jax.tree.map(lambda leaf: leaf[0], sums)

    def nothing(self, w: Float[Array, "q"]) -> Statistics:
        """What stands for a site that sent nothing of use."""
        return jax.tree.map(lambda leaf: leaf[0], Statistics.zeros(1, w))

    def _rules(self) -> rules.Rules:
        """Those of all rows in every batch."""
        return active_rules(SCA(self.problem, damping=DAMPING).on_all_rows())


def tries_no_step(state: ServerState) -> Bool[Array, ""]:
    """Whether the sites are asked at w itself: for the first time, or to know whether steps or a site are to blame."""
    return ~jnp.any(state.has_answered) | jnp.any(state.forgiven >= FORGIVEN)


def propose(problem: Problem, active: rules.Rules, state: ServerState):
    """δ on the totals, and what the rules made of them."""
    total = state.models.total()
    n = jnp.where(total.rows > 0, total.rows, 1)
    seen = _observe(problem, state, total, n)
    proposal, remembered = rules.propose(active, state.rules, seen)
    solution = solve(problem, state.w, total.gradient / n, total.hessian / n, proposal.damping)
    delta = jnp.where(tries_no_step(state), 0, proposal.step_size * solution.delta)
    return delta, proposal, seen, solution, remembered


def solve(
    problem: Problem,
    w: Float[Array, "q"],
    slope: Float[Array, "q"],
    hessian: Float[Array, "q q"],
    damping: Float[Array, ""],
) -> Solution:
    """argmin_δ  slopeᵀδ + ½δᵀAδ + R(w + δ) + τ‖δ‖², by the solvers that serve every step.

    With a smooth R one Cholesky of A itself. Else A = MᵀM makes the quadratic a squared loss of Q rows: ½‖Mδ‖²,
    M = √Λ Vᵀ from A = VΛVᵀ. In float32 that costs a digit.
    """
    regularizer = problem.regularizer.majorizer(w)
    if regularizer.is_smooth:
        ridge = regularizer.ridge
        rest = LinearSurrogate(w, slope + ridge * w, damping + ridge / 2, regularizer)
        return QuadraticModel().solve(QuadraticSurrogate(rest, hessian / 2))
    values, vectors = jnp.linalg.eigh(hessian)
    rows = jnp.sqrt(jnp.maximum(values, 0))[:, None] * vectors.T
    zero = jnp.zeros((rows.shape[0], 1), w.dtype)
    datafit = Datafit(Squared(), zero, jnp.full(rows.shape[0], 0.5, w.dtype))
    surrogate = Surrogate.of(datafit, Dense(zero, rows[:, None, :]), w, slope, None, damping, regularizer)
    solver: Solver = Semismooth() if regularizer.has_prox_derivative else Fista()
    return solver.solve(surrogate)


def receive(problem, active, state, delta, proposal, seen, solution, remembered, sent: Statistics, replied):
    """The state after a round in which the sites have sent their sums at w + δ."""
    asked = dataclasses.replace(sent, rows=jnp.where(replied, sent.rows, 0))
    n, penalty = jnp.sum(state.models.rows), problem.regularizer.value(state.w)
    most = LEAP * (jnp.sum(jnp.abs(state.models.loss)) + n * jnp.abs(penalty))
    reason = jnp.where(replied, find_reasons(asked, state.models, most, isinstance(problem.loss, Squared)), 0)
    at_w, valid, wrong = tries_no_step(state), replied & (reason == 0), reason > 0
    overflowed = wrong & jnp.isin(reason, jnp.asarray(UNBOUNDED)) & state.has_answered & ~state.is_bad & ~at_w
    bad = wrong & ~overflowed
    sent = jax.tree.map(lambda leaf: jnp.where(jnp.isfinite(leaf), leaf, 0), sent)
    w, included = state.w, state.has_answered
    trial_w = w + delta
    predictions = state.models.shift(delta)
    at_trial = sent.where(valid, predictions)

    # the objective of the sites that answered before, those that did not answer by their models
    there = problem.regularizer.value(trial_w)
    mean = lambda models: (included @ models.loss) / jnp.maximum(included @ models.rows, 1e-30) + there
    after, predicted = jnp.where(jnp.any(overflowed), jnp.inf, mean(at_trial)), mean(predictions)
    trial = Trial(
        solution.status, solution.optimality, jnp.linalg.norm(delta), jnp.linalg.norm(w),
        lambda: after, lambda: predicted, None,
    )  # fmt: skip
    verdict, acceptance = active.acceptance.decide(state.rules.acceptance, seen, trial)
    accepted = (verdict.accepted | at_w) & jnp.any(valid)
    outcome = Outcome(state.count, accepted, trial.step_norm, seen.objective, trial.after, trial.predicted)
    remembered = rules.update(active, dataclasses.replace(remembered, acceptance=acceptance), outcome)
    informative = ~at_w & jnp.any(valid | overflowed)  # a round without a step, or answers, says nothing of the step
    remembered = jax.tree.map(lambda new, old: jnp.where(informative, new, old), remembered, state.rules)

    # a refused step still tells of a site whose model is old: seen back from w + δ
    stayed = sent.shift(-delta).where(valid & ~state.fresh, state.models)
    pick = lambda a, b: jax.tree.map(lambda a, b: jnp.where(accepted, a, b), a, b)
    following = dataclasses.replace(
        state,
        w=jnp.where(accepted, trial_w, w),
        models=pick(at_trial, stayed),
        has_answered=included | valid,
        fresh=jnp.where(accepted, valid | (state.fresh & at_w), state.fresh),
        refused=state.refused + bad,
        reason=jnp.where(bad, reason, state.reason),
        is_bad=jnp.where(replied, bad, state.is_bad),
        forgiven=jnp.where(at_w, 0, jnp.where(replied, jnp.where(overflowed, state.forgiven + 1, 0), state.forgiven)),
        rules=remembered,
        count=state.count + 1,
    )
    size, q = jnp.dtype(w.dtype).itemsize, w.shape[0]
    ends = jnp.any(jnp.stack([verdict.status == code for code in Status if code.is_end]))
    answered = jnp.sum(valid)
    number = lambda value: jnp.asarray(value, w.dtype)
    info = RoundInfo(
        accepted=accepted,
        status=verdict.status,
        damping=proposal.damping,
        answered=answered,
        left_out=jnp.sum(bad),
        overflowed=jnp.sum(overflowed),
        reason=reason,
        bytes_up=number(size * numbers_sent(q)) * jnp.sum(replied),
        bytes_down=number(size * q) * replied.shape[0],
        is_end=ends & ~at_w & jnp.all(state.fresh | ~included) & jnp.all(valid | ~included),
    )
    return following, info


def _observe(problem: Problem, state: ServerState, total: Statistics, n: Float[Array, ""]) -> Seen:
    """What the rules may know of the totals: as of a batch of all rows."""

    def curvature():
        return jnp.trace(total.hessian) / (2 * n)  # S = ½ tr ∇²

    def spread():
        whole, rows = curvature(), effective
        about = jnp.maximum(whole - jnp.sum((total.common / n) ** 2), whole / 100) / jnp.maximum(1 - 1 / rows, 0.5)
        return jnp.where(rows < 1.5, whole, about)

    def unknown(*_):
        raise NotImplementedError("rows of J do not leave a site: a rule of federated rounds cannot ask for them.")

    effective = jnp.where(total.squares > 0, total.rows**2 / jnp.where(total.squares > 0, total.squares, 1), 1)
    return Seen(
        step=state.count,
        rows=effective,
        objective=total.loss / n + problem.regularizer.value(state.w),
        caution=problem.loss.caution,
        curvature=curvature,
        spread=spread,
        weighted_rows=unknown,
        along=unknown,
        clock=Reading.of_step(state.count, state.w.dtype),
    )

"""Local rounds, for networks whose matrices are too large to send: sites step on their own rows and send how far they
came.

    x_t     = w_t + β_t (w_t − w_{t−1})                    the server sends x_t
    δ_c     = what a few steps of SCA on the rows of site c make of x_t, minus x_t
    w_{t+1} = x_t + Σ n_c δ_c / Σ n_c                      over the sites that answer
    β_t     = min(most, k/(k + 3)), k rounds after the objective rose for the last time

The carried step is a memory of what all sites did in the rounds before. A site that does not answer is left out of the
mean; its share of the objective is the one it reported last.

A mean of sparse steps is not sparse. Where R has zeros, sites send their gradients g_c at x, too, and the server takes
a short proximal step from the mean; with ḡ the mean of the gradients, R's ridge included,

    w_{t+1} = prox_{ηR}(x + δ̄ − ηḡ),     η = 0.03 ‖δ̄‖/‖ḡ‖

It stands still where the mean does and R's optimality conditions hold, and its zeros are exact.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._struct import Number, static, struct
from ..batch import Batch
from ..layout import Layout
from ..problem import Problem
from ..regularizers.base import Regularizer
from ..sca import SCA
from ..training import engine
from ..training.evaluation import evaluate
from ..training.feed import EqualBatches
from .sites import draw_answers, weight_dtype
from .statistics import MOST_UNLIKE, Reason, all_finite, are_unlike, first_reason, have_other_rows


@struct
class Update:
    """What a site sends in a local round; with a leading axis, of several."""

    rows: Float[Array, "*sites"]  # n
    loss: Float[Array, "*sites"]  # its average at x
    delta: Float[Array, "*sites q"]  # δ_c
    gradient: Float[Array, "*sites q"] | None  # of that average, at x; None where no penalty needs it


def find_update_reasons(sent: Update, before: Float[Array, "sites"], x: Float[Array, "q"]) -> Int[Array, "sites"]:
    """Whether the server can use what each site sent from x: the number of a `Reason`, 0 where it can; n `before`.

    Steps, losses and gradients of sites are not compared with each other: those of sites that are fitted vanish, and
    the one that is not must be heard.
    """
    far = jnp.linalg.norm(sent.delta, axis=-1) > MOST_UNLIKE * jnp.maximum(jnp.linalg.norm(x), 1)
    reason = first_reason(
        (Reason.NOT_FINITE, ~all_finite(sent)),
        (Reason.NO_ROWS, ~(sent.rows > 0)),
        (Reason.OTHER_ROWS, have_other_rows(sent.rows, before)),
        (Reason.TOO_FAR, far),
    )
    return jnp.where(are_unlike(sent.rows, reason == 0), Reason.UNLIKE.value, reason)


def site_update(
    method: SCA,
    layout: Layout,
    frozen: tuple,
    x: Float[Array, "q"],
    own: EqualBatches,
    steps: int,
    key: Array,
    with_gradient: bool = False,
) -> Update:
    """What a site computes: `steps` of the method on batches of its own rows, from the weights it was sent."""
    carry = engine.begin(method, method.init(layout.unflatten(x, frozen)), own, own.start(key))
    carry, _ = engine.advance(method, carry, own, np.full(1, steps, np.int32), np.int32(steps))
    ended = layout.flatten(method.solution(carry.state))
    average = lambda x: evaluate(method.problem, layout.unflatten(x, frozen), own.data, penalty=False)
    loss, gradient = jax.value_and_grad(average)(x) if with_gradient else (average(x), None)
    return Update(jnp.sum(own.weight).astype(x.dtype), loss, ended - x, gradient)


@struct
class LocalState:
    """What the server of local rounds keeps between two of them."""

    w: Float[Array, "q"]
    before: Float[Array, "q"]  # w one round ago
    loss: Float[Array, "sites"]  # reported last
    rows: Float[Array, "sites"]  # 0 of a site that has not answered yet
    objective: Float[Array, ""]  # at the weights sent last
    since: Int[Array, ""]  # k
    refused: Int[Array, "sites"]
    reason: Int[Array, "sites"]  # why, the last time: a `Reason`
    is_bad: Bool[Array, "sites"]  # in the last round
    count: Int[Array, ""]
    frozen: tuple
    layout: Layout = static()

    @property
    def params(self) -> PyTree:
        return self.layout.unflatten(self.w, self.frozen)


@struct
class LocalInfo:
    """What a round reports."""

    records: dict[str, Array]
    reason: Int[Array, "sites"]  # why their updates were not used: a `Reason`


@struct
class LocalRounds:
    """`init`, `step` and `solution` like SCA's; a step is a round, its batch a `LocalRound`."""

    solves_prox: ClassVar[bool] = True

    problem: Problem
    local: SCA  # the method of the sites
    most: Number  # β at most
    sites: int = static()
    steps: int = static()  # of a site in a round
    batch_size: int = static()

    def init(self, params: PyTree) -> LocalState:
        layout = self.problem.layout(params)
        w = self.problem.regularizer.validate_start(layout.flatten(params))
        none, zero = jnp.zeros(self.sites, w.dtype), jnp.zeros((), jnp.int32)
        return LocalState(
            w=w,
            before=jnp.array(w),
            loss=none,
            rows=none,
            objective=jnp.full((), jnp.inf, w.dtype),
            since=zero,
            refused=jnp.zeros(self.sites, jnp.int32),
            reason=jnp.zeros(self.sites, jnp.int32),
            is_bad=jnp.zeros(self.sites, bool),
            count=zero,
            frozen=tuple(jnp.array(leaf) for leaf in layout.split(params)[1]),
            layout=layout,
        )

    def solution(self, state: LocalState) -> PyTree:
        return state.params

    def objective(self, state: LocalState) -> Float[Array, ""]:
        """U at the weights that were sent last, as far as the sites have said."""
        return state.objective

    def step(self, state: LocalState, batch: "LocalRound") -> tuple[LocalState, LocalInfo]:
        """One round: what is sent, what the sites make of it, and their mean."""
        x = self.trial(state)
        one = lambda own: self._answer(state.layout, state.frozen, x, own[0], state.count, own[1])
        sent = jax.lax.map(one, (batch.rows, jnp.arange(self.sites)))
        return merge_updates(self.problem, state, x, sent, batch.answered)

    def trial(self, state: LocalState) -> Float[Array, "q"]:
        """x, which the server sends."""
        carry = jnp.minimum(self.most, state.since / (state.since + 3))
        return self.problem.regularizer.project(state.w + carry * (state.w - state.before))

    def receive(self, state: LocalState, sent: Update, answered: Bool[Array, "sites"]) -> tuple[LocalState, LocalInfo]:
        """And what becomes of their answers."""
        return merge_updates(self.problem, state, self.trial(state), sent, answered)

    def prepare(self, batch: Batch) -> EqualBatches:
        """A site's rows, for its answers."""
        return pad_rows(batch, self.batch_size)

    def answer(
        self, params: PyTree, w: Float[Array, "q"], rows: EqualBatches, count: Int[Array, ""], site: Int[Array, ""]
    ) -> Update:
        """What a site sends back, in its own process."""
        layout = self.problem.layout(params)
        frozen = tuple(jnp.array(leaf) for leaf in layout.split(params)[1])
        return self._answer(layout, frozen, w, rows, count, site)

    def _answer(self, layout, frozen, w, rows, count, site) -> Update:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), count), site)
        return site_update(self.local, layout, frozen, w, rows, self.steps, key, not self.problem.regularizer.is_smooth)

    def nothing(self, w: Float[Array, "q"]) -> Update:
        """What stands for a site that sent nothing of use."""
        zero = jnp.zeros((), w.dtype)
        return Update(zero, zero, jnp.zeros_like(w), None if self.problem.regularizer.is_smooth else jnp.zeros_like(w))


def merge_updates(
    problem: Problem, state: LocalState, x: Float[Array, "q"], sent: Update, answered: Bool[Array, "sites"]
) -> tuple[LocalState, LocalInfo]:
    """The state after a round in which the sites sent their updates from x."""
    reason = jnp.where(answered, find_update_reasons(sent_by(sent, answered), state.rows, x), 0)
    valid, bad = answered & (reason == 0), reason > 0
    share = jnp.where(valid, sent.rows, 0)
    total = jnp.sum(share)
    mean = lambda leaf: share @ jnp.where(valid[:, None], leaf, 0) / jnp.where(total > 0, total, 1)
    delta = mean(sent.delta)

    rows, loss = jnp.where(valid, sent.rows, state.rows), jnp.where(valid, sent.loss, state.loss)
    objective = rows @ loss / jnp.maximum(jnp.sum(rows), 1e-30) + problem.regularizer.value(x)
    rose = ~(objective <= state.objective)
    ended = x + delta
    if sent.gradient is not None:
        slope = mean(sent.gradient) + problem.regularizer.ridge * x
        ended = prox_step(problem.regularizer.majorizer(x), x, slope, delta)
    w = jnp.where(total > 0, ended, state.w)
    following = dataclasses.replace(
        state,
        w=w,
        before=jnp.where(rose | (total == 0), w, state.w),  # what was carried led astray
        loss=loss,
        rows=rows,
        objective=jnp.where(jnp.isfinite(objective), objective, state.objective),
        since=jnp.where(rose, 0, state.since + 1),
        refused=state.refused + bad,
        reason=jnp.where(bad, reason, state.reason),
        is_bad=bad,
        count=state.count + 1,
    )
    size, q = jnp.dtype(w.dtype).itemsize, w.shape[0]
    number = lambda value: jnp.asarray(value, w.dtype)
    return following, LocalInfo(
        {
            "answered": jnp.sum(valid),
            "left_out": jnp.sum(bad),
            "carried": number(~rose),
            "bytes_up": number(size * (2 + q * (1 if sent.gradient is None else 2))) * jnp.sum(answered),
            "bytes_down": number(size * q) * answered.shape[0],
        },
        reason,
    )


#: The length of the server's own step along −ḡ, against that of the mean.
SHARE = 0.03


def prox_step(
    regularizer: Regularizer, x: Float[Array, "q"], slope: Float[Array, "q"], delta: Float[Array, "q"]
) -> Float[Array, "q"]:
    """prox_{ηR}(x + δ − η slope), without R's ridge, which is in the slope."""
    step = SHARE * jnp.linalg.norm(delta) / jnp.maximum(jnp.linalg.norm(slope), jnp.finfo(x.dtype).tiny)
    return regularizer.prox_nonsmooth(x + delta - step * slope, step)


def sent_by(sent: Update, answered: Bool[Array, "sites"]) -> Update:
    """The same without the rows of sites that did not answer."""
    return dataclasses.replace(sent, rows=jnp.where(answered, sent.rows, 0))


@struct
class LocalRound:
    """The sites' rows, and which sites answer."""

    rows: EqualBatches  # leading axis: sites
    answered: Bool[Array, "sites"]


@struct
class LocalSites:
    """All sites' rows as a feed of local rounds; in every round `absent` of the sites, drawn anew, do not answer."""

    rows: EqualBatches  # leading axis: sites
    count: int = static()
    absent: int = static(default=0)

    @staticmethod
    def of(batches: Sequence[Batch], batch_size: int, absent: int = 0) -> "LocalSites":
        """From each site's rows, all padded to the size of the largest."""
        size = max(batch.size for batch in batches)
        padded = [pad_rows(batch, batch_size, size) for batch in batches]
        return LocalSites(jax.tree.map(lambda *leaves: jnp.stack(leaves), *padded), len(batches), absent)

    def start(self, key: Array) -> tuple[Array, Array]:
        return key, jnp.zeros((), jnp.int32)

    def load(self, position: Any, steps: int) -> tuple["LocalSites", int]:
        return self, steps

    def plan(self, position: tuple, count: int) -> Bool[Array, "count sites"]:
        return draw_answers(position, count, self.count, self.absent)

    def batch(self, plan: Bool[Array, "count sites"], i: Any) -> LocalRound:
        return LocalRound(self.rows, plan[i])

    def skip(self, position: tuple, steps: Any) -> tuple:
        return position[0], position[1] + steps

    def sample(self, count: int) -> Batch:
        """All rows: those of weight 0 do not count."""
        return jax.tree.map(
            lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), Batch(self.rows.x, self.rows.y, self.rows.weight)
        )


def pad_rows(batch: Batch, batch_size: int, size: int | None = None) -> EqualBatches:
    """A site's rows as batches of its own, padded to `size` rows."""
    weight = np.ones(batch.size) if batch.weight is None else np.asarray(batch.weight)
    x, y = np.asarray(batch.x), np.asarray(batch.y)
    return EqualBatches.pad(x, y, weight.astype(weight_dtype(x)), batch_size, batch.size if size is None else size)

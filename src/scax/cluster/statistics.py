"""What a site sends in an exact round: sums over its rows, never a row, an input or an output of a layer.

With J_i = ∂f_i/∂w, g_i = ∂l_i/∂z and H_i = ∂²l_i/∂z² at the weights w that the server sent, and v_i the sample weights,

    n = Σ v_i,   Σ v_i l_i,   b = Σ v_i J_iᵀg_i,   A = Σ v_i J_iᵀH_iJ_i,   m = Σ v_i J_iᵀ(ε √½ diag H_i)

are Q(Q+1)/2 + 2Q + 3 numbers. They are a model of the site's loss, Σ v_i l_i + bᵀδ + ½δᵀAδ, and models add up: the
step on their totals is the step on all rows. m is there for the damping alone (`Seen.spread`).
"""

import dataclasses
import enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._struct import struct
from ..batch import Batch
from ..linearize.base import exact
from ..linearize.dense import Dense
from ..linearize.network import NetworkFunction


@struct
class Statistics:
    """Sums over the rows of one site; with a leading axis, of several."""

    rows: Float[Array, "*sites"]  # n
    squares: Float[Array, "*sites"]  # Σ v_i²
    loss: Float[Array, "*sites"]  # Σ v_i l_i
    gradient: Float[Array, "*sites q"]  # b
    common: Float[Array, "*sites q"]  # m
    hessian: Float[Array, "*sites q q"]  # A

    @staticmethod
    def zeros(sites: int, w: Float[Array, "q"]) -> "Statistics":
        """Of sites that have not answered yet."""
        shape = lambda *more: jnp.zeros((sites, *more), w.dtype)
        q = w.shape[0]
        return Statistics(shape(), shape(), shape(), shape(q), shape(q), shape(q, q))

    def total(self) -> "Statistics":
        """All sites together."""
        return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), self)

    @exact
    def shift(self, delta: Float[Array, "q"]) -> "Statistics":
        """The same models seen from w + δ: where a site does not answer, its last model speaks for it."""
        curved = self.hessian @ delta  # Aδ
        loss = self.loss + self.gradient @ delta + curved @ delta / 2
        return Statistics(self.rows, self.squares, loss, self.gradient + curved, self.common, self.hessian)

    def where(self, mask: Bool[Array, "sites"], others: "Statistics") -> "Statistics":
        """These sums where the mask is True, and the others elsewhere."""
        wide = lambda leaf: mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))
        return jax.tree.map(lambda a, b: jnp.where(wide(a), a, b), self, others)


@exact
def site_statistics(network: NetworkFunction, w: Float[Array, "q"], batch: Batch, seed: Int[Array, ""]) -> Statistics:
    """What a site computes at the weights it was sent; the seed is the round's number.

    Rows of weight 0 do not take part, so that sites of different sizes share one compiled program.
    """
    loss, lin = network.problem.loss, Dense.of(network, w, batch.x)
    z, jacobian = lin.outputs, lin.jacobian()
    y = loss.targets(jnp.asarray(batch.y), z.shape[1]).astype(z.dtype)
    v = jnp.ones(batch.size, w.dtype) if batch.weight is None else jnp.asarray(batch.weight, w.dtype)
    counted = lambda leaf: jnp.where(v.reshape((-1,) + (1,) * (leaf.ndim - 1)) > 0, leaf, 0)
    factor = counted(loss.factor(z, y))
    if factor.ndim == 2:
        curved, half = factor[..., None] * jacobian, factor**2 / 2
    else:
        curved, half = jnp.einsum("nab,nbq->naq", factor, jacobian), jnp.sum(factor**2, axis=1) / 2
    curved = (jnp.sqrt(v)[:, None, None] * curved).reshape(-1, w.shape[0])  # √v FJ
    k = z.shape[1]
    signs = jax.random.rademacher(jax.random.key(seed), (k,), w.dtype) if k > 1 else jnp.ones(1, w.dtype)
    return Statistics(
        rows=jnp.sum(v),
        squares=jnp.sum(v**2),
        loss=v @ counted(loss.value(z, y)),
        gradient=lin.vjp(v[:, None] * counted(loss.gradient(z, y))),
        common=lin.vjp(v[:, None] * jnp.sqrt(half) * signs),
        hessian=curved.T @ curved,
    )


def pack(sent: Statistics) -> dict[str, np.ndarray]:
    """The arrays that travel: of A one triangle."""
    arrays = {field.name: np.asarray(getattr(sent, field.name)) for field in dataclasses.fields(Statistics)}
    return arrays | {"hessian": arrays["hessian"][np.triu_indices(len(arrays["gradient"]))]}


def unpack(arrays: dict[str, Array], weights: int) -> Statistics:
    """The statistics that they are."""
    upper = jnp.zeros((weights, weights), arrays["hessian"].dtype)
    upper = upper.at[np.triu_indices(weights)].set(arrays["hessian"])
    return Statistics(**arrays | {"hessian": upper + jnp.triu(upper, 1).T})


def numbers_sent(weights: int) -> int:
    """How many numbers a site sends in a round: A is symmetric, one triangle of it is enough."""
    return weights * (weights + 1) // 2 + 2 * weights + 3


#: How many times as large the inputs of one site may be as those of the others.
RANGE = 1e4
#: So many times the median of all sites' may be what one counts, and J'J, which is quadratic in the inputs.
MOST_UNLIKE = RANGE**2
#: So many times the objective of all sites before the step may be the loss of one site after it.
LEAP = 1e6
#: How far sums that bound each other may miss their bounds by rounding.
ROUNDING = 1e-2


class Reason(enum.IntEnum):
    """Why the server leaves out what a site sent."""

    NONE = 0
    NOT_FINITE = 1
    NO_ROWS = 2
    WEIGHTS = 3
    NOT_SEMIDEFINITE = 4
    NEGATIVE = 5
    OTHER_ROWS = 6
    UNLIKE = 7
    LEAP = 8
    TOO_FAR = 9

    @property
    def message(self) -> str:
        return _MESSAGES[self]


_MESSAGES = {
    Reason.NONE: "nothing is wrong.",
    Reason.NOT_FINITE: "it has values that are not finite.",
    Reason.NO_ROWS: "it has no rows.",
    Reason.WEIGHTS: "the squares of its rows' weights sum to more than the square of their sum.",
    Reason.NOT_SEMIDEFINITE: "its hessian is not symmetric and positive semidefinite.",
    Reason.NEGATIVE: "its loss is too small for its gradient and hessian: the squares of its rows would fall below 0.",
    Reason.OTHER_ROWS: "its rows are not those it had before.",
    Reason.UNLIKE: f"its numbers are more than {MOST_UNLIKE:,.0f} times the median of all sites'.",
    Reason.LEAP: f"its loss is more than {LEAP:,.0f} times the objective of all sites before the step.",
    Reason.TOO_FAR: f"its step is more than {MOST_UNLIKE:,.0f} times as long as the weights.",
}


def first_reason(*tests: tuple[Reason, Bool[Array, "sites"]]) -> Int[Array, "sites"]:
    """The first that is true of each site, as a number."""
    reason = jnp.zeros(tests[0][1].shape, jnp.int32)
    for code, is_true in reversed(tests):
        reason = jnp.where(is_true, code.value, reason)
    return reason


def all_finite(sent: Any) -> Bool[Array, "sites"]:
    """Of a struct of arrays, each with a leading axis of sites."""
    finite = [jnp.all(jnp.isfinite(leaf), axis=tuple(range(1, leaf.ndim))) for leaf in jax.tree.leaves(sent)]
    return jnp.all(jnp.stack(finite), axis=0)


def have_other_rows(rows: Float[Array, "sites"], before: Float[Array, "sites"]) -> Bool[Array, "sites"]:
    """Whether sites that have answered before (n > 0) did so with other rows."""
    return (before > 0) & ~(jnp.abs(rows - before) <= 1e-3 * before)


def are_unlike(sizes: Float[Array, "sites"], valid: Bool[Array, "sites"]) -> Bool[Array, "sites"]:
    """Whether a site's number is beyond those of the others; of two sites none can say which is wrong.

    For numbers that do not vanish where a site is fitted.
    """
    median = jnp.nanmedian(jnp.where(valid, sizes, jnp.nan))
    return valid & (jnp.sum(valid) > 2) & (median > 0) & (sizes > MOST_UNLIKE * median)


@exact
def find_reasons(
    sent: Statistics, before: Statistics, most_loss: Float[Array, ""], squared: bool
) -> Int[Array, "sites"]:
    """Whether the sums of each site can be those of rows: the number of a `Reason`, 0 where they can.

    A ≽ 0                     A + εI has a Cholesky factor, ε what rounding may take from its smallest eigenvalue
    bᵀA⁺b ≤ 2 Σ v_i l_i       of the squared loss: Σ v_i l_i + bᵀδ + ½δᵀAδ are the squares of the linearized network
    n                         as before, for sums at other weights are of the same rows
    n, tr A / n               at most `MOST_UNLIKE` times the median of all sites', tr A of the squared loss
    Σ v_i l_i                 at most `most_loss`, of a site that has answered before

    Losses and gradients of sites are not compared with each other: those of sites that are fitted vanish, and the one
    that is not must be heard. Nor are the curvatures of other losses, which vanish, too. That of the squared loss is
    J'J: it knows no targets, and inputs s times as large make it s² times as large.
    """
    q, dtype = sent.gradient.shape[-1], sent.gradient.dtype
    finite = all_finite(sent)
    sent = jax.tree.map(lambda leaf: jnp.where(jnp.isfinite(leaf), leaf, 0), sent)
    trace = jnp.trace(sent.hessian, axis1=-2, axis2=-1)
    slack = 8 * q * jnp.finfo(dtype).eps * jnp.abs(trace) + jnp.finfo(dtype).tiny
    root = jnp.linalg.cholesky(sent.hessian + slack[:, None, None] * jnp.eye(q, dtype=dtype))
    difference = jnp.max(jnp.abs(sent.hessian - jnp.swapaxes(sent.hessian, -1, -2)), axis=(1, 2))
    positive = jnp.all(jnp.isfinite(root), axis=(1, 2)) & (trace >= 0) & (difference <= slack)
    below = jnp.zeros(trace.shape, bool)
    if squared:
        part = jax.scipy.linalg.solve_triangular(root, sent.gradient[..., None], lower=True)[..., 0]
        below = ~(jnp.sum(part**2, axis=-1) <= 2 * (1 + ROUNDING) * sent.loss)
    leaps = (before.rows > 0) & (sent.loss > most_loss)
    own = first_reason(
        (Reason.NOT_FINITE, ~finite),
        (Reason.NO_ROWS, ~((sent.rows > 0) & (sent.squares > 0))),
        (Reason.WEIGHTS, sent.squares > (1 + ROUNDING) * sent.rows**2),
        (Reason.NOT_SEMIDEFINITE, ~positive),
        (Reason.NEGATIVE, below),
        (Reason.OTHER_ROWS, have_other_rows(sent.rows, before.rows)),
        (Reason.LEAP, leaps),
    )
    valid = own == 0
    unlike = are_unlike(sent.rows, valid)
    if squared:
        unlike |= are_unlike(trace / jnp.where(sent.rows > 0, sent.rows, 1), valid)
    return jnp.where(unlike, Reason.UNLIKE.value, own)

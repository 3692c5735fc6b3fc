"""The convex problem of one step.

    min_δ  Φ(z0 + Jδ) + cᵀδ + μ‖δ‖² + nonsmooth(w_n + δ),        δ = w − w_n

    Φ   ρ × average loss of the linearized network, manifold rows, rows of the curvature memory  (`datafit`)
    c   (1−ρ) d − 2τβ δ_prev + ridge · w_n                                                    (`linear`)
    μ   τ + ridge/2                                                                           (`curvature`)

Memory, carried step and ridge are a linear and a quadratic term; what is left of the regularizer needs a prox. In the
full linearization Φ is linear too: its gradient is inside c, and the problem is a `LinearSurrogate`. With rows of the
curvature memory the carried step is the origin (`center`): w is w_n + βδ_prev, δ is measured from there, and c has no
such term.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..linearize import Linearization, WithMemoryRows, WithPairs
from ..regularizers import Regularizer
from ..rules.curvature_memory import CurvatureMatrix, CurvatureMemory
from ..rules.rules import Proposal
from .datafit import Datafit
from .linearized_batch import LinearizedBatch
from .sampled import HalfSquare, SecondOrder

Vector = Float[Array, "q"]


@dataclasses.dataclass(frozen=True)
class LinearSurrogate:
    """cᵀδ + μ‖δ‖² + nonsmooth(w_n + δ): the loss linearized as well."""

    w: Vector
    linear: Vector
    curvature: Float[Array, ""]
    regularizer: Regularizer

    def prox(self, slope: Vector, center: Vector, weight) -> Vector:
        """argmin_δ  (slope + c)ᵀδ + μ‖δ‖² + ½ weight ‖δ − center‖² + nonsmooth(w_n + δ)."""
        total = 2 * self.curvature + weight
        free = (weight * center - self.linear - slope) / total
        return self.regularizer.prox_nonsmooth(self.w + free, 1 / total) - self.w

    def value(self, delta: Vector) -> Float[Array, ""]:
        """The problem's value at w_n + δ, up to terms that do not depend on δ."""
        quadratic = self.linear @ delta + self.curvature * (delta @ delta)
        return quadratic + self.regularizer.nonsmooth(self.w + delta)

    def take(self, index: Array, mask: Float[Array, "b"], overlap: float = 1.0) -> "LinearSurrogate":
        """The same problem over a block of weights, the others staying at w_n; mask 0 marks padding."""
        return LinearSurrogate(
            self.w[index] * mask, self.linear[index] * mask, self.curvature, self.regularizer.take(index)
        )


@dataclasses.dataclass(frozen=True)
class QuadraticSurrogate:
    """cᵀδ + δᵀCδ + μ‖δ‖²: the loss in its own quadratic model, C = JᵀWJ + ςA, where A is all of past curvature."""

    rest: LinearSurrogate
    matrix: Float[Array, "q q"]

    @property
    def w(self) -> Vector:
        return self.rest.w

    def value(self, delta: Vector) -> Float[Array, ""]:
        """The problem's value at w_n + δ, up to terms that do not depend on δ."""
        return self.rest.value(delta) + delta @ self.matrix @ delta


@dataclasses.dataclass(frozen=True)
class Surrogate:
    """The whole problem: Φ of the linearized outputs beside a `LinearSurrogate`."""

    datafit: Datafit
    lin: Linearization
    rest: LinearSurrogate
    center: Vector | None = None  # the step that δ is measured from, None for no step

    @staticmethod
    def of(
        datafit: Datafit,
        lin: Linearization,
        w: Vector,
        past: Vector | None,
        carried: Vector | None,
        damping: Float[Array, ""],
        regularizer: Regularizer,
    ) -> "Surrogate":
        """From past = (1−ρ)d and carried = βδ_prev, None where absent."""
        return Surrogate(datafit, lin, _rest(w, regularizer, damping, past, carried))

    @property
    def w(self) -> Vector:
        return self.rest.w

    @property
    def linear(self) -> Vector:
        """c."""
        return self.rest.linear

    @property
    def curvature(self) -> Float[Array, ""]:
        """μ."""
        return self.rest.curvature

    @property
    def regularizer(self) -> Regularizer:
        return self.rest.regularizer

    @property
    def pull(self) -> Vector:
        """h = −c/2, the weight-space right-hand side: δ → h/μ where the batch has nothing to say."""
        return -self.linear / 2

    def value(self, delta: Vector) -> Float[Array, ""]:
        """The problem's value at w_n + δ, up to terms that do not depend on δ."""
        return self.rest.value(delta) + self.datafit.value(self.lin.outputs + self.lin.jvp(delta))

    def prox(self, slope: Vector, center: Vector, weight) -> Vector:
        """As of the `LinearSurrogate`."""
        return self.rest.prox(slope, center, weight)

    def dual(self, v: Float[Array, "m k"], z: Float[Array, "m k"]) -> Float[Array, ""]:
        """The dual objective at v = ∇Φ(z): a lower bound on the surrogate's minimum.

        −Φ*(v) + vᵀz0 − Ψ*(−Jᵀv) with Ψ(δ) = cᵀδ + μ‖δ‖² + nonsmooth(w_n + δ). At a gradient Φ*(v) = vᵀz − Φ(z), so no
        conjugate of the loss is needed, and Ψ* is attained at a prox.
        """
        slope = self.lin.vjp(v)
        best = self.prox(slope, jnp.zeros_like(self.w), 0.0)
        low = slope @ best + self.rest.value(best)
        return self.datafit.value(z) + jnp.sum(v * (self.lin.outputs - z)) + low

    def take(self, index: Array, mask: Float[Array, "b"], overlap: float = 1.0) -> "Surrogate":
        """The same problem over a block of weights, the others staying at w_n; mask 0 marks padding.

        With an overlap σ the block's loss is (1/σ) Φ(z0 + σ J_c δ_c): the others are assumed to add to what it does.
        """
        lin = self.lin.take(index, overlap * mask)
        return Surrogate(self.datafit.times(1 / overlap), lin, self.rest.take(index, mask))

    def on(self, rows: Array) -> "Surrogate":
        """The same problem on some of the batch's rows, averaged over them alone."""
        return dataclasses.replace(self, datafit=self.datafit.on(rows), lin=self.lin.on(rows))


#: The convex problem of a step.
AnySurrogate = Surrogate | LinearSurrogate | QuadraticSurrogate


def build_surrogate(
    linearized: LinearizedBatch, proposal: Proposal, memory: Vector | None, carried: Vector | None
) -> Surrogate:
    """The convex problem of a step; memory is d and carried δ_prev, None where absent."""
    problem, w, ρ = linearized.problem, linearized.w, proposal.averaging
    loss = SecondOrder(problem.loss, linearized.outputs) if linearized.second_order else problem.loss
    datafit, lin = Datafit(loss, linearized.targets, ρ * linearized.shares), linearized.lin
    if linearized.pairs is not None and problem.manifold is not None:
        datafit = datafit.with_rows(jnp.asarray(problem.manifold.strength * linearized.pairs.weight, w.dtype))
        lin = WithPairs(lin, linearized.pairs, linearized.batch.size)
    regularizer = problem.regularizer.majorizer(w)
    past = None if memory is None else (1 - ρ) * memory
    if linearized.sampled is not None:  # ρ (∇ᵀδ + ½ Σ s ‖CJδ‖²)
        lin, slope = linearized.sampled.lin, ρ * linearized.sampled.gradient
        datafit = Datafit(HalfSquare(), jnp.zeros_like(lin.outputs), ρ * linearized.shares)
        past = slope if past is None else past + slope
    center = None if carried is None else proposal.carry * carried  # βδ_prev
    if not isinstance(proposal.memory, CurvatureMemory) or proposal.memory_weight is None:
        return Surrogate.of(datafit, lin, w, past, center, proposal.damping, regularizer)
    # ς‖B(δ − βδ_prev)‖², with βδ_prev as the origin
    lin = WithMemoryRows(lin, proposal.memory.rows, proposal.memory.squares, center)
    datafit = datafit.with_rows(proposal.memory_weight * jnp.ones(lin.outputs.shape[0] - lin.samples, w.dtype))
    w = w if center is None else w + center
    surrogate = Surrogate.of(datafit, lin, w, past, None, proposal.damping, regularizer)
    return dataclasses.replace(surrogate, center=center)


def build_quadratic_surrogate(
    linearized: LinearizedBatch, proposal: Proposal, memory: Vector | None, carried: Vector | None
) -> QuadraticSurrogate:
    """The same beside the matrix of past curvature: A holds this batch with the share s, so that JᵀWJ + ςA_{n−1} is
    A_n/s."""
    assert isinstance(proposal.memory, CurvatureMatrix)
    regularizer = linearized.problem.regularizer.majorizer(linearized.w)
    rest = _rest(linearized.w, regularizer, proposal.damping, linearized.gradient(), None)
    return QuadraticSurrogate(rest, proposal.memory.matrix / proposal.memory.share)


def build_linear_surrogate(
    linearized: LinearizedBatch, proposal: Proposal, memory: Vector | None, carried: Vector | None
) -> LinearSurrogate:
    """The same with the loss linearized too: its gradient joins the memory of past ones."""
    ρ, regularizer = proposal.averaging, linearized.problem.regularizer.majorizer(linearized.w)
    slope = ρ * linearized.gradient() + linearized.manifold_gradient()
    past = slope if memory is None else (1 - ρ) * memory + slope
    center = None if carried is None else proposal.carry * carried
    return _rest(linearized.w, regularizer, proposal.damping, past, center)


def _rest(w: Vector, regularizer: Regularizer, damping, past: Vector | None, carried: Vector | None) -> LinearSurrogate:
    """All that is linear or quadratic in δ: past = (1−ρ)d [+ ρg], carried = βδ_prev; None where absent."""
    ridge = regularizer.ridge
    linear = jnp.asarray(ridge * w)
    if past is not None:
        linear = linear + past
    if carried is not None:
        linear = linear - 2 * damping * carried  # τ‖δ − βδ_prev‖² = τ‖δ‖² − 2τβ δ_prevᵀδ + const
    return LinearSurrogate(w, linear, damping + ridge / 2, regularizer)

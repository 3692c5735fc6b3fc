"""A batch with the network linearized on it: what the convex problem of a step is made of, and what rules may ask."""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..batch import Batch, Pairs, TermBatch
from ..linearize import Linearization
from ..linearize.base import exact, symmetric_product
from ..losses.base import Loss, lengths
from ..problem import Problem
from .sampled import SampledCurvature

#: Of more rows than this, twice as many combinations of them as a curvature memory has stand for all.
MANY_ROWS = 64


@dataclasses.dataclass(frozen=True)
class LinearizedBatch:
    """f_i and J_i at w_n on all rows of a batch, beside its targets and averaging weights."""

    problem: Problem
    w: Float[Array, "q"]  # w_n
    batch: Batch | TermBatch
    pairs: Pairs | None
    lin: Linearization
    targets: Float[Array, "l _"]  # of several terms with the term's number beside them
    shares: Float[Array, "l"]  # Σ = 1, or Σ of the terms' weights
    outputs_at: Callable[[Float[Array, "q"]], Float[Array, "n k"]]  # f of all rows at other weights
    sampled: SampledCurvature | None = None  # where a few directions C_i stand for each row's Hessian
    second_order: bool = False  # where the loss's second-order model at w_n stands for the loss

    @staticmethod
    def of(
        problem: Problem,
        w: Float[Array, "q"],
        batch: Batch | TermBatch,
        pairs: Pairs | None,
        lin: Linearization,
        outputs_at: Callable[[Float[Array, "q"]], Float[Array, "n k"]],
        sampled: Linearization | None = None,
        second_order: bool = False,
    ) -> "LinearizedBatch":
        """The targets are brought into the outputs' own shape and precision; `sampled` are the rows C_iJ_i."""
        targets = problem.targets(batch, lin.outputs.shape[1], lin.outputs.dtype)
        shares = problem.shares(batch, w.dtype)
        made = LinearizedBatch(
            problem.on(batch), w, batch, pairs, lin, targets, shares, outputs_at, second_order=second_order
        )
        return made._with(sampled)

    def _with(self, sampled: Linearization | None) -> "LinearizedBatch":
        """The same, these rows in place of the loss's Hessian; the gradient, which many ask for, is found once."""
        part = None if sampled is None else SampledCurvature(sampled, self._gradient_by(sampled))
        return dataclasses.replace(self, sampled=part)

    def _gradient_by(self, sampled: Linearization) -> Float[Array, "q"]:
        """The exact gradient; Σ s_i ‖a_i‖ J_iᵀFᵀâ_i where Fᵀâ is the first direction and Fᵀa all of ∂l."""
        loss = self.problem.loss
        if not _first_is_gradient(loss, sampled) or loss.remainder(self.outputs, self.targets) is not None:
            return self.gradient()
        size = self.shares * lengths(loss.whitened(self.outputs, self.targets))
        return sampled.vjp(jnp.zeros_like(sampled.outputs).at[:, 0].set(size))

    def with_weights(self, weights: Float[Array, "terms"]) -> "LinearizedBatch":
        """The same with other weights of the terms."""
        other = dataclasses.replace(self, shares=self.problem.shares(self.batch, self.w.dtype, weights), sampled=None)
        return other if self.sampled is None else other._with(self.sampled.lin)

    def term_losses(self) -> dict[str, Float[Array, ""]]:
        """Each term's average loss at w_n, without its weight."""
        if not isinstance(self.batch, TermBatch):
            return {}
        if len(self.batch.names) == 1 and self.problem.weights[0] is None:
            return {self.batch.names[0]: self.loss()}
        each, own = self.problem.loss.value(self.outputs, self.targets), self._own_shares()
        return {name: (own * (self.batch.term == t)) @ each for t, name in enumerate(self.batch.names)}

    def term_curvatures(self, seed: Int[Array, ""]) -> Float[Array, "terms"]:
        """½ tr ∇² of each term's average loss, without its weight."""
        assert isinstance(self.batch, TermBatch)
        term, weight = self.batch.term, self._own_shares()[:, None] * self._half_hessian()
        own = lambda t: self.lin.weighted_squares(self._padded(weight * (term == t)[:, None]), seed)
        return jnp.stack([own(t) for t in range(len(self.problem.names))])

    def _own_shares(self) -> Float[Array, "l"]:
        return self.problem.shares(self.batch, self.w.dtype, jnp.ones(len(self.problem.names), self.w.dtype))

    @property
    def outputs(self) -> Float[Array, "l k"]:
        """f_i of the batch's own rows."""
        return self.lin.outputs[: self.batch.size]

    def loss(self) -> Float[Array, ""]:
        """The average loss at w_n."""
        return self.shares @ self.problem.loss.value(self.outputs, self.targets)

    def gradient(self) -> Float[Array, "q"]:
        """1/L Σ ∇l_i(w_n): the loss's gradient, without regularizers."""
        if self.sampled is not None:
            return self.sampled.gradient
        slope = self.shares[:, None] * self.problem.loss.gradient(self.outputs, self.targets)
        return self.lin.vjp(self._padded(slope))

    def manifold_gradient(self) -> Float[Array, "q"] | float:
        """The gradient of the manifold penalty."""
        if self.pairs is None or self.problem.manifold is None:
            return 0.0
        return self.lin.vjp(jax.grad(self.problem.manifold.value)(self.lin.outputs, self.pairs))

    def objective(self) -> Float[Array, ""]:
        """U on this batch at w_n."""
        return self._objective(self.lin.outputs, self.w)

    def objective_at(self, w: Float[Array, "q"]) -> Float[Array, ""]:
        """U on this batch at other weights: one more forward pass."""
        return self._objective(self.outputs_at(w), w)

    def predicted_at(self, w: Float[Array, "q"]) -> Float[Array, ""]:
        """U on this batch at other weights by the linearized network: f + J(w − w_n)."""
        return self._objective(self.lin.outputs + self.lin.jvp(w - self.w), w)

    def _objective(self, outputs: Float[Array, "n k"], w: Float[Array, "q"]) -> Float[Array, ""]:
        value = self.shares @ self.problem.loss.value(outputs[: self.batch.size], self.targets)
        if self.pairs is not None and self.problem.manifold is not None:
            value += self.problem.manifold.value(outputs, self.pairs)
        return value + self.problem.regularizer.value(w)

    @property
    def caution(self) -> float:
        """κ of the loss; of one above 1 half where the directions sampled have each row's gradient among them: along it
        the model is the exact one, and it does not flatten out."""
        loss = self.problem.loss
        halved = self.sampled is not None and _first_is_gradient(loss, self.sampled.lin) and loss.caution > 1
        return max(loss.caution / 2, 1.0) if halved else loss.caution

    def effective_rows(self) -> Float[Array, ""]:
        """(Σ s)²/Σ s²: L where all rows weigh the same."""
        squares = jnp.sum(self.shares**2)
        total = 1 if len(self.problem.names) < 2 else jnp.sum(self.shares) ** 2
        return jnp.where(squares > 0, total / squares, 1)

    def curvature(self, seed: Int[Array, ""]) -> Float[Array, ""]:
        """S = ½ tr ∇² of the batch's average loss at w_n, the network linearized: Σ_i s_i ½ Σ_k H_ikk ‖J_ik‖².

        H is the loss's Hessian in z; the products of different outputs' rows are left out, for S is a scale, no bound.
        Of sampled curvature, Σ_i s_i ½ ‖C_i J_i‖²: its mean is ½ tr JᵀHJ.
        """
        if self.sampled is not None:
            return self.sampled.lin.weighted_squares(self._sampled_weights(), seed)
        return self.lin.weighted_squares(self._padded(self.shares[:, None] * self._half_hessian()), seed)

    def spread(self, seed: Int[Array, ""]) -> Float[Array, ""]:
        """S about its mean: S − Σ_k ‖Σ_i s_i √(H_ikk/2) J_ik‖², unbiased; S itself where there is only one row.

        The mean is the direction that all samples share (most of S, where inputs are not centered): a batch of any size
        knows it. One product with signs ε_k drawn by the step stands for the sum over outputs.
        """
        whole, outputs = self.curvature(seed), self.outputs.shape[1]
        signs = jax.random.rademacher(jax.random.key(seed), (outputs,), whole.dtype)
        signs = signs if outputs > 1 else jnp.ones_like(signs)
        root = self.shares[:, None] * self._half_root(signs)
        common = self.lin.vjp_norm_squared(self._padded(root))
        rows = self.effective_rows()
        # about the mean of L rows S is too small by the factor 1 − 1/L; a hundredth of S: signs may say too much
        about = jnp.maximum(whole - common, whole / 100) / jnp.maximum(1 - 1 / rows, 0.5)
        return jnp.where(rows < 1.5, whole, about)

    def curvature_left(self) -> Float[Array, ""] | float:
        """The rows' average share of the loss's largest curvature: 1 where it does not flatten out."""
        left = self.problem.loss.curvature_left(self.outputs)
        if left is None:
            return 1.0
        return jnp.maximum(self.shares @ left / jnp.sum(self.shares), jnp.finfo(left.dtype).eps)

    def along(self, delta: Float[Array, "q"] | None) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """slope −½⟨∇U, δ⟩ and bend ½δᵀ∇²Uδ on this batch: at w_n + yδ the linearized U changes by y²bend − 2y slope.

        Of the regularizer's nonsmooth part the whole change from w_n to w_n + δ counts as slope; the manifold penalty,
        which the batch's rows know little of, is left out. Zeros where there is no δ.
        """
        if delta is None:
            zero = jnp.zeros((), self.w.dtype)
            return zero, zero
        loss, regularizer, n = self.problem.loss, self.problem.regularizer, self.batch.size
        if self.sampled is not None:
            curved, slope = self.sampled.lin.jvp(delta), self.sampled.gradient @ delta  # E‖CJδ‖² = δᵀJᵀHJδ
        else:
            change = self.lin.jvp(delta)[:n]  # Jδ
            factor = loss.factor(self.outputs, self.targets)
            curved = factor * change if factor.ndim == 2 else jnp.einsum("nab,nb->na", factor, change)
            slope = self.shares @ jnp.sum(loss.gradient(self.outputs, self.targets) * change, axis=1)
        bend = self.shares @ jnp.sum(curved**2, axis=1)
        if not regularizer.is_smooth:
            slope = slope + regularizer.nonsmooth(self.w + delta) - regularizer.nonsmooth(self.w)
        ridge = regularizer.ridge
        return -(slope + ridge * (self.w @ delta)) / 2, (bend + ridge * (delta @ delta)) / 2

    @exact
    def gauss_newton(self) -> Float[Array, "q q"]:
        """JᵀWJ, W = s½H with H's diagonal alone: half of the average loss's Hessian, the network linearized."""
        root = jnp.sqrt(self.shares[:, None] * self._half_hessian())
        rows = (root[:, :, None] * self.lin.jacobian()[: self.batch.size]).reshape(-1, self.w.shape[0])
        return symmetric_product(rows.T)

    @exact
    def weighted_rows(self, few: int, seed: Int[Array, ""]) -> Float[Array, "p q"]:
        """R with RᵀR = JᵀWJ, W = s½H; of many rows, R = Qᵀ√W J with Q a basis of √W J Ω, Ω random: most of it is in
        there."""
        lin, weight = self.lin, self.shares[:, None] * self._half_hessian()
        if self.sampled is not None:
            lin, weight = self.sampled.lin, self._sampled_weights()
        root = jnp.sqrt(weight)
        n, k = root.shape
        combined = jnp.eye(n * k, dtype=root.dtype)
        if n * k > max(MANY_ROWS, few):
            omega = jax.random.normal(jax.random.key(seed), (few, lin.size), root.dtype)
            products = root * jax.vmap(lin.jvp)(omega)[:, :n]
            combined = _basis(products.reshape(few, n * k).T).T
        combined = combined.reshape(-1, n, k) * root
        extra = lin.outputs.shape[0] - n
        return jax.vmap(lin.vjp)(jnp.pad(combined, ((0, 0), (0, extra), (0, 0))))

    def _sampled_weights(self) -> Float[Array, "l r"]:
        """½ s_i for every direction: √½ C_i J_i are the rows."""
        assert self.sampled is not None
        return jnp.broadcast_to(self.shares[:, None] / 2, self.sampled.lin.outputs.shape)

    def _half_root(self, signs: Float[Array, "k"]) -> Float[Array, "l k"]:
        """√(½ H_ikk) ε_k; where curvature is sampled √½ Fᵀε, of which the whole Hessian is the mean square."""
        if self.sampled is None:
            return jnp.sqrt(self._half_hessian()) * signs
        signs = jnp.broadcast_to(signs / math.sqrt(2), (self.batch.size, 1, signs.shape[0]))
        return self.problem.loss.pull_factor(self.outputs, self.targets, signs)[:, 0]

    def _half_hessian(self) -> Float[Array, "l k"]:
        """½ H_ikk of every row: H_kk = Σ_j F_jk²."""
        factor = self.problem.loss.factor(self.outputs, self.targets)
        return (factor**2 if factor.ndim == 2 else jnp.sum(factor**2, axis=1)) / 2

    def _padded(self, v: Float[Array, "l k"]) -> Float[Array, "n k"]:
        """Zeros for the rows of the neighbor pairs."""
        return jnp.pad(v, ((0, self.lin.outputs.shape[0] - self.batch.size), (0, 0)))


def _first_is_gradient(loss: Loss, sampled: Linearization) -> bool:
    """Whether the first of each row's directions is its gradient: a loss's own directions promise their mean alone."""
    return type(loss).directions is Loss.directions and sampled.outputs.shape[1] > 1


# On a CPU several batched factorizations at once can wait for each other for ever: vmapped, they go one by one.
@jax.custom_batching.sequential_vmap
def _basis(columns: Float[Array, "m p"]) -> Float[Array, "m p"]:
    return jnp.linalg.qr(columns)[0]

"""The pieces of one iteration, each a line of Algorithm 1: how a batch becomes a surrogate and an answer."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..batch import Batch
from ..linearize import Linearization, WithGram, WithMemoryRows, WithPairs, linearize
from ..linearize.network import NetworkFunction
from ..problem import Problem
from ..rules.curvature_memory import Held, LowRank
from ..rules.damping import Measures
from ..sharding.blocks import Blocks, scatter
from ..solvers import ClosedForm, Solution, Solver, StepPlan, join_blocks, plan_step
from .datafit import Datafit
from .surrogate import Surrogate

LINEARIZED: Any = None  # in the full linearization there is no datafit left: it is in the linear term


class Iteration:
    """One problem at one state on one batch. Built anew inside every traced step; holds no arrays of its own making."""

    def __init__(self, problem: Problem, state, batch: Batch, blocks: Blocks | None = None, parallel: Any = None):
        self.problem, self.state, self.batch = problem, state, batch
        self.blocks, self.parallel = blocks, parallel
        self.network = NetworkFunction(problem, state.layout, state.frozen)
        self.rows, self.pairs = problem.rows(batch)
        self.shares = batch.shares(state.w.dtype)

    def linearize(self, solver: Solver, surrogate: str) -> Linearization:
        """f and J on all rows of the batch, in the form the solver works on."""
        plan = self.plan(solver if self.parallel is None else self.parallel.solver(solver), surrogate)
        self.solver = plan.solver
        form_it = linearize if self.parallel is None else self.parallel.linearize
        lin = form_it(self.network, self.state.w, self.rows, plan.form)
        if plan.uses_gram and self.parallel is None:
            lin = WithGram(lin)
        return self._see(lin)

    def _see(self, lin: Linearization) -> Linearization:
        """The targets, in the outputs' own shape and precision, beside it."""
        self.targets = self.problem.loss.targets(self.batch.y, lin.outputs.shape[1]).astype(lin.outputs.dtype)
        return lin

    def plan(self, solver: Solver, surrogate: str) -> StepPlan:
        """How this step is solved."""
        held, parts = self.state.metric, self.state.blocks
        return plan_step(
            solver,
            self.network,
            self.state.w,
            self.rows,
            self.batch.size + (0 if self.pairs is None else self.pairs.left.shape[0]),
            memory_rows=0 if held is None else held.squares.shape[0],
            block_width=None if parts is None else parts.index.shape[1],
            own_batches=self.blocks is not None and self.blocks.own_batch,
            full=surrogate == "full",
        )

    def remember(self, metric: LowRank, lin: Linearization) -> tuple[Float[Array, ""], Held]:
        """ς, and the rows remembered from past batches and this one."""
        weight = self.shares[:, None] * self._diagonal(lin)
        return metric.at(self.state.metric, self.state.count, lin, weight, self.effective_rows())

    def surrogate(self, lin: Linearization, rho, memory, carried, damping, strength=None, held=None) -> Surrogate:
        """The convex problem of this iteration; memory = (1−ρ)d, carried = βδ_prev, strength = ς and the rows held,
        None where absent."""
        problem, w = self.problem, self.state.w
        regularizer = problem.regularizer.majorizer(w)
        if isinstance(self.solver, ClosedForm):
            slope = rho * self.gradient(lin) + self._manifold_gradient(lin)
            memory = slope if memory is None else memory + slope
            return Surrogate.build(LINEARIZED, LINEARIZED, w, memory, carried, damping, regularizer)
        datafit = Datafit(problem.loss, self.targets, rho * self.shares)
        if self.pairs is not None and problem.manifold is not None:
            datafit = datafit.with_rows(jnp.asarray(problem.manifold.strength * self.pairs.weight, w.dtype))
            lin = WithPairs(lin, self.pairs, self.batch.size)
        center = None
        if held is not None and strength is not None:  # ς‖B(δ − βδ_prev)‖², with βδ_prev as the origin
            lin = WithMemoryRows(lin, held.rows, held.squares, carried)
            datafit = datafit.with_rows(strength * jnp.ones(lin.outputs.shape[0] - lin.samples, w.dtype))
            center, carried = carried, None
            w = w if center is None else w + center
        built = Surrogate.build(datafit, lin, w, memory, carried, damping, regularizer)
        return dataclasses.replace(built, center=center)

    def solve(self, surrogate: Surrogate) -> Solution:
        """δ = ŵ − w_n; with blocks, each block's own δ_c with the others at w_n, all at once."""
        blocks, parallel = self.blocks, self.parallel
        if blocks is None:
            found, center = self.solver.solve(surrogate), surrogate.center
            return found if center is None else dataclasses.replace(found, delta=center + found.delta)
        moving = blocks.at(self.state.blocks, self.state.count)
        rows = self._own_rows(blocks)

        def one(index, mask, rows):
            own = surrogate if rows is None else surrogate.on(rows)
            return self.solver.solve(own.take(index, mask, float(blocks.overlap)))

        each = (moving.index, moving.mask, rows)
        parts = jax.vmap(one)(*each) if parallel is None else parallel.solve_blocks(jax.vmap(one), each)
        return join_blocks(parts, scatter(parts.delta, moving, self.state.w.shape[0]))

    def _own_rows(self, blocks: Blocks) -> Int[Array, "c l"] | None:
        """The rows of every moving block's own mini-batch; None where all blocks see all rows."""
        if not blocks.own_batch:
            return None
        if self.pairs is not None:
            raise ValueError(
                "blocks: own_batch=True splits the batch, and neighbor pairs couple its rows: use one batch."
            )
        if self.batch.size % blocks.moving:
            raise ValueError(
                f"blocks: own_batch=True splits a batch of {self.batch.size} rows evenly over {blocks.moving} moving "
                "blocks: make the batch a multiple of their number."
            )
        return jnp.arange(self.batch.size).reshape(blocks.moving, -1)

    def loss(self, lin: Linearization) -> Float[Array, ""]:
        """The batch's average loss at w_n."""
        return self.shares @ self.problem.loss.value(lin.outputs[: self.batch.size], self.targets)

    def gradient(self, lin: Linearization) -> Float[Array, "q"]:
        """1/L Σ ∇l_i(w_n): the loss's gradient, without regularizers."""
        slope = self.shares[:, None] * self.problem.loss.gradient(lin.outputs[: self.batch.size], self.targets)
        return lin.vjp(self._padded(lin, slope))

    def curvature(self, lin: Linearization) -> Float[Array, ""]:
        """S = ½ tr ∇² of the batch's average loss at w_n, the network linearized: Σ_i s_i ½ Σ_k H_ikk ‖J_ik‖².

        H is the loss's Hessian in z; the products of different outputs' rows are left out, for S is a scale, no bound.
        """
        return lin.weighted_squares(self._padded(lin, self.shares[:, None] * self._diagonal(lin)), self.state.count)

    def spread(self, lin: Linearization) -> Float[Array, ""]:
        """S about its mean: S − Σ_k ‖Σ_i s_i √(H_ikk/2) J_ik‖², unbiased; S itself where there is only one row.

        The mean is the direction that all samples share (most of S, where inputs are not centered): a batch of any size
        knows it. One product with signs ε_k drawn by the step stands for the sum over outputs.
        """
        whole = self.curvature(lin)
        signs = jax.random.rademacher(jax.random.key(self.state.count), (lin.outputs.shape[1],), whole.dtype)
        signs = signs if lin.outputs.shape[1] > 1 else jnp.ones_like(signs)
        root = self.shares[:, None] * jnp.sqrt(self._diagonal(lin)) * signs
        common = lin.vjp_norm_squared(self._padded(lin, root))
        rows = self.effective_rows()
        # about the mean of L rows S is too small by the factor 1 − 1/L; a hundredth of S: signs may say too much
        about = jnp.maximum(whole - common, whole / 100) / jnp.maximum(1 - 1 / rows, 0.5)
        return jnp.where(rows < 1.5, whole, about)

    def effective_rows(self) -> Float[Array, ""]:
        """(Σ s)²/Σ s²: L where all rows weigh the same."""
        squares = jnp.sum(self.shares**2)
        return jnp.where(squares > 0, 1 / squares, 1)

    def measures(self, lin: Linearization) -> Measures:
        """What the damping rule may ask."""
        return Measures(
            lambda: self.curvature(lin), lambda: self.spread(lin), self.effective_rows(), self.problem.loss.caution
        )

    def _diagonal(self, lin: Linearization) -> Float[Array, "l k"]:
        """½ H_ikk of every row: H_kk = Σ_j F_jk²."""
        factor = self.problem.loss.factor(lin.outputs[: self.batch.size], self.targets)
        return (factor**2 if factor.ndim == 2 else jnp.sum(factor**2, axis=1)) / 2

    def _padded(self, lin: Linearization, v: Float[Array, "l k"]) -> Float[Array, "n k"]:
        """Zeros for the rows of the neighbor pairs."""
        return jnp.pad(v, ((0, lin.outputs.shape[0] - self.batch.size), (0, 0)))

    def objective(self, lin: Linearization) -> Float[Array, ""]:
        """U on this batch at w_n."""
        return self.problem.data_term(lin.outputs, self.batch, self.pairs) + self.problem.regularizer.value(
            self.state.w
        )

    def objective_at(self, w: Float[Array, "q"]) -> Float[Array, ""]:
        """U on this batch at other weights: one more forward pass."""
        z = self.network(w, self.rows) if self.parallel is None else self.parallel.outputs(self.network, w, self.rows)
        return self.problem.data_term(z, self.batch, self.pairs) + self.problem.regularizer.value(w)

    @staticmethod
    def finite(new: Float[Array, "q"], old: Float[Array, "q"]) -> Float[Array, "q"]:
        """The new vector, unless it has a value that is not finite."""
        return jnp.where(jnp.all(jnp.isfinite(new)), new, old)

    def _manifold_gradient(self, lin: Linearization):
        if self.pairs is None or self.problem.manifold is None:
            return 0.0
        return lin.vjp(jax.grad(self.problem.manifold.value)(lin.outputs, self.pairs))

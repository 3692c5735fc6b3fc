"""Any optax optimizer behind the same init and step, on the same objective U."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from .. import checks
from .._struct import Number, static, struct
from ..batch import Batch
from ..layout import Layout
from ..problem import Problem


@struct
class BaselineState:
    """The trained leaves, their average over iterates (None where it is off), the optimizer's own state."""

    trained: tuple
    mean: Any
    optimizer: Any
    count: Int[Array, ""]
    frozen: tuple
    layout: Layout = static()

    @property
    def params(self) -> PyTree:
        """The iterate, in the shape given to `init`."""
        return self.layout.merge(self.trained, self.frozen)


@struct
class BaselineInfo:
    loss: Float[Array, ""]  # the batch's objective before the step

    @property
    def records(self) -> dict[str, Array]:
        """What the history shows, averaged over the steps between two records."""
        return {"batch_loss": self.loss}


@struct
class Baseline:
    """`init` and `step` like SCA's, moved by gradients of U on the batch.

    Where the regularizer is not smooth its subgradient is followed, as is customary (so nothing becomes exactly zero);
    a box is kept by clipping.
    """

    problem: Problem
    optimizer: Any = static()
    mean_power: Number | None = None

    def init(self, params: PyTree) -> BaselineState:
        layout = self.problem.layout(params)
        if not self.problem.regularizer.is_smooth:
            self.problem.regularizer.admit(layout.flatten(params))  # refuses what it does not admit
        return _init(self, params, layout)

    def step(self, state: BaselineState, batch: Any) -> tuple[BaselineState, BaselineInfo]:
        """One iteration on one mini-batch."""
        return _step(self, state, self.problem.ready(state.params, batch))

    def solution(self, state: BaselineState) -> PyTree:
        """The averaged iterate where `mean_power` is given, else the last one."""
        return state.params if state.mean is None else state.layout.merge(state.mean, state.frozen)


def baseline(optimizer, problem: Problem, *, mean_power: Number | None = None) -> Baseline:
    """An optax optimizer on the problem: baseline(optax.adam(1e-3), problem).

    `mean_power` turns on the same averaging of iterates as SCA's, for a like-for-like comparison.
    """
    if not (hasattr(optimizer, "update") and hasattr(optimizer, "init")):
        raise TypeError(f"optimizer must be an optax GradientTransformation, got {optimizer!r}.")
    if mean_power is not None:
        checks.nonnegative("mean_power", mean_power)
    return Baseline(problem, optax.with_extra_args_support(optimizer), mean_power)


@jax.jit(static_argnames="layout")
def _init(self: Baseline, params: PyTree, layout: Layout) -> BaselineState:
    trained, frozen = layout.leaves(self.problem.regularizer.admit(layout.flatten(params))), layout.split(params)[1]
    mean = None if self.mean_power is None else trained
    optimizer = self.optimizer.init(trained)
    return BaselineState(trained, mean, optimizer, jnp.zeros((), jnp.int32), frozen, layout)


@jax.jit
def _step(self: Baseline, state: BaselineState, batch: Batch) -> tuple[BaselineState, BaselineInfo]:
    problem, n = self.problem, state.count

    def objective(trained):
        return problem.batch_objective(trained, state.layout.merge(trained, state.frozen), batch)

    value, gradient = jax.value_and_grad(objective)(state.trained)
    updates, optimizer = self.optimizer.update(
        gradient, state.optimizer, state.trained, value=value, grad=gradient, value_fn=objective
    )
    trained = jax.tree.map(problem.regularizer.project, optax.apply_updates(state.trained, updates))
    mean = state.mean
    if mean is not None and self.mean_power is not None:
        share = (self.mean_power + 1) / (n + self.mean_power + 1)
        mean = jax.tree.map(lambda m, w: m + (w - m) * share.astype(m.dtype), mean, trained)
    return BaselineState(trained, mean, optimizer, n + 1, state.frozen, state.layout), BaselineInfo(value)

"""Any optax optimizer behind the same init and step, on the same objective U."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from .._struct import Number, static, struct
from ..layout import Layout
from ..problem import Problem
from ..rules.iterate_average import IterateAverage


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
    average: IterateAverage | None = None

    def init(self, params: PyTree) -> BaselineState:
        layout = self.problem.layout(params)
        if not self.problem.regularizer.is_smooth:
            self.problem.regularizer.validate_start(layout.flatten(params))  # refuses where R is not finite
        return _init(self, params, layout)

    def step(self, state: BaselineState, batch: Any) -> tuple[BaselineState, BaselineInfo]:
        """One iteration on one mini-batch."""
        if not isinstance(state, BaselineState):
            raise TypeError(
                f"step takes a BaselineState and got {type(state).__name__}: state = method.init(params), then "
                "state, info = method.step(state, batch)."
            )
        return _step(self, state, self.problem.batch(batch))

    def solution(self, state: BaselineState) -> PyTree:
        """The averaged iterate where there is one, else the last one."""
        return state.params if state.mean is None else state.layout.merge(state.mean, state.frozen)


def baseline(optimizer, problem: Problem, *, mean_power: Number | None = None) -> Baseline:
    """An optax optimizer on the problem: baseline(optax.adam(1e-3), problem).

    `mean_power` turns on the same averaging of iterates as SCA's, for a like-for-like comparison.

    >>> adam = scax.baseline(optax.adam(1e-2), problem)
    >>> result = scax.train(adam, params, (x, y), steps=20)
    """
    if not (hasattr(optimizer, "update") and hasattr(optimizer, "init")):
        raise TypeError(f"optimizer must be an optax GradientTransformation, got {optimizer!r}.")
    average = None if mean_power is None else IterateAverage(mean_power)
    return Baseline(problem, optax.with_extra_args_support(optimizer), average)


@jax.jit(static_argnames="layout")
def _init(self: Baseline, params: PyTree, layout: Layout) -> BaselineState:
    start, frozen = self.problem.regularizer.validate_start(layout.flatten(params)), layout.split(params)[1]
    trained = layout.leaves(start)
    mean = None if self.average is None else jax.tree.map(jnp.array, trained)
    optimizer = self.optimizer.init(trained)
    return BaselineState(trained, mean, optimizer, jnp.zeros((), jnp.int32), frozen, layout)


@jax.jit
def _step(self: Baseline, state: BaselineState, batch: Any) -> tuple[BaselineState, BaselineInfo]:
    problem, n = self.problem, state.count
    batch = problem.conform(state.params, batch, state.trained[0].dtype)  # while the step is traced

    def objective(trained):
        return problem.batch_objective(trained, state.layout.merge(trained, state.frozen), batch)

    value, gradient = jax.value_and_grad(objective)(state.trained)
    updates, optimizer = self.optimizer.update(
        gradient, state.optimizer, state.trained, value=value, grad=gradient, value_fn=objective
    )
    trained = jax.tree.map(problem.regularizer.project, optax.apply_updates(state.trained, updates))
    mean = state.mean if self.average is None else self.average.update(state.mean, trained, n)
    return BaselineState(trained, mean, optimizer, n + 1, state.frozen, state.layout), BaselineInfo(value)

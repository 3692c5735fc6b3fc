"""ENGD-W and SPRING as their authors run them: one batch in sample space, fixed damping, a step size from a grid.

    φ ← βφ + Jᵀ(JJᵀ + λI)⁻¹(−r − βJφ),    w ← w + η φ/√(1 − β^2n),    η = the best of 2^−30 … 1 on the batch

r and J are residuals and their Jacobian, each row times √(weight/rows of its term); β = 0 is ENGD-W. `step_size`
fixes η in place of the search. Published settings for Poisson's equation in five dimensions (jefferyren/rla-pinns, best
of their random searches): SPRING λ = 2.1e-10, β = 0.063; ENGD-W λ = 3.2e-12.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scax._struct import Number, static, struct
from scax.layout import Layout
from scax.linearize.base import symmetric_product
from scax.linearize.dense import Dense
from scax.linearize.network import NetworkFunction
from scax.linearize.stacked import stack_dense
from scax.problem import Problem

#: Step sizes of the search, and how many are tried at once.
STEP_SIZES, AT_ONCE = 2.0 ** -np.arange(31), 8


@struct
class State:
    w: Any
    phi: Any
    count: Any
    layout: Layout = static()

    @property
    def params(self) -> Any:
        return self.layout.unflatten(self.w, ())


@struct
class Info:
    objective: Any
    step_size: Any

    @property
    def records(self) -> dict[str, Any]:
        return {"batch_loss": self.objective, "step_size": self.step_size}


@struct
class NaturalGradient:
    """A method as `scax.train` and the engine take it."""

    problem: Problem
    damping: Number
    carry: Number = 0.0
    step_size: Number | None = None

    def init(self, params: Any) -> State:
        layout = self.problem.layout(params)
        w = layout.flatten(params)
        return State(w, jnp.zeros_like(w), jnp.zeros((), jnp.int32), layout)

    def solution(self, state: State) -> Any:
        return state.params

    def step(self, state: State, batch: Any) -> tuple[State, Info]:
        batch = self.problem.conform(state.params, self.problem.batch(batch), state.w.dtype)
        network = NetworkFunction(self.problem, state.layout, ())
        rows, _ = self.problem.rows(batch)
        root = jnp.sqrt(self.problem.shares(batch, state.w.dtype))

        def residuals(outputs):
            return root * (outputs[:, 0] - self.problem.targets(batch, 1, outputs.dtype)[:, 0])

        lin = (stack_dense if len(self.problem.names) > 1 else Dense.of)(network, state.w, rows)
        jacobian = root[:, None] * lin.jacobian()[:, 0]
        r = residuals(lin.outputs)
        gram = symmetric_product(jacobian) + self.damping * jnp.eye(r.shape[0], dtype=r.dtype)
        right = -r - self.carry * (jacobian @ state.phi)
        phi = self.carry * state.phi + jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(gram), right) @ jacobian
        n = (state.count + 1).astype(r.dtype)
        direction = phi / jnp.sqrt(1 - jnp.asarray(self.carry, r.dtype) ** (2 * n))
        step_size = self.step_size
        if step_size is None:
            loss = lambda eta: jnp.sum(residuals(network(state.w + eta * direction, rows)) ** 2)
            losses = jax.lax.map(loss, jnp.asarray(STEP_SIZES, r.dtype), batch_size=AT_ONCE)
            step_size = jnp.asarray(STEP_SIZES, r.dtype)[jnp.nanargmin(losses)]
        step_size = jnp.asarray(step_size, r.dtype)
        return State(state.w + step_size * direction, phi, state.count + 1, state.layout), Info(
            jnp.sum(r**2), step_size
        )

"""One device: what a step does where nothing is split."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float

from ..linearize import Linearization, WithGram, linearize, linearize_along
from ..linearize.network import NetworkFunction
from ..solvers import Solution, Solver
from ..solvers.plan import StepPlan


@dataclasses.dataclass(frozen=True)
class Serial:
    """The counterpart of `Parallel` on one device."""

    def spread(self, step: Callable) -> Callable:
        return step

    def solver(self, solver: Solver) -> Solver:
        return solver

    def linearize(self, network: NetworkFunction, w: Float[Array, "q"], x: Any, plan: StepPlan) -> Linearization:
        lin = linearize(network, w, x, plan.form)
        return WithGram(lin) if plan.uses_gram else lin

    def sample(
        self, network: NetworkFunction, w: Float[Array, "q"], x: Any, plan: StepPlan, directions: Callable
    ) -> tuple[Linearization, Linearization]:
        """(f and products with J, the rows C_iJ_i): C = directions(f)."""
        assert plan.directions is not None
        whole, lin = linearize_along(network, w, x, plan.form, directions, plan.directions)
        return whole, WithGram(lin) if plan.uses_gram else lin

    def outputs(self, network: NetworkFunction, w: Float[Array, "q"], x: Any) -> Float[Array, "n k"]:
        return network(w, x)

    def solve_blocks(self, solve: Callable[..., Solution], blocks: tuple) -> Solution:
        return solve(*blocks)

"""What decides between steps, behind one contract.

Before a step every rule sees what the batch shows (`Seen`) and proposes a value; after it every rule learns how the
step did (`Outcome`). A rule is a frozen pytree of numbers; what it remembers is a pytree of arrays that it gets back.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._struct import Number

#: The numbers of all rules are those of batches of so many rows.
ROWS = 20

RuleState = Any  # what a rule remembers from step to step: a pytree of arrays
Scalar = Float[Array, ""]


@dataclasses.dataclass(frozen=True)
class Reading:
    """What the clock shows."""

    time: Scalar  # t
    stillness: Scalar  # q in [0, 1]: 0 where the clock runs with the steps, 1 where it has stood still
    multiplier: Scalar  # m in (0, 1], by which the fall of the objective lowers the damping

    @staticmethod
    def of_step(n: Int[Array, ""], dtype: Any) -> "Reading":
        """The clock that counts steps."""
        return Reading(n.astype(dtype), jnp.zeros((), dtype), jnp.ones((), dtype))


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a batch shows before the step. The functions compute only if a rule calls them."""

    step: Int[Array, ""]  # n
    rows: Scalar  # L, the effective number of rows
    objective: Scalar  # U on this batch at w_n: on rows that w_n has not been fitted to
    caution: Number  # κ of the loss, see `Loss.caution`
    curvature: Callable[[], Scalar]  # S = ½ tr ∇² of the average loss of the linearized network
    spread: Callable[[], Scalar]  # S about its mean: without the direction that all rows share
    weighted_rows: Callable[[int], Float[Array, "p q"]]  # R with RᵀR ≈ JᵀWJ, of few rows where there are many
    along: Callable[[], tuple[Scalar, Scalar]]  # −½⟨∇U, δ⟩ and ½δᵀ∇²Uδ on this batch, δ the last displacement
    clock: "Reading"  # what schedules are functions of
    gauss_newton: Callable[[], Float[Array, "q q"]] | None = None  # JᵀWJ, W the halved Hessian of the loss, diagonal
    curvature_left: Callable[[], Scalar | float] = lambda: 1.0  # the batch's share of the loss's largest curvature
    term_curvatures: Callable[[], Float[Array, "terms"]] | None = None  # S of each term, without its weight


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a step did. The functions compute only if a rule calls them."""

    step: Int[Array, ""]  # n
    accepted: Bool[Array, ""]
    step_norm: Scalar  # ‖w_{n+1} − w_n‖ as proposed
    before: Scalar  # U on this batch at w_n
    after: Callable[[], Scalar]  # and at the proposal: one more forward pass
    predicted: Callable[[], Scalar]  # U on this batch at the proposal by the linearized network


class Rule:
    """Abstract: `init` before the first step, `propose` before and `update` after every step."""

    def init(self, w: Float[Array, "q"]) -> RuleState:
        """What the rule remembers before the first step, the weights being w."""
        raise NotImplementedError

    def propose(self, state: RuleState, seen: Seen) -> tuple[Any, RuleState]:
        """The value for this step, and what to remember of the batch."""
        raise NotImplementedError

    def update(self, state: RuleState, outcome: Outcome) -> RuleState:
        """What to remember of how the step did."""
        raise NotImplementedError

    def explain(self) -> str:
        """What the rule does, in a line."""
        return type(self).__name__

    def report(self, state: RuleState) -> dict[str, Scalar]:
        """Scalars to show after a step, by name: each becomes a column of the history. None, unless overridden."""
        return {}


class Stateless(Rule):
    """Abstract: a rule that remembers nothing."""

    def init(self, w):
        return ()

    def update(self, state, outcome):
        return state


def where_needed(needed: Bool[Array, ""], compute: Callable[[], Any], otherwise: Any) -> Any:
    """compute() where it is needed, else `otherwise`. On a CPU that is a branch; on a GPU, where a branch waits for the
    host, compute() is evaluated in every step."""
    return jax.lax.platform_dependent(
        cpu=lambda: jax.lax.cond(needed, compute, lambda: otherwise),
        default=lambda: jax.tree.map(lambda a, b: jnp.where(needed, a, b), compute(), otherwise),
    )

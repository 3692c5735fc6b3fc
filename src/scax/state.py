"""What the next step needs, and what a person wants to see of this one."""

import functools
import operator

from jaxtyping import Array, Bool, Float, Int, PyTree

from ._struct import static, struct
from .layout import Layout
from .rules.rules import RuleStates
from .sharding.blocks import Partition
from .status import Status


@struct
class State:
    """What the next step needs. A pytree: save it, vmap it, donate it."""

    w: Float[Array, "q"]
    memory: Float[Array, "q"] | None  # d_n, None where ρ ≡ 1
    carried: Float[Array, "q"] | None  # δ_{n−1} = ŵ_n − w_{n−1}, None where β ≡ 0
    mean: Float[Array, "q"] | None  # the averaged iterate, None where averaging is off
    rules: RuleStates
    damping: Float[Array, ""]  # τ of the last step, for a person to see
    count: Int[Array, ""]  # n
    blocks: Partition | None
    frozen: tuple
    layout: Layout = static()

    @property
    def params(self) -> PyTree:
        """The iterate, in the shape given to `init`."""
        return self.layout.unflatten(self.w, self.frozen)


@struct
class Info:
    """What a person wants to see of one step."""

    loss: Float[Array, ""]  # the batch's average loss at w_n, before the step
    objective: Float[Array, ""]  # U on the batch at w_n
    step_norm: Float[Array, ""]  # ‖w_{n+1} − w_n‖
    accepted: Bool[Array, ""]
    status: Int[Array, ""]  # a scax.Status
    iterations: Int[Array, ""]
    optimality: Float[Array, ""]  # the solver's own relative residual or duality gap
    step_size: Float[Array, ""]  # α
    averaging: Float[Array, ""]  # ρ
    damping: Float[Array, ""]  # τ
    clock: Float[Array, ""]  # t, which the schedules read: n, or less where fresh batches improve
    multiplier: Float[Array, ""]  # m, by which their improvement lowers τ
    reported: dict[str, Array]  # what the rules report, see `Rule.report`
    terms: dict[str, Array]  # each term's average loss at w_n, without its weight

    @property
    def is_end(self) -> Bool[Array, ""]:
        """Whether nothing is left to gain, see `Status.is_end`."""
        return functools.reduce(operator.or_, (self.status == code for code in Status if code.is_end))

    @property
    def records(self) -> dict[str, Array]:
        """What the history shows, averaged over the steps between two records."""
        return {
            "batch_loss": self.loss,
            "accepted": self.accepted,
            "damping": self.damping,
            "step_size": self.step_size,
            "clock": self.clock,
            "multiplier": self.multiplier,
            **self.reported,
        }

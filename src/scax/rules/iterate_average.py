"""The average of the iterates: what is deployed where single iterates are noisy."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from .. import checks
from .._struct import Number, struct
from .base import Reading, Scalar, Seen, where_needed
from .clock import FREE_STEPS

#: The average is compared with the iterate on one batch in so many.
EVERY = 8


@struct
class AverageState:
    """How the average does."""

    share: Float[Array, ""]  # of w_{n+1}, once it is taken in
    untried: Float[Array, ""]  # and until then, in what is deployed
    own: Float[Array, ""]  # mean of U at the average, on batches that neither was fitted to
    last: Float[Array, ""]  # and at the iterate


@struct
class IterateAverage:
    """w̄ ← w̄ + (w − w̄)(p + 1)/(t + p + 1): the iterates' average with weights growing like t^p, t the clock's time.

    Its age is about a (p + 2)th of what the clock counts: while the clock stands still it follows the iterates. An
    iterate enters once a fresh batch has evaluated it, and not where that batch alarms; until then the solution has as
    much of it as the clock does not stand still, where single steps can go astray. An average that is twice as bad as
    the iterates starts again.
    """

    power: Number

    def __post_init__(self):
        checks.nonnegative("mean_power", self.power)

    def init(self, w: Float[Array, "q"]) -> AverageState:
        one = jnp.ones((), w.dtype)
        return AverageState(one, jnp.ones((), w.dtype), 0 * one, jnp.zeros((), w.dtype))

    def update(self, mean: PyTree, w: PyTree, time: Any) -> PyTree:
        """The average with one more iterate."""
        share = self.share(time)
        return jax.tree.map(lambda a, b: a + (b - a) * jnp.asarray(share, a.dtype), mean, w)

    def share(self, time: Any) -> Any:
        """Of the iterate that follows the step at this time."""
        return (self.power + 1) / (time + self.power + 1)

    def judge(
        self,
        state: AverageState,
        mean: Float[Array, "q"],
        w: Float[Array, "q"],
        seen: Seen,
        clock: Reading,
        alarm: Bool[Array, ""],
        objective_at: Callable[[Float[Array, "q"]], Scalar],
    ) -> tuple[Float[Array, "q"], Scalar, AverageState]:
        """The average with w_n in it, now that a fresh batch has seen w_n; U on that batch at the average, which is
        computed where it is compared with the iterate and where there is an alarm, else ∞; and the state."""
        mean = jnp.where(alarm, mean, mean + (w - mean) * state.share)
        now, is_first = seen.objective, seen.step < EVERY
        compare = seen.step % EVERY == EVERY - 1
        at_mean = where_needed(compare | alarm, lambda: objective_at(mean), jnp.full_like(now, jnp.inf))
        compare = compare & ~alarm & jnp.isfinite(at_mean) & jnp.isfinite(now)
        track = lambda old, new: jnp.where(compare, jnp.where(is_first, new, old + (new - old) / EVERY), old)
        own, last = track(state.own, at_mean), track(state.last, now)
        astray = compare & (own - last > jnp.abs(last)) & (seen.step > FREE_STEPS)
        share = jnp.asarray(self.share(clock.time), w.dtype)
        after = AverageState(share, share * (1 - clock.stillness), jnp.where(astray, last, own), last)
        return jnp.where(astray, w, mean), at_mean, after

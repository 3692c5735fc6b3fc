"""The clock: what the schedules of step size, carry and damping are functions of.

Annealing is right where batches are noisy and wrong where they are not: every past batch tells as much as the last one
only if nothing has changed since. `Progress` counts the steps whose information is still valid. Two signals tell, and
both are by-products of a step: whether the objective on fresh batches falls, and how far along the last displacement
rows that it was not fitted to would go.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import checks
from .._struct import Number, struct
from .base import ROWS, Reading, Rule, Stateless

#: Steps in which the clock runs whatever happens: at first the objective falls on every problem, noisy or not.
FREE_STEPS = 50
#: The steps whose largest mean objective is F₀, what there was to explain.
FIRST_STEPS = 10
#: The shortest window of the means: a ratio of means of fewer batches is mostly error.
SHORTEST = 20
#: Powers of n by which the fast and the slow mean weigh past objectives: ages of a tenth and a third of the window.
FAST, SLOW = 8, 1
#: The power of L/20 by which the tolerated fall is less below 20 rows, whose larger standard error hides more of it.
FEW = 0.25


@struct
class StepCount(Stateless):
    """A clock that counts steps.

    >>> sca = scax.SCA(problem, clock=scax.rules.StepCount())  # schedules count steps
    """

    def explain(self):
        return "the clock counts steps"

    def propose(self, state, seen):
        return Reading.of_step(seen.step, seen.objective.dtype), state


@struct
class ProgressState:
    """What `Progress` remembers."""

    time: Float[Array, ""]  # t
    still: Float[Array, ""]  # θ, the share of recent steps at which the clock stood still
    fast: Float[Array, ""]  # f
    slow: Float[Array, ""]  # s
    variance: Float[Array, ""]  # v
    slope: Float[Array, ""]  # mean of −½⟨∇U, δ⟩ on fresh rows
    bend: Float[Array, ""]  # mean of ½ δᵀ∇²U δ
    first: Float[Array, ""]  # F₀


@struct
class Progress(Rule):
    """A clock that stands still, or goes back, while fresh batches improve; and m, by which that lowers the damping.

        c     = min(n, t + 20)                                window: what is valid, and no less than 20 steps
        f    += (F − f) · 9/(c + 9),    s += (F − s) · 2/(c + 2)     fast and slow mean of fresh objectives
        v    += (min((F/f − 1)², 4) − v) · max(2/(n + 2), .02)       relative variance of one of them
        fall  = ln(s/f)  beyond its standard error √(v a/(2 − a)),  a = 9/(c + 9)
        x     = mean slope / mean bend along the last displacement   signal/(signal + noise) of it: a Wiener factor
        tick  = min(clip(1 − fall/bound, −1, 1), clip(2 − 5x, −1, 1));    1 in the first 50 steps (`free_steps`)
        bound = tolerance · min(1, L/20)^¼
        t     = max(0, t + tick)
        θ    += (1 − tick − θ) · 9/(c + 9),    q = min(1.5 θ, 1)
        m     = clip(f/F₀, ε^¾, 1)^p,    p = min(½ + 1.5 θ, 1)

    F is U on a batch that w_n has not been fitted to. f/F₀ is what is left of what there was to explain: τ falls with
    the residual's norm where the clock runs (p = ½), with its square where it stands still (p = 1), the two ends of the
    range in which Levenberg–Marquardt converges quadratically. An objective that is not positive or does not fall, and
    batches that have nothing in common, let the clock run with the steps.

    >>> sca = scax.SCA(problem, clock=scax.rules.Progress())  # the default
    """

    tolerance: Number = 0.4
    free_steps: Number = FREE_STEPS

    def __post_init__(self):
        checks.positive("tolerance", self.tolerance)
        checks.nonnegative("free_steps", self.free_steps)

    def explain(self):
        return "the clock stands still while fresh batches improve, and damping falls with the objective"

    def init(self, w):
        return ProgressState(-jnp.ones((), w.dtype), *(jnp.zeros((), w.dtype) for _ in range(7)))

    def propose(self, state, seen):
        n = seen.step.astype(state.time.dtype)
        eps, tiny = jnp.finfo(n.dtype).eps, jnp.finfo(n.dtype).tiny
        now = jnp.where(jnp.isfinite(seen.objective), seen.objective, state.fast)  # F
        window = jnp.minimum(n, jnp.maximum(state.time, 0) + SHORTEST)
        gain, slow_gain = ((power + 1) / (window + power + 1) for power in (FAST, SLOW))

        deviation = jnp.where(n > 0, (now - state.fast) / (jnp.abs(state.fast) + tiny), 0)
        variance = state.variance + (jnp.minimum(deviation**2, 4) - state.variance) * jnp.maximum(2 / (n + 2), 0.02)
        fast, slow = state.fast + (now - state.fast) * gain, state.slow + (now - state.slow) * slow_gain
        is_positive = (fast > 0) & (slow > 0)  # else a relative difference stands for the logarithm
        ratio = jnp.log(jnp.maximum(slow, tiny) / jnp.maximum(fast, tiny))
        fall = jnp.where(is_positive, ratio, (slow - fast) / (jnp.abs(slow) + jnp.abs(fast) + tiny))
        error = jnp.sqrt(variance * gain / (2 - gain))
        clear = jnp.sign(fall) * jnp.maximum(jnp.abs(fall) - error, 0)

        slope, bend = seen.along()
        slope = state.slope + (jnp.where(jnp.isfinite(slope), slope, 0) - state.slope) * gain
        bend = state.bend + (jnp.where(jnp.isfinite(bend), bend, 0) - state.bend) * gain
        x = slope / jnp.maximum(bend, tiny)

        is_free = n < self.free_steps
        bound = self.tolerance * jnp.minimum(seen.rows / ROWS, 1) ** FEW
        tick = jnp.minimum(jnp.clip(1 - clear / bound, -1, 1), jnp.clip(2 - 5 * x, -1, 1))
        tick = jnp.where(is_free, 1, tick)
        time = jnp.maximum(state.time + tick, 0)
        still = jnp.where(is_free, 0, jnp.clip(state.still + (1 - tick - state.still) * gain, 0, 1))  # θ
        first = jnp.where(n < FIRST_STEPS, jnp.maximum(state.first, slow), state.first)
        stillness = jnp.minimum(1.5 * still, 1)  # q
        left = jnp.where((fast > 0) & (first > 0), fast / jnp.maximum(first, tiny), 1)
        multiplier = jnp.clip(left, eps**0.75, 1) ** jnp.minimum(0.5 + 1.5 * still, 1)  # m
        return Reading(time, stillness, multiplier), ProgressState(
            time, still, fast, slow, variance, slope, bend, first
        )

    def update(self, state, outcome):
        return state

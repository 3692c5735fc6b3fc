"""Sequences for the step size α_n, the averaging weight ρ_n and the carry β_n, and the conditions they meet.

Almost-sure convergence to a stationary point wants, of α and ρ, a_n → 0, Σ a_n = ∞ and Σ a_n² < ∞, and of the pair
α_n/ρ_n → 0. For a_n ~ n^{−p} that is ½ < p ≤ 1, and a larger p for α than for ρ.
"""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import checks
from .._struct import Number, static, struct
from .base import Rule, RuleState


@dataclasses.dataclass(frozen=True)
class Conditions:
    """What convergence theory asks of a sequence; None where a user's own function leaves it open."""

    vanishes: bool | None
    sum_diverges: bool | None
    squares_summable: bool | None

    @property
    def all_met(self) -> bool | None:
        met = (self.vanishes, self.sum_diverges, self.squares_summable)
        return False if False in met else None if None in met else True

    def __str__(self) -> str:
        word = {True: "yes", False: "no", None: "unknown"}
        return (
            f"a_n → 0: {word[self.vanishes]}; Σ a_n = ∞: {word[self.sum_diverges]}; "
            f"Σ a_n² < ∞: {word[self.squares_summable]}"
        )


class Sequence(Rule):
    """Abstract: a rule for a number that depends on nothing but time."""

    @property
    def order(self) -> float | None:
        """p of a_n ~ n^{−p}; None if not known."""
        return None

    def conditions(self) -> Conditions:
        p = self.order
        return Conditions(None, None, None) if p is None else Conditions(p > 0, p <= 1, p > 0.5)

    def __call__(self, n: Any) -> Float[Array, ""]:
        """a_n: for plots and tests."""
        raise NotImplementedError

    def advance(self, state: RuleState) -> RuleState:
        """What it remembers one step later."""
        raise NotImplementedError

    def update(self, state, outcome):
        return self.advance(state)


class Formula(Sequence):
    """Abstract: a sequence with a formula for a_n, `__call__`, which remembers nothing."""

    def init(self, w):
        return ()

    def advance(self, state):
        return state

    def propose(self, state, seen):
        return jnp.asarray(self(seen.step.astype(seen.objective.dtype))), state


@struct
class Constant(Formula):
    """The same value at every step.

    >>> sca = scax.SCA(problem, step_size=scax.Constant(0.3))  # or step_size=0.3
    >>> float(scax.Constant(0.5)(100))
    0.5
    """

    value: Number

    def __post_init__(self):
        checks.fraction("value", self.value)

    def __call__(self, n):
        return jnp.asarray(self.value)

    @property
    def order(self):
        return 0.0


@struct
class QuadraticDecay(Sequence):
    """The paper's decaying rule.

    a_n = a_{n−1}(1 − rate · a_{n−1}), a_0 = initial. Falls like 1/(rate · n).

    >>> sca = scax.SCA(problem, step_size=scax.QuadraticDecay(0.5, 0.01), damping=0.1)
    """

    initial: Number
    rate: Number

    def __post_init__(self):
        checks.fraction("initial", self.initial)
        checks.fraction("rate", self.rate)

    def init(self, w):
        return jnp.asarray(self.initial, w.dtype)

    def propose(self, state, seen):
        return state, state

    def advance(self, state):
        return state * (1 - self.rate * state)

    def __call__(self, n):
        first = jnp.asarray(self.initial, float)
        return jax.lax.fori_loop(0, n, lambda _, a: a * (1 - self.rate * a), first)

    @property
    def order(self):
        rate = checks.concrete(self.rate)
        return None if rate is None or rate.ndim else (1.0 if rate > 0 else 0.0)


@struct
class PowerDecay(Formula):
    """A power of the step.

    a_n = initial / (1 + n/scale)^exponent.

    >>> [round(float(scax.PowerDecay(0.5, 0.5)(n)), 3) for n in (0, 3, 99)]
    [0.5, 0.25, 0.05]
    """

    initial: Number
    exponent: Number
    scale: Number = 1.0

    def __post_init__(self):
        checks.fraction("initial", self.initial)
        checks.nonnegative("exponent", self.exponent)
        checks.positive("scale", self.scale)

    def __call__(self, n):
        return jnp.asarray(self.initial * (1 + n / self.scale) ** -self.exponent)

    @property
    def order(self):
        exponent = checks.concrete(self.exponent)
        return None if exponent is None or exponent.ndim else float(exponent)


@struct
class Approach(Formula):
    """Rises towards one, for `carry`.

    β_n = 1 − (1 − initial)/(1 + n/scale): the carried share of the last displacement, ever closer to 1.

    It forgets over about (n + scale)/((1 − initial) · scale) steps, a window that grows with n: no horizon to know.

    >>> [round(float(scax.Approach(0.65, scale=6)(n)), 3) for n in (0, 6, 1000)]
    [0.65, 0.825, 0.998]
    """

    initial: Number
    scale: Number

    def __post_init__(self):
        checks.number("initial", self.initial, lambda v: (v >= 0) & (v < 1), "at least 0 and below 1")
        checks.positive("scale", self.scale)

    def __call__(self, n):
        return jnp.asarray(1 - (1 - self.initial) / (1 + n / self.scale))

    @property
    def order(self):
        return 0.0


@struct
class FromFunction(Sequence):
    """Any function step -> value, such as an optax schedule."""

    function: Callable[[Any], Any] = static()

    def init(self, w):
        return ()

    def advance(self, state):
        return state

    def propose(self, state, seen):
        return self(seen.step), state

    def __call__(self, n):
        return jnp.asarray(self.function(n))

    @property
    def order(self):
        return None


@struct
class OnClock(Formula):
    """A formula of the clock's time instead of the step: a_n = formula(t_n)."""

    formula: Formula

    def propose(self, state, seen):
        return self.formula(seen.clock.time), state

    def __call__(self, n):
        return self.formula(n)

    @property
    def order(self):
        return self.formula.order


#: α, unless another is given.
STEP_SIZE = OnClock(PowerDecay(0.5, 0.55, scale=1.5))
#: β, unless another is given.
CARRY = OnClock(Approach(0.65, scale=6.0))


def as_sequence(name: str, value: Any) -> Sequence:
    """A Sequence from a Sequence, a number or a function of the step."""
    if isinstance(value, Sequence):
        return value
    if callable(value):
        return FromFunction(value)
    checks.fraction(name, value)
    return Constant(value)


def as_carry(value: Any) -> Sequence:
    """β from an Approach, a function of the step, or a number below 1."""
    if not callable(value):
        checks.number("carry", value, lambda v: (v >= 0) & (v < 1), "at least 0 and below 1")
    return as_sequence("carry", value)


def warn_about_convergence(step_size: Sequence, averaging: Sequence) -> None:
    """Warn about a pair that cannot converge: one that stops short, or memory that forgets faster than w moves.

    Constants are not warned about: they hover around a stationary point, which is what a constant asks for.
    """
    alpha, rho = step_size.order, averaging.order
    if alpha is not None and alpha > 1:
        warnings.warn(
            f"step_size falls like n^-{alpha:g}: its sum is finite, so the iterates stop short of a stationary point. "
            "Use an exponent between 0.5 and 1.",
            stacklevel=5,
        )
    if alpha is not None and rho is not None and rho > 0 and alpha <= rho:
        warnings.warn(
            f"step_size falls like n^-{alpha:g} and averaging like n^-{rho:g}: convergence needs "
            "step_size / averaging → 0, or the memory of past gradients is never up to date. "
            "Let averaging fall more slowly, or keep it constant.",
            stacklevel=5,
        )

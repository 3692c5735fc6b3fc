"""Sequences for the step size α_n and the averaging weight ρ_n, and the conditions they meet.

Almost-sure convergence to a stationary point wants, of both sequences, a_n → 0, Σ a_n = ∞ and Σ a_n² < ∞, and of the
pair α_n/ρ_n → 0. For a_n ~ n^{−p} that is ½ < p ≤ 1, and a larger p for α than for ρ.
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


@dataclasses.dataclass(frozen=True)
class Conditions:
    """What convergence theory asks of a sequence; None where a function of one's own cannot be judged."""

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


class Sequence:
    """a_0, a_1, …: `first` is a_0 and `next` gives a_{n+1} from a_n and n: recursions are as cheap as formulas."""

    @property
    def first(self) -> Number:
        raise NotImplementedError

    def next(self, value: Float[Array, ""], n: Array) -> Float[Array, ""]:
        raise NotImplementedError

    @property
    def order(self) -> float | None:
        """p of a_n ~ n^{−p}; None if not known."""
        return None

    def conditions(self) -> Conditions:
        p = self.order
        return Conditions(None, None, None) if p is None else Conditions(p > 0, p <= 1, p > 0.5)

    def __call__(self, n: int) -> Float[Array, ""]:
        """a_n, by walking there: for plots and tests."""
        return jax.lax.fori_loop(0, n, lambda i, a: self.next(a, i), jnp.asarray(self.first, float))


@struct
class Constant(Sequence):
    """a_n = value."""

    value: Number

    def __post_init__(self):
        checks.fraction("value", self.value)

    @property
    def first(self):
        return self.value

    def next(self, value, n):
        return value

    @property
    def order(self):
        return 0.0


@struct
class QuadraticDecay(Sequence):
    """a_n = a_{n−1}(1 − rate · a_{n−1}), a_0 = initial: the paper's rule. Falls like 1/(rate · n)."""

    initial: Number
    rate: Number

    def __post_init__(self):
        checks.fraction("initial", self.initial)
        checks.fraction("rate", self.rate)

    @property
    def first(self):
        return self.initial

    def next(self, value, n):
        return value * (1 - self.rate * value)

    @property
    def order(self):
        rate = checks.concrete(self.rate)
        return None if rate is None or rate.ndim else (1.0 if rate > 0 else 0.0)


@struct
class PowerDecay(Sequence):
    """a_n = initial / (1 + n/scale)^exponent; with `later`, · (1 + n/turn)^(exponent − later): like n^−exponent for
    some `turn` steps, then like n^−later."""

    initial: Number
    exponent: Number
    scale: Number = 1.0
    later: Number | None = None
    turn: Number = 300.0

    def __post_init__(self):
        checks.fraction("initial", self.initial)
        checks.nonnegative("exponent", self.exponent)
        checks.positive("scale", self.scale)
        checks.positive("turn", self.turn)
        if self.later is not None:
            checks.nonnegative("later", self.later)

    @property
    def first(self):
        return self.initial

    def next(self, value, n):
        fallen = self.initial * (1 + (n + 1) / self.scale) ** -self.exponent
        return fallen if self.later is None else fallen * (1 + (n + 1) / self.turn) ** (self.exponent - self.later)

    @property
    def order(self):
        exponent = checks.concrete(self.exponent if self.later is None else self.later)
        return None if exponent is None or exponent.ndim else float(exponent)


#: α_n, unless another is given.
STEP_SIZE = PowerDecay(0.5, 0.55, scale=1.5)


@struct
class Approach:
    """β_n = 1 − (1 − initial)/(1 + n/scale): the carried share of the last displacement, ever closer to 1.

    It forgets over about (n + scale)/((1 − initial) · scale) steps, a window that grows with n: no horizon to know.
    """

    initial: Number
    scale: Number

    def __post_init__(self):
        checks.number("initial", self.initial, lambda v: (v >= 0) & (v < 1), "at least 0 and below 1")
        checks.positive("scale", self.scale)

    def function(self, n: Any) -> Any:
        return 1 - (1 - self.initial) / (1 + n / self.scale)


@struct
class FromFunction(Sequence):
    """Any function step -> value, such as an optax schedule."""

    function: Callable[[Any], Any] = static()

    @property
    def first(self):
        return self.function(jnp.asarray(0))

    def next(self, value, n):
        return jnp.asarray(self.function(n + 1))


def as_sequence(name: str, value) -> Sequence:
    """A Sequence from a Sequence, a number or a function of the step."""
    if isinstance(value, Sequence):
        return value
    if callable(value):
        return FromFunction(value)
    checks.fraction(name, value)
    return Constant(value)


def as_carry(value: Any) -> Any:
    """β: an Approach or a function of the step as it is, a number after a look at it."""
    if isinstance(value, (Approach, FromFunction)):
        return value
    if callable(value):
        return FromFunction(value)
    checks.number("carry", value, lambda v: (v >= 0) & (v < 1), "at least 0 and below 1")
    return value


def carry_at(carry: Any, n: Any) -> Any:
    """β_n."""
    return carry.function(n) if isinstance(carry, (Approach, FromFunction)) else carry


def warn_if_hopeless(step_size: Sequence, averaging: Sequence) -> None:
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

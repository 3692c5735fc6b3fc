"""ω_t, the weights of a problem's terms: numbers, schedules, or balanced by curvature."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .. import checks
from .._struct import Number, static, struct
from .base import Rule, Seen
from .sequences import FromFunction, Sequence

#: Batches whose curvature is measured: each of so many first ones, then one in as many.
EVERY = 8
#: Measured batches that the mean reaches back over, about.
WINDOW = 20


@struct
class Balance:
    """Weights of a problem's terms, balanced by their curvature.

    ω_t is such that the term curves U as much as the term that curves it most: ω_t S_t = max_s ω_s S_s.

    S_t = ½ tr ∇² of the term's average loss, the network linearized: the trace of its Gram matrix over its rows.
    The logarithms of the ratios are averaged over measured batches, so that U changes slowly.

    >>> terms = {"fit": scax.Term(net.apply), "edge": scax.Term(net.apply, weight="balance")}
    >>> problem = scax.Problem(terms, scax.L2(0.0))
    """


#: A weight as given; None is 1.
Weight = Number | Sequence | Balance | None


def as_weight(name: str, value: Any) -> Weight:
    """A term's weight from a number > 0, a Sequence, a function of the step, or "balance"."""
    if isinstance(value, (Sequence, Balance)):
        return value
    if isinstance(value, str) and value == "balance":
        return Balance()
    if callable(value):
        return FromFunction(value)
    if value is None or isinstance(value, (str, list, tuple)):
        raise TypeError(
            f"the weight of term {name!r} must be a number > 0, a function of the step or 'balance', got {value!r}."
        )
    checks.positive(f"the weight of term {name!r}", value)
    return value


def is_rule(weight: Weight) -> bool:
    """Whether it changes from step to step."""
    return isinstance(weight, (Sequence, Balance))


@struct
class WeightState:
    """What `TermWeights` remembers."""

    values: Float[Array, "terms"]  # ω of the last step
    ratios: Float[Array, "terms"]  # mean of ln(max_s ω_s S_s / S_t)
    parts: tuple  # what the schedules remember


@struct
class TermWeights(Rule):
    """The weights of all terms, in their order."""

    weights: tuple[Weight, ...]
    names: tuple[str, ...] = static()

    def init(self, w):
        count = len(self.weights)
        parts = tuple(weight.init(w) if isinstance(weight, Sequence) else () for weight in self.weights)
        return WeightState(jnp.ones(count, w.dtype), jnp.zeros(count, w.dtype), parts)

    def check(self, dtype: Any) -> None:
        """Refuse a schedule that cannot be called, or whose first weight is none."""
        for name, weight in zip(self.names, self.weights, strict=True):
            if isinstance(weight, Sequence):
                with checks.about(f"the weight of term {name!r}"):
                    value = checks.concrete(jnp.asarray(weight(0), dtype))
                    if value is not None:
                        checks.positive("its value at step 0", float(value))

    def at_start(self, dtype: Any) -> list[Array]:
        """ω before the first step: schedules at 0, balanced terms 1."""
        known = lambda weight: 1.0 if weight is None or isinstance(weight, Balance) else weight
        at = lambda weight: weight(0) if isinstance(weight, Sequence) else known(weight)
        return [jnp.asarray(at(weight), dtype) for weight in self.weights]

    def propose(self, state: WeightState, seen: Seen) -> tuple[Float[Array, "terms"], WeightState]:
        dtype, n = state.values.dtype, seen.step
        values, parts = [], []
        for weight, part in zip(self.weights, state.parts, strict=True):
            if isinstance(weight, Sequence):
                value, part = weight.propose(part, seen)
            else:
                value = 1.0 if weight is None or isinstance(weight, Balance) else weight
            values.append(jnp.asarray(value, dtype))
            parts.append(part)
        ω, ratios = jnp.stack(values), state.ratios
        balanced = jnp.asarray([isinstance(weight, Balance) for weight in self.weights])
        if any(isinstance(weight, Balance) for weight in self.weights):
            measure = (n < EVERY) | (n % EVERY == 0)
            ratios = jax.lax.cond(measure, lambda: self._measured(ratios, ω, seen, n), lambda: ratios)
        ω = jnp.where(balanced, jnp.exp(ratios), ω)
        return ω, WeightState(ω, ratios, tuple(parts))

    def _measured(self, ratios: Array, ω: Array, seen: Seen, n: Int[Array, ""]) -> Array:
        assert seen.term_curvatures is not None
        curvature = seen.term_curvatures()
        tiny = jnp.finfo(curvature.dtype).tiny
        now = jnp.log(jnp.maximum(jnp.max(ω * curvature), tiny) / jnp.maximum(curvature, tiny))
        valid = jnp.isfinite(now) & (curvature > 0)
        measured = jnp.where(n < EVERY, n, EVERY + n // EVERY)
        gain = jnp.maximum(1 / (measured + 1), 1 / WINDOW)
        return ratios + jnp.where(valid, (now - ratios) * gain, 0).astype(ratios.dtype)

    def update(self, state, outcome):
        parts = tuple(
            weight.update(part, outcome) if isinstance(weight, Sequence) else part
            for weight, part in zip(self.weights, state.parts, strict=True)
        )
        return WeightState(state.values, state.ratios, parts)

    def report(self, state):
        changing = [(t, name) for t, name in enumerate(self.names) if is_rule(self.weights[t])]
        return {f"{name}_weight": state.values[t] for t, name in changing}

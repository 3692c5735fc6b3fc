"""The paper's baselines, their learning rate and decay in the state: one compiled program for a whole grid."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..problem import Problem
from ..rules.sequences import Constant, QuadraticDecay
from ..sca import SCA
from .configs import Setting

EPSILON = 0.01  # ε of the paper's rule a_n = a_{n−1}(1 − ε a_{n−1})
DECAYS = ("constant", "cosine", "quadratic")


class Rule(NamedTuple):
    """m ← decay_m m + (1 − decay_m) g,   v ← decay_v v + gain_v g²,   step −a_n · m̂ / (√(v̂ + inside) + outside).

    m̂ is m freed of its start at zero, as is v̂ where `freed`; without `scaled` the step is −a_n m̂.
    """

    decay_m: Any
    decay_v: Any
    gain_v: Any
    inside: Any
    outside: Any
    freed: Any
    scaled: Any


#: optax's own numbers, so that all four are lanes of one compiled program; a test holds each against optax.
RULES = {
    "sgd": Rule(0.0, 0.0, 0.0, 0.0, 0.0, False, False),
    "adagrad": Rule(0.0, 1.0, 1.0, 1e-7, 0.0, False, True),
    "rmsprop": Rule(0.0, 0.9, 0.1, 1e-8, 0.0, False, True),
    "adam": Rule(0.9, 0.999, 0.001, 0.0, 1e-8, True, True),
}


class Tunable(NamedTuple):
    """An optimizer's state, with its rule and learning rate beside it."""

    m: Any
    v: Any
    rule: Rule
    rate: Any  # a_n
    decay: Any  # index into DECAYS
    horizon: Any
    n: Any


def _init(params) -> Tunable:
    number, whole = jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
    zeros = jax.tree.map(jnp.zeros_like, params)
    rule = Rule(*(jnp.asarray(value, bool if isinstance(value, bool) else jnp.float32) for value in RULES["sgd"]))
    return Tunable(zeros, zeros, rule, number, whole, number, whole)


def _update(updates, state, params=None, **extra_args):
    rule, t = state.rule, state.n + 1
    m = jax.tree.map(lambda m, g: rule.decay_m * m + (1 - rule.decay_m) * g, state.m, updates)
    v = jax.tree.map(lambda v, g: rule.decay_v * v + rule.gain_v * g**2, state.v, updates)
    freed = jnp.where(rule.freed, 1 - rule.decay_v**t, 1)
    cosine = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(state.n / state.horizon, 1)))
    length = state.rate * jnp.where(state.decay == 1, cosine, 1) / (1 - rule.decay_m**t)

    def step(m, v):
        size = jnp.where(rule.scaled, jnp.sqrt(v / freed + rule.inside) + rule.outside, 1)
        return -length * m / size

    rate = jnp.where(state.decay == 2, state.rate * (1 - EPSILON * state.rate), state.rate)
    return jax.tree.map(step, m, v), state._replace(m=m, v=v, rate=rate, n=t)


#: One for all baselines and settings: which it is, is in its state.
OPTIMIZER = optax.GradientTransformationExtraArgs(_init, _update)


def settings(name: str, chosen: Sequence[Setting], steps: int) -> dict[str, Any]:
    """The parts of a Tunable that set several runs of a baseline to their own rates and decays."""
    rule = Rule(*(np.full(len(chosen), v, bool if isinstance(v, bool) else np.float32) for v in RULES[name]))
    return {
        "rule": rule,
        "rate": np.array([s.rate for s in chosen], np.float32),
        "decay": np.array([DECAYS.index(s.decay) for s in chosen], np.int32),
        "horizon": np.full(len(chosen), steps, np.float32),
    }


#: α_0 = .5, ρ_0 = .9, both by the paper's rule, and τ = 0: nothing else holds a step back.
AS_PRINTED = {
    "step_size": QuadraticDecay(0.5, EPSILON),
    "averaging": QuadraticDecay(0.9, EPSILON),
    "damping": 0.0,
    "carry": 0.0,
    "mean_power": None,
    "acceptance": False,
}
#: The nearest to it that works: τ = .1, and ρ held at .9.
AS_PRINTED_DAMPED = AS_PRINTED | {"damping": 0.1, "averaging": Constant(0.9)}

SCA_VARIANTS = {
    "sca-paper": ("SCA, the paper's settings (τ = 0)", AS_PRINTED),
    "sca-damped": ("SCA, the paper's settings but τ = .1, ρ = .9", AS_PRINTED_DAMPED),
    "sca": ("SCA, our defaults", {}),
}


def sca(name: str, problem: Problem) -> SCA:
    """A variant of SCA by name; that the paper's two sequences cannot converge is known and not warned about."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SCA(problem, **SCA_VARIANTS[name][1])

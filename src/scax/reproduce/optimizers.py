"""The paper's baselines, their learning rate and decay in the state: one compiled program for a whole grid."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

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


_OPTIMIZERS: dict[str, Callable[[optax.Schedule], optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "adagrad": lambda rate: optax.adagrad(rate, initial_accumulator_value=0.0),
    "rmsprop": lambda rate: optax.rmsprop(rate, decay=0.9),
    "adam": optax.adam,
}


@functools.cache
def optimizer(name: str) -> optax.GradientTransformation:
    """optax's optimizer with its rate and decay as numbers of its state: a whole grid shares one compiled program."""

    def build(rate, decay, horizon):
        cosine = lambda n: 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(n / horizon, 1)))
        schedule = lambda n: rate * jnp.where(decay == DECAYS.index("cosine"), cosine(n), 1)
        return optax.chain(
            _OPTIMIZERS[name](schedule), _quadratic(jnp.where(decay == DECAYS.index("quadratic"), rate, 0))
        )

    return optax.inject_hyperparams(build)(rate=1.0, decay=0.0, horizon=1.0)


def _quadratic(rate: Any) -> optax.GradientTransformation:
    """Updates times a_n / a_0, where a_n = a_{n−1}(1 − ε a_{n−1}) and a_0 = rate."""

    def update(updates, state, params=None):
        return jax.tree.map(lambda u: state * u, updates), state * (1 - EPSILON * rate * state)

    return optax.GradientTransformation(lambda params: jnp.ones((), jnp.float32), update)


def settings(chosen: Sequence[Setting], steps: int) -> dict[str, Any]:
    """The numbers of an optimizer's state that set several runs to their own rates and decays."""
    return {
        "rate": np.array([s.rate for s in chosen], np.float32),
        "decay": np.array([DECAYS.index(s.decay) for s in chosen], np.float32),
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

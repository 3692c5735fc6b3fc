"""The paper's baselines, their learning rate and decay in the state: one compiled program for a whole grid."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..problem import Problem
from ..sca import SCA
from ..schedules import Constant, QuadraticDecay
from .configs import Setting

EPSILON = 0.01  # ε of the paper's rule a_n = a_{n−1}(1 − ε a_{n−1})
DECAYS = ("constant", "cosine", "quadratic")

_OPTIMIZERS = {
    "sgd": lambda: optax.sgd(1.0),
    "adagrad": lambda: optax.adagrad(1.0, initial_accumulator_value=0.0),
    "rmsprop": lambda: optax.rmsprop(1.0, decay=0.9),
    "adam": lambda: optax.adam(1.0),
}


class Tunable(NamedTuple):
    """An optimizer's state, with its learning rate beside it."""

    inner: Any
    rate: Any  # a_n
    decay: Any  # index into DECAYS
    horizon: Any
    n: Any


@functools.cache
def optimizer(name: str) -> optax.GradientTransformationExtraArgs:
    """Each of these multiplies by the learning rate last, so that scaling the updates of a unit rate is the same."""
    inner = optax.with_extra_args_support(_OPTIMIZERS[name]())

    def init(params):
        number, whole = jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
        return Tunable(inner.init(params), number, whole, number, whole)

    def update(updates, state, params=None, **extra):
        updates, following = inner.update(updates, state.inner, params, **extra)
        cosine = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(state.n / state.horizon, 1)))
        scale = state.rate * jnp.where(state.decay == 1, cosine, 1)
        rate = jnp.where(state.decay == 2, state.rate * (1 - EPSILON * state.rate), state.rate)
        updates = jax.tree.map(lambda u: scale.astype(u.dtype) * u, updates)
        return updates, state._replace(inner=following, rate=rate, n=state.n + 1)

    return optax.GradientTransformationExtraArgs(init, update)


def settings(chosen: Sequence[Setting], steps: int) -> dict[str, np.ndarray]:
    """The parts of a Tunable that set several runs to their own rates and decays."""
    return {
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

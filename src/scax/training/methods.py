"""The methods `scax compare` knows, and the settings it tries for each baseline."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

LABELS = {
    "sca": "SCA",
    "sgd": "SGD",
    "momentum": "Nesterov",
    "adagrad": "AdaGrad",
    "rmsprop": "RMSProp",
    "adam": "Adam",
    "adamw": "AdamW",
    "nadam": "NAdam",
    "lion": "Lion",
}
DEFAULT = ("sca", "sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw")

_OPTIMIZERS = {
    "sgd": lambda: optax.sgd(1.0),
    "momentum": lambda: optax.sgd(1.0, momentum=0.9, nesterov=True),
    "adagrad": lambda: optax.adagrad(1.0),
    "rmsprop": lambda: optax.rmsprop(1.0, decay=0.9),
    "adam": lambda: optax.adam(1.0),
    "adamw": lambda: optax.adamw(1.0),
    "nadam": lambda: optax.nadam(1.0),
    "lion": lambda: optax.lion(1.0),
}

#: Half a decade apart. Each rate is tried constant and with cosine decay to zero.
RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
DECAYS = ("constant", "cosine")


class Tunable(NamedTuple):
    """An optimizer's state, with its learning rate beside it: a grid of rates shares one compiled program."""

    inner: Any
    rate: Any
    cosine: Any
    horizon: Any
    n: Any


@functools.cache
def optimizer(name: str) -> optax.GradientTransformationExtraArgs:
    """An optax optimizer whose updates are scaled by the rate in its state, times ½(1 + cos(πn/horizon)) if cosine.

    Each of these optimizers multiplies by the learning rate last, so that scaling a unit rate is the same thing.
    """
    inner = optax.with_extra_args_support(_OPTIMIZERS[name]())

    def init(params):
        one = jnp.ones((), float)
        return Tunable(inner.init(params), one, jnp.zeros((), float), one, jnp.zeros((), int))

    def update(updates, state, params=None, **extra):
        updates, following = inner.update(updates, state.inner, params, **extra)
        decayed = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(state.n / state.horizon, 1)))
        scale = state.rate * jnp.where(state.cosine > 0, decayed, 1)
        updates = jax.tree.map(lambda u: scale.astype(u.dtype) * u, updates)
        return updates, state._replace(inner=following, n=state.n + 1)

    return optax.GradientTransformationExtraArgs(init, update)


def tuned(state: Tunable, rate: float, decay: str, steps: int) -> Tunable:
    """The state, set to one rate and decay."""
    number = lambda v: jnp.asarray(v, float)
    return state._replace(rate=number(rate), cosine=number(decay == "cosine"), horizon=number(steps))

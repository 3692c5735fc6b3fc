"""The methods `scax compare` knows, and the settings it tries for each baseline."""

import functools
from collections.abc import Callable
from typing import Any

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

_OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "momentum": lambda rate: optax.sgd(rate, momentum=0.9, nesterov=True),
    "adagrad": optax.adagrad,
    "rmsprop": lambda rate: optax.rmsprop(rate, decay=0.9),
    "adam": optax.adam,
    "adamw": optax.adamw,
    "nadam": optax.nadam,
    "lion": optax.lion,
}

#: Half a decade apart. Each rate is tried constant and with cosine decay to zero.
RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
DECAYS = ("constant", "cosine")


Optimizer = Callable[[optax.Schedule], optax.GradientTransformation]


def tunable(make: Optimizer) -> optax.GradientTransformation:
    """An optimizer whose rate and decay are numbers of its state: a grid of them shares one compiled program."""

    def build(rate, cosine, horizon):
        decayed = lambda n: 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(n / horizon, 1)))
        return make(lambda n: rate * jnp.where(cosine > 0, decayed(n), 1))

    return optax.inject_hyperparams(build)(rate=1.0, cosine=0.0, horizon=1.0)


def tuned(state: Any, rate: Any, cosine: Any, steps: Any) -> Any:
    """The state of a tunable optimizer, set to a rate that is constant or, with `cosine`, decays to 0 in `steps`."""
    values, old = {"rate": rate, "cosine": cosine, "horizon": steps}, state.hyperparams
    return state._replace(hyperparams={name: jnp.asarray(v, old[name].dtype) for name, v in values.items()})


@functools.cache
def optimizer(name: str) -> optax.GradientTransformation:
    """A method of LABELS, tunable; always the same object, so that nothing compiles anew."""
    return tunable(_OPTIMIZERS[name])

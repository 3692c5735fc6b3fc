"""What every bridge gives, what it needs, and what it refuses."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxtyping import Array, PyTree


@dataclasses.dataclass(frozen=True, eq=False)
class Bridge:
    """A network of another framework, ready for `scax.Problem(bridge.apply, …)`.

    params              its weights as they were when the bridge was built, a pytree: where training starts
    apply(params, x)    its outputs for rows x, pure; everything that is not trained is part of it
    load(params)        the framework's own model with these weights
    """

    params: PyTree
    apply: Callable[[PyTree, Array], Array]
    load: Callable[[PyTree], Any]


def refuse_training_mode(caller: str, where: str, what: str, remedy: str) -> ValueError:
    """The refusal of layers whose outputs for one row depend on other rows, or on chance.

    SCA linearizes f(w; x_i) for each row on its own. Batch statistics tie the rows of a batch together and dropout
    draws another network for every step, so neither is a function of (w, x_i).
    """
    return ValueError(
        f"{caller}: {where} is in training mode and {what}; SCA linearizes the network row by row and needs outputs "
        f"that depend on the weights and the row alone. {remedy}"
    )

"""The network and the problem that the options of a run describe."""

import dataclasses
import functools
import operator
from typing import Any

from .. import losses
from ..models import MLP
from ..regularizers import L1, L2, GroupLasso, LogSum, Regularizer, neuron_groups
from .config import TrainConfig
from .reading import Data


@functools.lru_cache(maxsize=8)
def network(widths: tuple[int, ...], activation: str) -> MLP:
    """The same object for the same network: a second run in a process compiles nothing anew."""
    return MLP(widths, activation)


def penalty(config: TrainConfig, params: Any, strength: float | None = None) -> Regularizer:
    """The sum of the penalties with a strength; one that is to be chosen has strength 1 until it is."""
    if config.strength:
        config = dataclasses.replace(config, strength="", **{config.penalty: 1.0 if strength is None else strength})
    parts: list[Regularizer] = []
    if config.l2 or not (config.l1 or config.log or config.group):
        parts.append(L2(config.l2))
    if config.l1:
        parts.append(L1(config.l1))
    if config.log:
        parts.append(LogSum(config.log))
    if config.group:
        parts.append(GroupLasso(config.group, neuron_groups(params)))
    return functools.reduce(operator.add, parts)


def loss_of(data: Data) -> Any:
    """What the task's outputs are compared by."""
    return {"regression": losses.Squared, "binary": losses.Logistic, "multiclass": losses.Softmax}[data.task]()

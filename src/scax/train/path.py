"""A regularization path: one network per strength, from weak to strong, and the strongest that costs nothing."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .. import checks
from ..problem import Problem
from ..regularizers import Regularizer
from ..sca import SCA
from .loop import train


@dataclasses.dataclass(frozen=True)
class Path:
    """One entry per strength, weakest first; `best` and `suggested` are places in them.

    `best` has the least loss on the rows held out. `suggested` is the strongest whose loss there exceeds it by no more
    than one standard error of that difference, row by row: what the rows held out cannot tell from the best.
    """

    strengths: np.ndarray
    loss: np.ndarray  # average on the rows held out
    excess: np.ndarray  # loss − best's
    error: np.ndarray  # standard error of the excess
    weights: np.ndarray  # that are not zero
    neurons: np.ndarray  # groups of the penalty that are not zero; weights where there are none
    params: tuple[PyTree, ...]
    best: int
    suggested: int

    @property
    def strength(self) -> float:
        """The suggested one."""
        return float(self.strengths[self.suggested])

    @property
    def solution(self) -> PyTree:
        """The network trained with it."""
        return self.params[self.suggested]


def path(
    problem: Problem,
    strengths: Sequence[float] | np.ndarray,
    *,
    params: PyTree,
    data: Any,
    validation: Any,
    steps: int = 300,
    first_steps: int | None = None,
    batch_size: int = 32,
    key: Array | None = None,
    finish: int | None = None,
    options: dict[str, Any] | None = None,
    told: Callable[[dict[str, float]], Any] | None = None,
) -> Path:
    """Train with every strength, each run starting from where the last, weaker one ended.

    The problem's regularizer is scaled as a whole: a strength of s makes each of its parts s times as strong as given,
    so build it with strength 1 (`GroupLasso(1.0, groups)`) and the strengths are what they say. The first run, from
    `params`, takes `first_steps` (4·`steps`). `options` go to `SCA`. Strengths are leaves: all runs share one program.
    """
    order = np.asarray(strengths, float)
    if order.ndim != 1 or len(order) == 0:
        raise ValueError(f"strengths must be a list of at least one number, got {strengths!r}.")
    checks.nonnegative("strengths", order)
    order = np.sort(order)
    held = problem.ready(params, validation)
    stir = jax.random.key(0) if key is None else key
    rows, found, kept, alive = [], [], [], []
    for i, strength in enumerate(order):
        scaled = dataclasses.replace(problem, regularizer=scale(problem.regularizer, strength))
        count = (4 * steps if first_steps is None else first_steps) if i == 0 else steps
        sub = jax.random.fold_in(stir, i)
        method = SCA(scaled, **(options or {}))
        params = train(
            method, params, data, steps=count, batch_size=batch_size, key=sub, records=1, finish=finish
        ).params
        w = problem.layout(params).flatten(params)
        found.append(params)
        rows.append(np.asarray(_losses(problem, params, held), np.float64))
        kept.append(int(jnp.sum(w != 0)))
        alive.append(_alive(problem.regularizer, w))
        if told is not None:
            told({"strength": float(strength), "loss": float(rows[-1].mean()), "weights": kept[-1]})
    share = np.asarray(held.shares(float), np.float64)
    table = np.stack(rows)
    loss = table @ share
    best = int(np.nanargmin(np.where(np.isfinite(loss), loss, np.inf)))
    difference = table - table[best]
    excess = difference @ share
    error = np.sqrt(((difference - excess[:, None]) ** 2) @ share**2)
    enough = np.flatnonzero((excess <= error) & (np.arange(len(order)) >= best))
    return Path(order, loss, excess, error, np.asarray(kept), np.asarray(alive), tuple(found), best, int(enough[-1]))


def scale(regularizer: Regularizer, strength: float) -> Regularizer:
    """Each part's strength times a number; bounds stay."""
    parts = getattr(regularizer, "parts", None)
    if parts is not None:
        return dataclasses.replace(regularizer, parts=tuple(scale(part, strength) for part in parts))  # type: ignore
    if not hasattr(regularizer, "strength"):
        return regularizer
    return dataclasses.replace(regularizer, strength=regularizer.strength * strength)  # type: ignore


def _alive(regularizer: Regularizer, w: Array) -> int:
    for part in getattr(regularizer, "parts", (regularizer,)):
        if (groups := getattr(part, "groups", None)) is not None:
            return int(jnp.sum(groups.norms(w) > 0))
    return int(jnp.sum(w != 0))


@jax.jit
def _losses(problem: Problem, params: PyTree, batch: Any):
    z = problem.outputs(params, batch.x)
    return problem.loss.value(z, problem.loss.targets(batch.y, z.shape[1]))

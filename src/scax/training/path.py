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
from .feed import check_one_function
from .refit import refit as without_shrinkage
from .run import train


@dataclasses.dataclass(frozen=True)
class Path:
    """One entry per strength, weakest first; `best` and `suggested` are places in them.

    `best` has the least loss on the rows held out. `suggested` is the strongest whose loss there exceeds it by no more
    than one standard error of that difference, row by row: what the rows held out cannot tell from the best.

    >>> problem = scax.Problem(net.apply, scax.Squared(), scax.L1(1.0))
    >>> parts = {"data": (x[:32], y[:32]), "validation": (x[32:], y[32:])}
    >>> path = scax.path(problem, [1e-3, 1e-1], params=params, **parts, steps=20)
    >>> path.strengths.tolist(), bool(path.weights[1] <= path.weights[0]), path.solution is path.params[path.suggested]
    ([0.001, 0.1], True, True)
    """

    strengths: np.ndarray
    loss: np.ndarray  # average on the rows held out
    excess: np.ndarray  # loss − best's
    error: np.ndarray  # standard error of the excess
    weights: np.ndarray  # that are not zero, or what `count` says
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

    def __repr__(self) -> str:
        marks = {self.best: "best", self.suggested: "suggested"}  # the second where both are one
        lines = ["    strength  loss held out  weights  neurons"]
        for i in range(len(self.strengths)):
            numbers = (
                f"{self.strengths[i]:12.3g}  {self.loss[i]:13.5g}  {int(self.weights[i]):7d}  {int(self.neurons[i]):7d}"
            )
            lines.append(numbers + (f"  {marks[i]}" if i in marks else ""))
        return "\n".join(lines)


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
    refit: bool = False,
    options: dict[str, Any] | None = None,
    on_record: Callable[[dict[str, float]], Any] | None = None,
    count: Callable[[PyTree], int] | None = None,
) -> Path:
    """Train with every strength, each run starting from where the last, weaker one ended.

    Each part of the problem's regularizer that makes zeros is scaled: s times as strong as given, so build it with
    strength 1 (`GroupLasso(1.0, groups)`) and the strengths are what they say. A ridge beside it stays as it is. The
    first run, from `params`, takes `first_steps` (4·`steps`). With `refit` what is left of each network is trained once
    more without the shrinkage (`scax.refit`), and judged so; the next run goes on from the network before that.
    `on_record` sees a record of each strength, and ends the path there by returning True. `count` says how many weights
    of a network are left, by default those that are not zero. `options` go to `SCA`. Strengths are leaves: all runs
    share one program.

    >>> problem = scax.Problem(net.apply, scax.Squared(), scax.L1(1.0))
    >>> parts = {"data": (x[:32], y[:32]), "validation": (x[32:], y[32:])}
    >>> path = scax.path(problem, [1e-3, 1e-1], params=params, **parts, steps=20)
    >>> len(path.params)
    2
    """
    order = np.asarray(strengths, float)
    if order.ndim != 1 or len(order) == 0:
        raise ValueError(f"strengths must be a list of at least one number, got {strengths!r}.")
    checks.nonnegative("strengths", order)
    check_one_function(problem, "path")
    order = np.sort(order)
    held_out_batch = problem.ready(params, validation)
    key = jax.random.key(0) if key is None else key
    share = np.asarray(held_out_batch.shares(float), np.float64)
    rows, networks, weights, neurons = [], [], [], []
    for i, strength in enumerate(order):
        scaled = dataclasses.replace(problem, regularizer=scale(problem.regularizer, strength))
        length = (4 * steps if first_steps is None else first_steps) if i == 0 else steps
        own_key = jax.random.fold_in(key, i)
        method = SCA(scaled, **(options or {}))
        params = train(
            method, params, data, steps=length, batch_size=batch_size, key=own_key, records=1, finish=finish
        ).params
        network = params
        if refit:
            longer = 4 * steps if first_steps is None else first_steps
            network = without_shrinkage(
                scaled, params, data, steps=longer, batch_size=batch_size, key=own_key, options=options
            )
        w = problem.layout(params).flatten(network)
        networks.append(network)
        rows.append(np.asarray(_losses(problem, network, held_out_batch), np.float64))
        weights.append(int(jnp.sum(w != 0)) if count is None else count(network))
        neurons.append(_alive(problem.regularizer, w))
        record = {"strength": float(strength), "loss": float(rows[-1] @ share), "weights": weights[-1]}
        if on_record is not None and on_record(record) is True:
            break
    order = order[: len(rows)]
    table = np.stack(rows)
    loss = table @ share
    best = int(np.nanargmin(np.where(np.isfinite(loss), loss, np.inf)))
    difference = table - table[best]
    excess = difference @ share
    error = np.sqrt(((difference - excess[:, None]) ** 2) @ share**2)
    enough = np.flatnonzero((excess <= error) & (np.arange(len(order)) >= best))
    suggested = int(enough[-1]) if len(enough) else best
    return Path(order, loss, excess, error, np.asarray(weights), np.asarray(neurons), tuple(networks), best, suggested)


def scale(regularizer: Regularizer, strength: float) -> Regularizer:
    """The strength of each part times a number; bounds stay, and so does a ridge beside a part that makes zeros."""
    parts = getattr(regularizer, "parts", None)
    if parts is not None:
        stays = lambda part: part.is_smooth and not regularizer.is_smooth
        scaled = tuple(part if stays(part) else scale(part, strength) for part in parts)
        return dataclasses.replace(regularizer, parts=scaled)  # type: ignore[call-arg]
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

"""How strong a sparse penalty should be, chosen on training rows set aside for it: --strength auto, alpha="auto"."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..batch import Batch
from ..models import MLP, compact
from ..models.compact import used
from ..problem import Problem
from .path import Path, path

#: From almost none to one under which standardized columns leave nothing, or, with `LogSum`, little.
STRENGTHS = np.geomspace(1e-4, 1.0, 17)
#: Training rows that take part at most, and the share of them that judges.
MOST_ROWS, FRACTION = 20_000, 0.25
#: The path ends where this much of what the best network gains over outputs of 0 is lost, and as much of its weights
#: gone: stronger only leaves less. While weights stay, a network may be worse because it still fits the noise.
HOPELESS = 0.5


def set_aside(rows: Batch, seed: int) -> tuple[tuple, tuple]:
    """(rows to train on, rows to judge by), drawn from the seed."""
    shuffled = np.random.default_rng(seed).permutation(rows.x.shape[0])
    validation, train = np.split(shuffled, [max(1, round(FRACTION * len(shuffled)))])
    part = lambda places: (rows.x[places], rows.y[places])
    return part(train), part(validation)


def choose_strength(
    problem: Problem,
    params: Any,
    data: Any,
    validation: Any,
    *,
    on_record: Callable[[dict[str, float]], Any] | None = None,
    agreed: Callable[[bool], bool] = bool,
    **options: Any,
) -> Path:
    """The path of a problem whose sparse penalty has strength 1, up to a hopeless strength, until `on_record` ends it.

    `agreed` makes that one decision of several processes. `options` are those of `path`.
    """
    hopeless = until_hopeless(_loss_of_zeros(problem, params, validation))

    def watch(record: dict[str, float]) -> bool:
        over = hopeless(record)
        return agreed((on_record is not None and on_record(record) is True) or over)

    return path(problem, STRENGTHS, params=params, data=data, validation=validation, on_record=watch, **options)


def until_hopeless(nothing: float) -> Callable[[dict[str, float]], bool]:
    """Whether a path may end with a record, given one by one; `nothing` is the loss of outputs that are 0."""
    best = {"loss": np.inf, "weights": np.inf}

    def hopeless(record: dict[str, float]) -> bool:
        nonlocal best
        if record["loss"] < best["loss"]:
            best = record
        gain, lost = nothing - best["loss"], record["loss"] - best["loss"]
        return bool(0 < HOPELESS * gain < lost and record["weights"] <= (1 - HOPELESS) * best["weights"])

    return hopeless


def _loss_of_zeros(problem: Problem, params: Any, rows: Any) -> float:
    """The average loss of outputs that are all 0."""
    batch = problem.ready(params, rows)
    z = jnp.zeros_like(problem.outputs(params, batch.x))
    return float(batch.shares(z.dtype) @ problem.loss.value(z, problem.loss.targets(batch.y, z.shape[1])))


def count_used(net: MLP, params: Any) -> dict[str, Any]:
    """What a network with exact zeros consists of once what cannot change its outputs is left out (`scax.compact`):
    weights, biases included; hidden neurons; the inputs it looks at; its widths, at least one unit each."""
    small = compact(net, params)
    units = used([np.asarray(layer["weight"]) for layer in params])
    return {
        "weights": small.after.weights,
        "neurons": int(sum(np.sum(layer) for layer in units[1:-1])),
        "inputs": np.flatnonzero(units[0]).tolist(),
        "network": list(small.net.widths),
    }


def describe_path(found: Path, net: MLP) -> dict[str, Any]:
    """What a run folder keeps of a path: one entry per strength, and the places of the best and the chosen one."""
    left = [count_used(net, params) for params in found.params]
    return {
        "strengths": found.strengths.tolist(),
        "loss": [float(v) for v in found.loss],
        "excess": [float(v) for v in found.excess],
        "error": [float(v) for v in found.error],
        **{name: [each[name] for each in left] for name in ("weights", "neurons", "inputs")},
        "best": found.best,
        "chosen": found.suggested,
    }

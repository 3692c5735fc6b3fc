"""What `scax train` does where nothing else is said: the recipe of the estimators, for one network."""

import dataclasses
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..models import MLP
from ..problem import Problem
from ..regularizers import L2
from ..sca import SCA
from ..tables import Preprocess
from ..training.feed import Rows
from ..training.many import train_many
from ..training.recipe import MANY_ROWS, Recipe
from .config import TrainConfig
from .reading import HELD_OUT, Data

#: What the recipe decides where it is not given.
DECIDES = ("hidden", "activation", "steps", "batch_size", "l2")
#: Of few rows, or with a penalty that makes zeros.
FEW_STEPS, FEW_BATCH, FEW_L2 = 2000, 32, 0.01
BATCH, MOST_STEPS = 64, 50_000
#: Strengths that are tried for many rows, each for this share of the steps; the first where nothing can be tried.
STRENGTHS, SHARE = (1e-4, 1e-5, 1e-3, 1e-2), 0.2


def decided(config: TrainConfig, preprocess: Preprocess, auto: Collection[str]) -> TrainConfig:
    """The options named in `auto`, sized by the table; l2 where it is not to be found by `find_l2`."""
    schema = preprocess.schema
    rows = max(1, round(schema.rows * (1 - config.validation - config.test)))
    recipe = Recipe.of(rows, len(schema.used), not config.is_sparse, BATCH)
    few = not recipe.holds_out
    batch = FEW_BATCH if few else max(16, BATCH if schema.outputs == 1 else 128 // schema.outputs)
    batch = batch if "batch_size" in auto else config.batch_size
    found: dict[str, Any] = {
        "hidden": list(recipe.hidden),
        "activation": recipe.activation,
        "batch_size": batch,
        "steps": FEW_STEPS if few else min(recipe.epochs * -(-rows // batch), MOST_STEPS),
        "l2": FEW_L2 if few else STRENGTHS[0],
    }
    return dataclasses.replace(config, **{name: found[name] for name in auto})


def is_searched(config: TrainConfig, auto: Collection[str], rows: int) -> bool:
    """Whether l2 is to be found by rows held out."""
    return "l2" in auto and not config.is_sparse and config.validation > 0 and rows >= MANY_ROWS


def find_l2(config: TrainConfig, data: Data, net: MLP, loss: Any) -> float:
    """The strength with the least loss on rows held out, of short runs side by side from one start."""
    if not isinstance(data.feed, Rows) or data.held_out is None:
        return config.l2
    problems = [Problem(net.apply, loss, L2(strength)) for strength in STRENGTHS]
    start = net.init(jax.random.split(jax.random.key(config.seed))[0])
    result = train_many(
        [SCA(problem, metric=None) for problem in problems],
        lambda key: start,
        (data.feed.data.x, data.feed.data.y),
        keys=jax.random.split(jax.random.key(config.seed), len(STRENGTHS)),
        steps=max(20, round(SHARE * config.steps)),
        batch_size=config.batch_size,
        validation=tuple(jnp.asarray(part[:HELD_OUT]) for part in data.held_out),
        records=10,
    )
    least = np.nan_to_num(result.history["validation_loss"], nan=np.inf).min(axis=0)
    return float(STRENGTHS[int(np.argmin(least))])

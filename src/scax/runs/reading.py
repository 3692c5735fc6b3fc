"""A table, from its file to mini-batches: in memory, or as shards on disk."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..batch import Batch
from ..storage.run_files import table_digest
from ..storage.run_folder import RunFolderError
from ..tables import Preprocess, Split, Stream, Table, convert, open_table
from ..training.feed import Rows
from ..training.feed import Shards as ShardFeed
from .config import TrainConfig

SHARDS = "shards"
HELD_OUT = 65_536  # held-out rows the score is measured on
IN_MEMORY = 400 << 20  # bytes of encoded rows from which they are written to shards and read from there


@dataclasses.dataclass(frozen=True)
class Data:
    """A table, read: how it is encoded, and where batches and held-out rows come from."""

    preprocess: Preprocess
    feed: Rows | ShardFeed
    held_out: tuple[np.ndarray, np.ndarray] | None  # the best step is chosen by them
    test: tuple[np.ndarray, np.ndarray] | None  # nothing is chosen by them
    rows: int
    digest: str
    warnings: tuple[str, ...] = ()  # sentences for people

    @property
    def task(self) -> str:
        goal = self.preprocess.schema.target
        return "regression" if goal.task == "regression" else "binary" if len(goal.classes) == 2 else "multiclass"


def survey(
    config: TrainConfig, progress: Callable[[int], Any] | None = None, fold: int = 0
) -> tuple[Table, Preprocess]:
    """Open the table, find its schema and statistics; those of the rows outside a fold, where one is given."""
    table = open_table(config.table, header=config.header, encoding=config.encoding)
    found = Preprocess.fit(
        table,
        config.target,
        task=None if config.task == "auto" else config.task,
        drop=config.drop,
        categories=config.category,
        max_levels=config.max_levels,
        split=_split(config, fold),
        progress=progress,
        # a sparse penalty chooses among columns, not among bins
        numbers="standard" if config.numbers == "auto" and config.is_sparse else config.numbers,
    )
    return table, found


def read(config: TrainConfig, table: Table, preprocess: Preprocess, folder: Path, fold: int = 0) -> Data:
    """Encode the table: into memory, or a large one into shards under the folder. The rows of a fold are the test."""
    split, key = _split(config, fold), table_digest(config.table)
    if fold and preprocess.bytes() > IN_MEMORY:
        raise RunFolderError(
            f"{table.name} is too large to cross-validate on: leave --folds out; --test holds rows out."
        )
    if preprocess.bytes() <= IN_MEMORY:
        x, y, *held_out_rows = preprocess.arrays(table, split, most=IN_MEMORY)
        feed: Rows | ShardFeed = _rows(x, y, config)
        rows = len(x)
    else:
        shards = convert(table, preprocess, folder / SHARDS, split=split, seed=config.seed)
        feed, rows = ShardFeed(Stream(shards, seed=config.seed), config.batch_size), shards.rows
        held_out_rows = list(shards.held_out(max(1, min(HELD_OUT, IN_MEMORY // (16 * (preprocess.schema.width + 1))))))
    if rows < 1:
        raise RunFolderError(f"{table.name} leaves no rows to train on: lower --validation or --test.")
    held_out, test = None, None
    if held_out_rows:
        held_out, test = _divided((held_out_rows[0], held_out_rows[1]), config, split, preprocess.schema.rows)
    warnings = _untrained(preprocess, feed.data.y) if isinstance(feed, Rows) else ()
    return Data(preprocess, feed, held_out, test, rows, key, warnings)


def _divided(
    held_out_rows: tuple[np.ndarray, np.ndarray], config: TrainConfig, split: Split, rows: int
) -> tuple[Any, Any]:
    """(rows to choose by, rows to score on), each None where it is empty: the second are a fold, or drawn from the
    seed."""
    count = len(held_out_rows[0])
    share = config.test / (config.validation + config.test) if count else 0.0
    drawn = np.random.default_rng(config.seed).permutation(count) < round(share * count)
    if split.fold:
        drawn = split.tested(0, rows)[split.held_out(0, rows)]
    parts = ((held_out_rows[0][some], held_out_rows[1][some]) for some in (~drawn, drawn))
    first, second = (part if len(part[0]) else None for part in parts)
    return first, second


def _untrained(preprocess: Preprocess, y: Any) -> tuple[str, ...]:
    """A warning if all rows of a class are held out."""
    classes = preprocess.schema.target.classes
    there = set(np.unique(np.asarray(y)).astype(int).tolist())
    absent = [str(c) for i, c in enumerate(classes) if i not in there]
    if not absent:
        return ()
    listed = ", ".join(map(repr, absent[:5])) + (f" and {len(absent) - 5:,} more" if len(absent) > 5 else "")
    which = f"class {listed} has" if len(absent) == 1 else f"classes {listed} have"
    advice = "Give more rows, hold out fewer (--validation, --test), or try another --seed."
    return (f"The {which} no rows to train on, for all of them are held out, and will not be predicted. {advice}",)


def _rows(x: np.ndarray, y: np.ndarray, config: TrainConfig) -> Rows:
    return Rows(Batch(jnp.asarray(x), jnp.asarray(y)), config.batch_size)


def _split(config: TrainConfig, fold: int = 0) -> Split:
    return Split(round(config.validation + config.test, 9), config.seed, fold, config.folds)

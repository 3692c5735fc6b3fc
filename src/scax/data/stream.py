"""Tables larger than memory: encoded once into shards of rows on disk, then read in shuffled order.

Conversion sends every row to a shard drawn at random, so each shard is a random sample of the table, however the file
was sorted. An epoch goes through the shards in an order drawn afresh, and through the rows of each in an order drawn
afresh: nothing but one shard and the next is in memory, and the disk is read from end to end.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from .preprocess import Preprocess
from .split import Split


@dataclasses.dataclass(frozen=True)
class Shards:
    """A converted table: a folder of .npy files, and what they were made from."""

    folder: Path
    rows: int
    width: int

    @staticmethod
    def open(folder: str | os.PathLike) -> "Shards":
        """A folder that `convert` has written; a TableError where it is not whole."""
        raise NotImplementedError

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """All training rows (x, y) in memory: for tables that do fit."""
        raise NotImplementedError

    def held_out(self, limit: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The held-out rows (x, y), at most `limit` of them (a random sample: their order is random)."""
        raise NotImplementedError


def convert(
    table: Any,
    preprocess: Preprocess,
    folder: str | os.PathLike,
    *,
    split: Split = Split(0.0),
    shard_bytes: int = 64 << 20,
    seed: int = 0,
    progress: Any = None,
) -> Shards:
    """Encode a table into shards under `folder`, in bounded memory; a folder already made of the same table by the same
    preprocessing is used as it is. Written aside and renamed: a folder that is there is whole."""
    raise NotImplementedError


class Stream:
    """Shuffled epochs over shards, a chunk of batches at a time.

    What is drawn is a function of (seed, position) alone, the position being the number of rows drawn so far: a run
    resumes anywhere by giving the position it had reached. Batches may straddle two epochs.
    """

    def __init__(self, shards: Shards, *, seed: int = 0, position: int = 0):
        raise NotImplementedError

    position: int

    def chunk(self, steps: int, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
        """The next `steps` batches: x [steps, batch, d] and y [steps, batch], for one compiled scan."""
        raise NotImplementedError

    def ahead(self, steps: int, batch_size: int) -> None:
        """Start reading the next chunk of this size in the background, while the device works on the last one."""
        raise NotImplementedError

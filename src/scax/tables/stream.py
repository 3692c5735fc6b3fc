"""Tables larger than memory: encoded once into shards of rows on disk, then read in shuffled order.

Conversion sends every row to a shard drawn at random, so each shard is a random sample of the table, however the file
was sorted. An epoch goes through the shards in an order drawn afresh, and through the rows of each in an order drawn
afresh: nothing but one shard and the next is in memory, and the disk is read from end to end.
"""

import contextlib
import dataclasses
import os
import shutil
import stat
import threading
from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np

from .._untrusted import Between, Unreadable, check, parse_json, read_text
from .errors import TableError

VERSION = 1
ABOUT = "shards.json"


class About(TypedDict):
    """shards.json: what was made of a table."""

    version: Annotated[int, Between(VERSION, VERSION)]
    key: str
    width: Annotated[int, Between(1, 2**53)]
    sizes: list[Annotated[int, Between(0, 2**53)]]
    out_sizes: list[Annotated[int, Between(0, 2**53)]]


@dataclasses.dataclass(frozen=True)
class Shards:
    """A converted table: a folder of .npy files. `sizes` are the rows of each training shard, `out_sizes` those of the
    held-out ones; `key` says what they were made from."""

    folder: Path
    key: str
    width: int
    sizes: tuple[int, ...]
    out_sizes: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Training rows."""
        return sum(self.sizes)

    @property
    def bytes(self) -> int:
        """What all training rows take in memory."""
        return self.rows * (self.width + 1) * 4

    @staticmethod
    def open(folder: str | os.PathLike) -> "Shards":
        """A folder that `convert` has written; a TableError where it is not whole."""
        folder = Path(folder)
        try:
            about = parse_json(read_text(folder / ABOUT, follow=False))
            check(about, About)
            shards = Shards(folder, about["key"], about["width"], tuple(about["sizes"]), tuple(about["out_sizes"]))
            for part, rows in [("train", shards.sizes), ("out", shards.out_sizes)]:
                for i, n in enumerate(rows):
                    for what, columns in (("x", shards.width), ("y", 1)):
                        found = (folder / f"{part}-{what}-{i:04d}.npy").lstat()
                        if not stat.S_ISREG(found.st_mode) or found.st_size < n * columns * 4:
                            raise OSError
        except (OSError, Unreadable):
            raise TableError(f"{folder} is not a whole converted table: remove it, and it is made again.") from None
        return shards

    def load(self, i: int, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
        """Shard i: (x, y), as they lie in the file."""
        try:
            x, y = (
                np.load(self.folder / f"{part}-{what}-{i:04d}.npy", mmap_mode="r", allow_pickle=False) for what in "xy"
            )
            size = (self.sizes if part == "train" else self.out_sizes)[i]
            if x.shape != (size, self.width) or x.dtype != np.float32 or y.shape != (size,) or y.dtype.kind not in "fi":
                raise ValueError(x.shape)
        except (OSError, ValueError, EOFError):
            raise TableError(f"Shard {i} in {self.folder} is damaged: remove the folder; it is made again.") from None
        return x, y

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """All training rows (x, y) in memory: for tables that do fit."""
        return self._joined("train", self.sizes, self.rows)

    def held_out(self, limit: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The held-out rows (x, y), or `limit` of them spread evenly over the table."""
        total = sum(self.out_sizes)
        return self._joined("out", self.out_sizes, total if limit is None else min(limit, total))

    def _joined(self, part: str, sizes: tuple[int, ...], count: int) -> tuple[np.ndarray, np.ndarray]:
        total = sum(sizes)
        chosen = np.arange(total) if count == total else np.linspace(0, total - 1, count).astype(np.int64)
        x, y, start, begin = np.empty((count, self.width), np.float32), np.empty(0, np.float32), 0, 0
        for i, size in enumerate(sizes):
            a, b = self.load(i, part)
            rows = chosen[np.searchsorted(chosen, begin) : np.searchsorted(chosen, begin + size)] - begin
            y = np.empty(count, b.dtype) if i == 0 else y
            x[start : start + len(rows)], y[start : start + len(rows)] = a[rows], b[rows]
            start, begin = start + len(rows), begin + size
        return x, y


class Stream:
    """Shuffled epochs over shards, a chunk of batches at a time.

    What is drawn is a function of (seed, position) alone, the position being the number of rows drawn so far: a run
    resumes anywhere by giving the position it had reached. Batches may straddle two epochs. With `share` = (i, P) only
    the i-th of P equal parts of every batch is read and given; positions count all rows.
    """

    def __init__(self, shards: Shards, *, seed: int = 0, position: int = 0):
        if shards.rows == 0:
            raise TableError(f"{shards.folder} has no training rows.")
        self.shards, self.seed, self.position = shards, seed, position
        self.share: tuple[int, int] = (0, 1)
        self._opened: tuple[tuple[int, int], np.ndarray, np.ndarray, np.ndarray] | None = None
        self._ready: tuple[tuple[int, int, int], threading.Thread, list] | None = None

    def chunk(self, steps: int, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
        """The next `steps` batches: x [steps, batch, d] and y [steps, batch], for one compiled scan."""
        wanted, ready = (self.position, steps, batch_size), self._ready
        self._ready = None
        if ready is not None:
            ready[1].join()
        if ready is not None and ready[0] == wanted:
            outcome = ready[2][0]
        else:
            outcome = self._draw(*wanted)
        if isinstance(outcome, BaseException):
            raise outcome
        self.position += steps * batch_size
        return outcome

    def ahead(self, steps: int, batch_size: int) -> None:
        """Start reading the next chunk of this size in the background, while the device works on the last one."""
        if self._ready is not None:
            return
        wanted, outcome = (self.position, steps, batch_size), []

        def work():
            try:
                outcome.append(self._draw(*wanted))
            except Exception as error:
                outcome.append(error)

        thread = threading.Thread(target=work, name="scax-stream", daemon=True)
        self._ready = (wanted, thread, outcome)
        thread.start()

    def _draw(self, position: int, steps: int, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
        total, rows = steps * batch_size, self.shards.rows
        part, parts = self.share
        own = np.arange(total) % batch_size * parts // batch_size == part
        x, y, done, filled = np.empty((int(own.sum()), self.shards.width), np.float32), None, 0, 0
        while done < total:
            epoch, place = divmod(position + done, rows)
            turn, offset = self._find(epoch, place)
            a, b, order = self._shuffled(epoch, turn)
            count = min(total - done, len(a) - offset)
            y = np.empty(len(x), b.dtype) if y is None else y
            chosen = order[offset : offset + count][own[done : done + count]]
            x[filled : filled + len(chosen)], y[filled : filled + len(chosen)] = a[chosen], b[chosen]
            done, filled = done + count, filled + len(chosen)
        assert y is not None
        return x.reshape(steps, batch_size // parts, -1), y.reshape(steps, batch_size // parts)

    def _find(self, epoch: int, place: int) -> tuple[int, int]:
        """(turn, offset): which shard of the epoch's order the row lies in, and where."""
        ends = np.cumsum([self.shards.sizes[i] for i in self._order(epoch)])
        turn = int(np.searchsorted(ends, place, side="right"))
        return turn, place - (int(ends[turn - 1]) if turn else 0)

    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.shards.sizes))

    def _shuffled(self, epoch: int, turn: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows of one shard and their order in this epoch; the last one is kept open."""
        if self._opened is None or self._opened[0] != (epoch, turn):
            self._opened = None
            i = int(self._order(epoch)[turn])
            a, b = self.shards.load(i)
            order = np.random.default_rng([self.seed, epoch, i]).permutation(len(a))
            self._opened = ((epoch, turn), np.asarray(a), np.asarray(b), order)
        return self._opened[1:]


def remove(folder: str | os.PathLike) -> None:
    """Remove a converted table, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)

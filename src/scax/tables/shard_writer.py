"""A table encoded once into shards on disk, in memory that does not grow with its rows."""

import errno
import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from .errors import TableError
from .preprocess import Preprocess
from .split import Split
from .stream import ABOUT, VERSION, Shards
from .table import Table, open_table
from .tally import Tally

MOST_SHARDS = 200  # each is two open files while writing
_HEAD = 128  # bytes before the entries of an .npy file


def convert(
    table: Any,
    preprocess: Preprocess,
    folder: str | os.PathLike,
    *,
    split: Split = Split(0.0),
    shard_bytes: int = 32 << 20,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> Shards:
    """Encode a table into shards under `folder`; one already made of the same table by the same preprocessing is used.

    Each row goes to a shard drawn from `seed`; the rows that `split` holds out go to shards of their own. Written aside
    and renamed: a folder that is there is whole. `progress(rows)` is called after each block of rows.
    """
    table, folder = open_table(table), Path(folder)
    key = _key(table, preprocess, split, shard_bytes, seed)
    if folder.exists():
        found = Shards.open(folder)
        if key is not None and found.key == key:
            return found
        raise TableError(f"{folder} holds another converted table: remove it, or choose another folder.")
    preprocess.match(table, Tally())
    preprocess.need_target(table)
    aside = folder.with_name(f".{folder.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        aside.mkdir(parents=True)
        about = _write(table, preprocess, aside, split, shard_bytes, seed, progress)
        (aside / ABOUT).write_text(json.dumps({"version": VERSION, "key": key or secrets.token_hex(16), **about}))
        os.replace(aside, folder)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else (error.strerror or str(error))
        raise TableError(f"{folder} could not be written: {why}. Free some space, or choose another folder.") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Shards.open(folder)


def _write(table: Table, pre: Preprocess, folder: Path, split: Split, shard_bytes: int, seed: int, progress) -> dict:
    rows, width = pre.schema.rows or table.rows or 0, pre.schema.width
    total = max(1, rows * (width + 1) * 4)
    train = _Part(folder, "train", _count(total * (1 - split.fraction), shard_bytes), width, pre)
    out = _Part(folder, "out", _count(total * split.fraction, shard_bytes) if split.fraction else 0, width, pre)
    rng = np.random.default_rng(seed)
    tally = Tally()
    try:
        for block in pre.blocks(table):
            x, y = pre.encode(block, tally), pre.encode_target(block)
            held = split.held_out(block.start, block.size)
            train.add(x[~held], y[~held], rng)
            if split.fraction:
                out.add(x[held], y[held], rng)
            if progress is not None:
                progress(block.start + block.size)
    finally:
        sizes, out_sizes = train.close(), out.close()
    return {"width": width, "sizes": sizes, "out_sizes": out_sizes}


def _count(total: float, shard_bytes: int) -> int:
    return min(MOST_SHARDS, max(1, math.ceil(total / shard_bytes)))


class _Part:
    """The shards of the training rows, or of those held out, open for appending."""

    def __init__(self, folder: Path, part: str, count: int, width: int, pre: Preprocess):
        self.width, self.sizes = width, [0] * count
        self.label = np.dtype(np.int32 if len(pre.schema.target.classes) > 2 else np.float32)
        self.files = [[open(folder / f"{part}-{what}-{i:04d}.npy", "wb") for what in "xy"] for i in range(count)]  # noqa: SIM115
        for pair in self.files:
            for file in pair:
                file.write(b" " * _HEAD)  # the shape is known in the end

    def add(self, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> None:
        shard = rng.integers(0, len(self.files), len(x))
        order = np.argsort(shard, kind="stable")
        ends = np.searchsorted(shard[order], np.arange(1, len(self.files) + 1))
        start = 0
        for i, end in enumerate(ends.tolist()):
            if end > start:
                rows = order[start:end]
                self.files[i][0].write(np.ascontiguousarray(x[rows]).data)
                self.files[i][1].write(np.ascontiguousarray(y[rows]).data)
                self.sizes[i] += end - start
            start = end

    def close(self) -> list[int]:
        for size, (x, y) in zip(self.sizes, self.files, strict=True):
            for file, shape, dtype in ((x, (size, self.width), np.dtype(np.float32)), (y, (size,), self.label)):
                with file:
                    file.seek(0)
                    file.write(_header(shape, dtype))
                    file.flush()
                    os.fsync(file.fileno())
        return self.sizes


def _header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """The head of an .npy file, always 128 bytes."""
    text = repr({"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    return b"\x93NUMPY\x01\x00" + (_HEAD - 10).to_bytes(2, "little") + text.ljust(_HEAD - 11).encode() + b"\n"


def _key(table: Table, pre: Preprocess, split: Split, shard_bytes: int, seed: int) -> str | None:
    """What the shards are a function of; None for a frame, which cannot be recognized."""
    source = table.fingerprint()
    if source is None:
        return None
    text = json.dumps([VERSION, source, pre.to_json(), split.fraction, split.seed, shard_bytes, seed])
    return hashlib.sha256(text.encode()).hexdigest()

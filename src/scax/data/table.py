"""Tables from files: CSV, CSV.gz, Parquet, or a data frame at hand, read a block of rows at a time."""

import os
from collections.abc import Iterator
from typing import Any


class Table:
    """A table that can be read again and again, a block of rows at a time, without ever being whole in memory.

    `name` is what messages call it; `columns` the names in order; `rows` their number where it is known without
    reading the table (Parquet, a frame), else None; `bytes` its size on disk.
    """

    name: str
    columns: tuple[str, ...]
    rows: int | None
    bytes: int

    def blocks(self) -> Iterator[Any]:
        """Blocks of rows from the top (scax.data.block.Block)."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """Changes when the file changes: what a cache of the converted table is kept under."""
        raise NotImplementedError


def open_table(source: Any, *, header: bool = True, encoding: str = "utf-8") -> Table:
    """A table from a path to a CSV, CSV.gz or Parquet file, a polars or pandas data frame, or a dict of columns.

    What the file is, is read from its content, not its name. Nothing but the head of the file is read here; a file
    that is missing, a directory, unreadable, empty, or of another kind is a TableError. `header=False` names the
    columns column_1, column_2, …; `encoding` may be utf-8 or a single-byte one (latin-1, cp1252).
    """
    raise NotImplementedError


def path_name(path: str | os.PathLike) -> str:
    return os.path.basename(os.fspath(path)) or os.fspath(path)

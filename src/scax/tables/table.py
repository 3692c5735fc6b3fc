"""Tables from files: CSV, CSV.gz, Parquet, or a data frame at hand, read a block of rows at a time."""

import dataclasses
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._text import printable
from .columns import Values, of_array
from .csv_blocks import CsvText
from .errors import TableError

ROWS = 65_536  # in a block of a Parquet file or a frame
VALUES = 8 << 20  # in a block of a Parquet file
WIDE = 1000  # columns of a CSV file from which they are no longer columns of polars


@dataclasses.dataclass(frozen=True)
class Block:
    """Some consecutive rows: `start` is the number of the first, `size` how many, `column(name)` the values."""

    start: int
    size: int
    frame: Any  # a mapping of names to arrays or polars columns, or WideRows
    readings: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # columns read from others: `Reading`

    def column(self, name: str) -> Values:
        if reading := self.readings.get(name):
            return reading.read(dataclasses.replace(self, readings={}).column(reading.source))
        if not isinstance(self.frame, Mapping):
            return self.frame.column(name)
        values = self.frame[name]
        if type(values).__module__.partition(".")[0] != "polars":
            return of_array(values)
        from .polars_columns import of_series

        return of_series(values)

    def numbers(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """(numbers [rows, names], which are text that is no number [rows, names], what the columns are declared as)."""
        if not isinstance(self.frame, Mapping) and not self.readings:
            return *self.frame.numbers(names), ["text"] * len(names)
        shape = (self.size, len(names))
        numbers, words = np.empty(shape, order="F"), np.empty(shape, bool, order="F")
        declared = []
        for j, name in enumerate(names):
            values = self.column(name)
            numbers[:, j], words[:, j] = values.numbers()
            declared.append(values.declared)
        return numbers, words, declared

    def pieces(self, rows: int) -> Iterator["Block"]:
        """The same rows, at most so many at a time."""
        if rows >= self.size:
            yield self
            return
        for start in range(0, self.size, rows):
            count = min(rows, self.size - start)
            if isinstance(self.frame, Mapping):
                part = {name: values[start : start + count] for name, values in self.frame.items()}
            else:
                part = self.frame.slice(start, count)
            yield dataclasses.replace(self, start=self.start + start, size=count, frame=part)


def _columns_of(frame: Any) -> dict[str, Any]:
    """The columns of a polars frame by name: looked up there, each one takes a search through all of them."""
    return dict(zip(frame.columns, frame.get_columns(), strict=True))


class Table:
    """A table that can be read again and again, a block of rows at a time, without ever being whole in memory.

    `name` is what messages call it; `columns` the names in order; `rows` their number where it is known without
    reading the table (Parquet, a frame), else None; `bytes` its size on disk, 0 for a frame.
    """

    name: str
    columns: tuple[str, ...]
    rows: int | None
    bytes: int
    separator: str | None = None  # of the fields of a file of text

    def blocks(self) -> Iterator[Block]:
        """Blocks of rows from the top."""
        raise NotImplementedError

    def fingerprint(self) -> str | None:
        """Changes when the file changes: what a converted table is recognized by. None for a frame."""
        raise NotImplementedError


class CsvTable(Table):
    """A CSV file, plain or gzip, its fields all taken as text: what they are is found out, not guessed from the top."""

    def __init__(self, path: str, name: str, size: int, header: bool, encoding: str):
        self.name, self.rows, self.bytes, self.path = name, None, size, path
        self.text = CsvText(path, name, header, encoding)
        self.columns, self.separator = self.text.columns, chr(self.text.separator)

    def blocks(self) -> Iterator[Block]:
        from .polars_columns import parse_csv, parse_wide

        start, places = 0, {name: j for j, name in enumerate(self.columns)}
        for text, line in self.text.blocks():
            if len(self.columns) > WIDE:
                frame = parse_wide(self.text, text, line, places)
            else:
                frame = parse_csv(self.text, text, line)
            if frame.height:
                yield Block(start, frame.height, frame if len(self.columns) > WIDE else _columns_of(frame))
            start += frame.height

    def fingerprint(self) -> str:
        return _fingerprint(self.path, f"{self.text.header} {self.text.encoding}")


class ParquetTable(Table):
    def __init__(self, path: str, name: str, size: int):
        from .polars_columns import parquet_head

        self.name, self.bytes, self.path = name, size, path
        self.columns, self.rows = parquet_head(path, name)
        if not self.columns:
            raise TableError(f"{name} has no columns: give a table with at least two.")

    def blocks(self) -> Iterator[Block]:
        from .polars_columns import parquet_blocks

        start, rows = 0, max(1, min(ROWS, VALUES // len(self.columns)))
        for frame in parquet_blocks(self.path, self.name, rows):
            if frame.height:
                yield from Block(start, frame.height, _columns_of(frame)).pieces(rows)
            start += frame.height

    def fingerprint(self) -> str:
        return _fingerprint(self.path, "parquet")


class FrameTable(Table):
    """A data frame or a dict of columns that is in memory already."""

    def __init__(self, frame: Any, columns: tuple[str, ...], rows: int, name: str = "The table"):
        self.name, self.columns, self.rows, self.bytes, self.frame = name, columns, rows, 0, frame

    def blocks(self) -> Iterator[Block]:
        assert self.rows is not None
        for start in range(0, self.rows, ROWS):
            stop = min(start + ROWS, self.rows)
            yield Block(start, stop - start, {name: values[start:stop] for name, values in self.frame.items()})

    def fingerprint(self) -> None:
        return None


def open_table(source: Any, *, header: bool = True, encoding: str = "utf-8") -> Table:
    """A table from a path to a CSV, CSV.gz or Parquet file, a polars or pandas data frame, or a dict of columns.

    What the file is, is read from its content, not its name. Nothing but the head of the file is read here; a file
    that is missing, a directory, unreadable, empty, or of another kind is a TableError. `header=False` names the
    columns column_1, column_2, …; `encoding` may be utf-8 or a single-byte one (latin-1, cp1252). The separator is
    found: comma, semicolon, tab or bar.

    >>> table = scax.tables.open_table({"size": [50, 80, 120], "price": [100, 150, 230]})
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _open_file(os.fspath(source), header, encoding)
    return _of_frame(source)


def _open_file(path: str, header: bool, encoding: str) -> Table:
    name = os.path.basename(path) or path
    shown = printable(path, 300)
    try:
        info = os.stat(path)
        if stat.S_ISDIR(info.st_mode):
            raise TableError(f"{shown} is a directory: give the CSV or Parquet file in it.")
        if not stat.S_ISREG(info.st_mode):
            raise TableError(
                f"{shown} is not a regular file: save the table as a file first; it is read more than once."
            )
        with open(path, "rb") as file:
            magic = file.read(8)
    except TableError:
        raise
    except FileNotFoundError:
        raise TableError(f"{shown} does not exist: check the name and the folder.") from None
    except PermissionError:
        raise TableError(f"{shown} may not be read: ask for permission, or copy it where you may.") from None
    except (OSError, ValueError) as error:
        raise TableError(f"{shown} could not be read: {getattr(error, 'strerror', None) or error}.") from None
    if info.st_size == 0:
        raise TableError(f"{shown} is empty: give a table with a header line and one line per row.")
    if magic.startswith(b"PAR1"):
        return ParquetTable(path, name, info.st_size)
    if magic.startswith(b"PK\x03\x04"):
        raise TableError(f"{shown} is an Excel workbook or a zip archive: export the sheet as CSV, or unpack it.")
    if magic.startswith(
        (b"\xd0\xcf\x11\xe0", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"\x89HDF", b"SQLite", b"ARROW1")
    ):
        raise TableError(f"{shown} is neither CSV, gzipped CSV nor Parquet: convert it to one of them.")
    return CsvTable(path, name, info.st_size, header, encoding)


def _of_frame(source: Any) -> Table:
    if type(source).__module__.partition(".")[0] == "polars":
        frame = source.collect() if hasattr(source, "collect") else source
        return FrameTable(_columns_of(frame), tuple(frame.columns), frame.height)
    if isinstance(source, Mapping):
        columns = {str(name): values for name, values in source.items()}
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        columns = {str(name): source.iloc[:, i] for i, name in enumerate(source.columns)}
        if len(columns) != len(source.columns):
            raise TableError("The table has two columns of the same name: rename one of them.")
    else:
        raise TableError(
            f"A table is a path, a polars or pandas data frame, or a dict of columns, got {type(source).__name__}."
        )
    sizes = {name: len(values) for name, values in columns.items()}
    if not sizes or len(set(sizes.values())) > 1:
        raise TableError(f"The columns of a table must be of one length, got {dict(list(sizes.items())[:5])}.")
    columns = {name: v if hasattr(v, "iloc") else np.asarray(v) for name, v in columns.items()}
    return FrameTable(columns, tuple(columns), next(iter(sizes.values())))


def _fingerprint(path: str, options: str) -> str:
    """Of size, time of change, and both ends of the file: the whole of it would take as long as reading it."""
    info = os.stat(path)
    digest = hashlib.sha256(f"{info.st_size} {info.st_mtime_ns} {options}".encode())
    with open(path, "rb") as file:
        digest.update(file.read(1 << 16))
        file.seek(max(0, info.st_size - (1 << 16)))
        digest.update(file.read(1 << 16))
    return digest.hexdigest()

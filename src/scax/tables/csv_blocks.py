"""CSV text cut into blocks of whole rows, plain or gzip, in bounded memory; what is not a table is refused on the way.

The text is cut here and parsed by polars. Cutting it here keeps memory bounded for gzip too, and lets a message name
the line: too many or too few fields, a quote never closed, bytes that are no UTF-8.
"""

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Iterator

import numpy as np

from .._text import quoted
from .errors import TableError

BLOCK = 8 << 20  # bytes read at a time
LONGEST_ROW = 64 << 20
MOST_COLUMNS = 500_000  # what is known of each takes about a kilobyte
_SEPARATORS = b",;\t|"
_QUOTED = re.compile(rb'"[^"]*"')


class CsvText:
    """The head of a CSV file, and its blocks on demand."""

    def __init__(self, path: str, name: str, header: bool, encoding: str):
        self.path, self.name, self.header = path, name, header
        self.encoding = _encoding(encoding, name)
        first, _ = next(self._records(), (b"", 1))
        if not first.strip():
            raise TableError(f"{name} is empty: give a table with a header line and one line per row.")
        head = _first_record(first)
        outside = _QUOTED.sub(b"", head)
        self.separator = max(_SEPARATORS, key=lambda s: (outside.count(bytes([s])), -_SEPARATORS.index(s)))
        if outside.count(bytes([self.separator])) >= MOST_COLUMNS:
            raise TableError(f"{name} has more than {MOST_COLUMNS:,} columns: leave out those that are not needed.")
        try:
            fields = next(csv.reader([head.decode()], delimiter=chr(self.separator)), [])
        except csv.Error:
            raise TableError(
                f"{name} has a first line that is no header: likely a stray double quote. Correct it."
            ) from None
        self.columns = self._named([field.strip() for field in fields])

    def _named(self, fields: list[str]) -> tuple[str, ...]:
        if not self.header:
            return tuple(f"column_{i + 1}" for i in range(len(fields)))
        if len(fields) > 1 and all(_is_number(f) for f in fields):
            raise TableError(
                f"{self.name} has no header: its first line is all numbers ({', '.join(fields[:3])}, …). Add a line "
                "with the columns' names, or say that there is none (header=False, --no-header)."
            )
        # a column without a name is most often the row index that pandas writes; the name lets it be recognized
        names = tuple(f or f"unnamed_{i + 1}" for i, f in enumerate(fields))
        seen: set[str] = set()
        for each in names:
            if each in seen:
                raise TableError(f"{self.name} has two columns named {each!r}: rename one of them in the first line.")
            seen.add(each)
        return names

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        """(text of whole rows without the header, line number of the first)."""
        for i, (block, line) in enumerate(self._records()):
            if i == 0 and self.header:
                head = _first_record(block)
                block, line = block[len(head) + 1 :], line + head.count(b"\n") + 1
            if block.strip():
                yield block, line

    def ragged(self, block: bytes, line: int) -> TableError | None:
        """What to say where a row has not as many fields as there are columns."""
        bare = _QUOTED.sub(b"", block) if b'"' in block else block
        rows = bare.count(b"\n") + (not bare.endswith(b"\n"))
        if bare.count(bytes([self.separator])) == rows * (len(self.columns) - 1):
            return None
        return self.first_ragged(bare, line)

    def first_ragged(self, block: bytes, line: int) -> TableError | None:
        """The first row whose number of separators is not the header's."""
        bare = _QUOTED.sub(b"", block)
        for i, row in enumerate(bare.split(b"\n")):
            found = row.count(bytes([self.separator])) + 1
            if row and found != len(self.columns):
                return TableError(
                    f"{self.name} has {found} field(s) in line {line + i} and {len(self.columns)} columns. Correct the "
                    "line; a value that contains the separator must be in double quotes."
                )
        return None

    def _records(self) -> Iterator[tuple[bytes, int]]:
        """(block of whole rows, its line number): lines ended by \\n and blank ones removed, valid UTF-8."""
        rest, line = b"", 1
        for piece in self._pieces():
            rest += piece
            cut = _last_row_end(rest)
            if cut < 0:
                if len(rest) > LONGEST_ROW:
                    raise self._unclosed(rest, line)
                continue
            block, rest = rest[: cut + 1], rest[cut + 1 :]
            yield self._checked(block, line), line
            line += block.count(b"\n")
        if rest.count(b'"') % 2:
            raise self._unclosed(rest, line)
        if rest.strip():
            yield self._checked(rest + b"\n", line), line

    def _checked(self, block: bytes, line: int) -> bytes:
        if b"\0" in block:
            where = line + block.count(b"\n", 0, block.index(0))
            raise TableError(
                f"{self.name} is not a text file: it contains zero bytes (line {where}). Export the table as CSV "
                "in UTF-8."
            )
        if self.encoding != "utf-8":
            block = block.decode(self.encoding, errors="replace").encode()
        else:
            try:
                block.decode()
            except UnicodeDecodeError as error:
                where = line + block.count(b"\n", 0, error.start)
                raise TableError(
                    f"{self.name} is not UTF-8 in line {where}. Save it as UTF-8, or say what it is "
                    "(encoding='latin-1', --encoding latin-1)."
                ) from None
        if b"\n\n" in block or block.startswith(b"\n"):
            block = re.sub(rb"\n{2,}", b"\n", block).lstrip(b"\n")
        return block

    def _pieces(self) -> Iterator[bytes]:
        """The bytes, decompressed, the mark of UTF-8 removed, every end of line \\n."""
        try:
            with open(self.path, "rb") as raw:
                packed = raw.read(2) == b"\x1f\x8b"
                raw.seek(0)
                file = gzip.GzipFile(fileobj=raw) if packed else raw
                first, held = True, b""
                while piece := file.read(BLOCK):
                    if first and piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                        raise TableError(f"{self.name} is in UTF-16: save it as UTF-8.")
                    piece = held + (piece.removeprefix(codecs.BOM_UTF8) if first else piece)
                    first, held = False, b""
                    if piece.endswith(b"\r"):
                        piece, held = piece[:-1], b"\r"
                    if b"\r" in piece:
                        piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                    yield piece
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise TableError(
                f"{self.name} is a damaged gzip file: it is cut short or altered. Fetch it again."
            ) from None
        except OSError as error:
            raise TableError(f"{self.name} could not be read: {error.strerror or error}.") from None

    def _unclosed(self, text: bytes, line: int) -> TableError:
        where = line + text.count(b"\n", 0, text.rindex(b'"')) if b'"' in text else line
        return TableError(
            f"{self.name} has a row that does not end: a double quote is never closed, likely near line {where}. "
            "Close it, or write a quote within a value as two."
        )


def _last_row_end(text: bytes) -> int:
    """Where the last newline outside quotes is, −1 without one."""
    cut = text.rfind(b"\n")
    if cut < 0 or text.count(b'"', 0, cut) % 2 == 0:
        return cut
    symbols = np.frombuffer(text, np.uint8)
    outside = (np.cumsum(symbols == ord('"'), dtype=np.uint32) & 1) == 0
    ends = np.flatnonzero((symbols == ord("\n")) & outside)
    return int(ends[-1]) if len(ends) else -1


def _first_record(block: bytes) -> bytes:
    """The first row: up to the first newline outside quotes."""
    end, quotes = -1, 0
    while True:
        start, end = end + 1, block.find(b"\n", end + 1)
        if end < 0:
            return block
        quotes += block.count(b'"', start, end)
        if quotes % 2 == 0:
            return block[:end]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip().lower() not in ("nan", "inf", "infinity")


def _encoding(encoding: str, name: str) -> str:
    """utf-8, or a single-byte encoding in which a newline is a newline."""
    try:
        found = codecs.lookup(encoding).name
        if found in ("utf-8", "utf-8-sig"):
            return "utf-8"
        if bytes(range(10, 127)).decode(found) == bytes(range(10, 127)).decode("ascii") and not found.startswith("utf"):
            return found
    except (LookupError, UnicodeError):
        pass
    raise TableError(
        f"{name} cannot be read as {quoted(encoding)}: use utf-8, latin-1 or cp1252, or convert the file to UTF-8."
    )

"""How many rows the row groups of a Parquet file have: polars decodes a whole one at once, and does not say.

The footer is Thrift's compact protocol: fields of (distance of the number, type), whole numbers as zigzag varints.

    FileMetaData: 4 = list of RowGroup;   RowGroup: 3 = number of rows
"""

import os

MOST_FOOTER = 256 << 20
_DEPTH = 16  # structures within each other; the format has fewer


def largest_row_group(path: str) -> int:
    """Rows of the largest row group; a ValueError or an OSError where the footer cannot be read."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < 12:
            raise ValueError("cut short")
        file.seek(size - 8)
        length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
        if magic != b"PAR1" or length > min(size - 12, MOST_FOOTER):
            raise ValueError("no footer")
        file.seek(size - 8 - length)
        footer = _Compact(file.read(length))
    try:
        groups: list[int] = []
        for number, kind in footer.fields():
            if number == 4 and kind == 9:
                groups += [_rows(footer) for _ in range(footer.list_head()[1])]
            else:
                footer.skip(kind)
    except IndexError:
        raise ValueError("cut short") from None
    if not groups:
        raise ValueError("no row groups")
    return max(groups)


def _rows(footer: "_Compact") -> int:
    rows = 0
    for number, kind in footer.fields():
        if number == 3 and kind == 6:
            rows = footer.whole()
        else:
            footer.skip(kind)
    return rows


class _Compact:
    """A place in the bytes of a structure; reading past their end is an IndexError."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number that is too long")

    def whole(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def list_head(self) -> tuple[int, int]:
        """(type of the entries, how many)."""
        head = self.byte()
        count = head >> 4
        return head & 0x0F, self.varint() if count == 15 else count

    def fields(self):
        """(number, type) of each field; its value must be read or skipped before the next."""
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.whole()
            yield number, head & 0x0F

    def skip(self, kind: int, depth: int = 0) -> None:
        """Past a value of this type; flags of a structure are in its head, those of a list are bytes."""
        if depth > _DEPTH:
            raise ValueError("nested too deeply")
        if kind in (1, 2):
            return
        if kind == 3:
            self.at += 1
        elif kind in (4, 5, 6):
            self.varint()
        elif kind == 7:
            self.at += 8
        elif kind == 8:
            length = self.varint()
            self.at += length
        elif kind in (9, 10):
            each, count = self.list_head()
            for _ in range(count):
                self.at += 1 if each in (1, 2) else 0
                self.skip(each, depth + 1)
                self._require_inside()
        elif kind == 12:
            for _, each in self.fields():
                self.skip(each, depth + 1)
        else:
            raise ValueError(f"a value of type {kind}")
        self._require_inside()

    def _require_inside(self) -> None:
        if self.at > len(self.data):
            raise IndexError

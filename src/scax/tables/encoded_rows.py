"""Encoded rows that arrive block by block, in one pair of arrays. NumPy alone."""

import numpy as np

from .errors import TableError
from .schema import Schema


def row_bytes(schema: Schema) -> int:
    """What one encoded row and its target take."""
    return (schema.width + 1) * 4


class EncodedRows:
    """Encoded rows in one pair of arrays: room for as many as the schema was found in, which takes no memory until it
    is filled, and more where more come."""

    def __init__(self, schema: Schema, name: str, most: int | None):
        self.name, self.most, self.rows, self.row_bytes = name, most, 0, row_bytes(schema)
        room = min(schema.rows, (most or 1 << 28) // self.row_bytes)
        label = np.int32 if len(schema.target.classes) > 2 else np.float32
        self.x, self.y = np.empty((room, schema.width), np.float32), np.empty(room, label)

    def add(self, x: np.ndarray, y: np.ndarray, others: int) -> None:
        """Append rows; `others` are rows elsewhere that count for the limit as well."""
        end = self.rows + len(x)
        if self.most is not None and (end + others) * self.row_bytes > self.most:
            raise TableError(
                f"{self.name} takes more than {self.most:,} bytes encoded: give fewer rows, drop columns, or group "
                "levels."
            )
        if end > len(self.x):
            size = max(end, len(self.x) + len(self.x) // 4)
            self.x.resize((size, self.x.shape[1]), refcheck=False)
            self.y.resize(size, refcheck=False)
        self.x[self.rows : end], self.y[self.rows : end] = x, y
        self.rows = end

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        self.x.resize((self.rows, self.x.shape[1]), refcheck=False)
        self.y.resize(self.rows, refcheck=False)
        return self.x, self.y

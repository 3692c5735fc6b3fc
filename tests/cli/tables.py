"""Small tables for the tests of the command line."""

from pathlib import Path

import numpy as np


def regression(path: Path, rows: int = 60, seed: int = 0) -> Path:
    """Numbers, a category, some missing values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    y = x[:, 0] - 2 * x[:, 1] + 0.1 * rng.normal(size=rows)
    lines = ["width,height,color,price"]
    for i, (a, b, c) in enumerate(x):
        height = "" if i % 17 == 5 else f"{b:.5f}"
        lines.append(f"{a:.5f},{height},{'red' if c > 0 else 'blue'},{y[i]:.5f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def lines(path: Path, *content: str) -> Path:
    path.write_text("\n".join(content) + "\n")
    return path


def numbered(path: Path, header: str, row, rows: int = 40) -> Path:
    """One line per row: row(i) is its text."""
    return lines(path, header, *(row(i) for i in range(rows)))

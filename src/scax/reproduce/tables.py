"""The paper's data sets, scaled as in the paper."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..data.datasets import REMOTE, DatasetError, find
from .configs import Row


class Rows(NamedTuple):
    """Inputs x [n, d] and targets y [n], float32."""

    x: np.ndarray
    y: np.ndarray


def unit(a: np.ndarray) -> np.ndarray:
    """Each column from 0 to 1; a constant one is 0."""
    width = np.ptp(a, axis=0)
    return (a - a.min(axis=0)) / np.where(width > 0, width, 1)


def load(row: Row, data_dir: Path | None = None) -> Rows:
    """Inputs in [−½, ½], targets in [−.9, .9], missing values at the median, all over the whole data set."""
    import polars

    about, path = REMOTE[row.dataset], find(row.dataset, data_dir)
    if path is None:
        raise DatasetError(missing(row.dataset))
    frame = polars.read_csv(path, separator=row.separator, null_values=["?"])
    y = frame[about.target].to_numpy().astype(float)
    x = frame.drop(about.target, *about.drop).to_numpy().astype(float)
    if x.shape[1] != row.widths[0]:
        raise DatasetError(f"{path} has {x.shape[1]} inputs, {row.label} should have {row.widths[0]}.")
    x = np.where(np.isnan(x), np.nanmedian(x, axis=0), x)
    return Rows((unit(x) - 0.5).astype(np.float32), (1.8 * unit(y) - 0.9).astype(np.float32))


def missing(name: str) -> str:
    return f"{name} is not here. Get it: scax datasets fetch {name}; or name the folder that has it with --data-dir."

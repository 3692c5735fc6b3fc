"""The paper's data sets, scaled as in the paper."""

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._cache import cache_folder
from ..tables.datasets import REMOTE, DatasetError, find, folders, verify
from .configs import PaperRow


class Rows(NamedTuple):
    """Inputs x [n, d] and targets y [n], float32."""

    x: np.ndarray
    y: np.ndarray


def unit(a: np.ndarray) -> np.ndarray:
    """Each column from 0 to 1; a constant one is 0."""
    width = np.ptp(a, axis=0)
    return (a - a.min(axis=0)) / np.where(width > 0, width, 1)


def load(row: PaperRow, data_dir: Path | None = None) -> Rows:
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


#: Pieces of SUSY that are small enough to hand around: names, and sha256 of the uncompressed bytes.
SUSY_PIECES = {
    "susy-ucitest-random10k.csv": "1bf1234dddedd9a9ec18575f1ffef36b1ffd26a684ec592c4aed60a77c48d0cf",
    "susy-balanced10k.csv": "52aea7fa6aab7def3ba46304187a56a50a7c295daf6ad4c1b65b9d64bc67a77d",
}


def susy(data_dir: Path | None = None) -> tuple[Rows, str]:
    """Signal (1) or background (0) and 18 inputs, unscaled: all of SUSY if it is here, else the pieces. And which.

    The whole file is read once and kept beside it in the cache as a memory-mapped array.
    """
    path = find("susy", data_dir)
    if path is not None:
        whole = _mapped(path)
        return Rows(whole[:, 1:], whole[:, 0]), f"all {len(whole):,} events"
    return _pieces(data_dir)


def _mapped(path: Path) -> np.ndarray:
    """[n, 19] float32, label first, from the cache or made there."""
    import polars

    cached = cache_folder() / f"{path.name.removesuffix('.gz').removesuffix('.csv')}-{path.stat().st_size}.npy"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        values = polars.read_csv(path, has_header=False).to_numpy().astype(np.float32)
        with tempfile.NamedTemporaryFile(dir=cached.parent, suffix=".part", delete=False) as file:
            np.save(file, values)
        os.replace(file.name, cached)
    return np.load(cached, mmap_mode="r")


def _pieces(data_dir: Path | None) -> tuple[Rows, str]:
    import polars

    frames = []
    for name, sha256 in SUSY_PIECES.items():
        places = [folder / file for folder in folders(data_dir) for file in (name, f"{name}.gz")]
        path = next((place for place in places if place.is_file()), None)
        if path is not None:
            verify(path, sha256)
            frames.append(polars.read_csv(path).drop("uci_row", "split", strict=False))
    if not frames:
        raise DatasetError(missing("susy"))
    # an event that is in both pieces must not be trained and tested on
    frame = polars.concat(frames).unique(maintain_order=True)
    x = frame.drop("label").to_numpy().astype(np.float32)
    about = f"{len(x):,} of 5,000,000 events, the distinct ones of {' and '.join(SUSY_PIECES)}"
    return Rows(x, frame["label"].to_numpy().astype(np.float32)), about


def scaled(table: Rows, scaling: str, loss: str) -> Rows:
    """Inputs in [−½, ½] ("range") or of mean 0 and variance 1 ("standard"); targets ±.9 for the squared loss."""
    x = np.asarray(table.x, np.float32)
    if scaling == "range":
        x = unit(x) - 0.5
    else:
        sd = x.std(axis=0, dtype=float)  # float64: millions of rows
        x = (x - x.mean(axis=0, dtype=float)) / np.where(sd > 0, sd, 1)
    y = np.asarray(table.y, np.float32)
    return Rows(x.astype(np.float32), (1.8 * y - 0.9 if loss == "squared" else y).astype(np.float32))

"""What is compared before a run folder is gone on with: a folder may be damaged, or made by a stranger."""

import itertools
from pathlib import Path
from typing import Any, TypedDict

from .._untrusted import Unreadable, check
from ..storage.checkpoint import KIND
from ..storage.container import read_places
from ..storage.run_files import CHECKPOINT, Count
from ..storage.run_folder import RunFolderError
from .config import FILE, TrainConfig


class Info(TypedDict):
    """What the checkpoint of a run says beside its arrays."""

    step: Count
    seconds: float
    digest: str


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not one of ours."""
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a run folder: give the folder that `scax train` made.")
    if not (folder / FILE).is_file():
        raise RunFolderError(f"{folder} has no {FILE}: it is not a folder that `scax train` made.")


def check_sizes(folder: Path, widths: tuple[int, ...]) -> None:
    """Refuse a config whose network is not that of the checkpoint, before either of them takes memory."""
    best = "state.best.params"
    saved = {p.name: p.shape for p in read_places(folder / CHECKPOINT, KIND) if p.name.startswith(best)}
    expected = {f"{best}[{i}]['weight']": pair for i, pair in enumerate(itertools.pairwise(widths))}
    expected |= {f"{best}[{i}]['bias']": (width,) for i, width in enumerate(widths[1:])}
    if saved != expected:
        sizes = "/".join(map(str, widths if len(widths) < 20 else (*widths[:18], "…", widths[-1])))
        raise RunFolderError(
            f"{folder / FILE} and the table describe a {sizes} network, and {CHECKPOINT} holds another: restore them."
        )


def check_info(folder: Path, info: dict[str, Any], config: TrainConfig, digest: str) -> None:
    """Refuse a checkpoint of another table, or one that says what cannot be."""
    try:
        check(info, Info)
    except Unreadable as error:
        raise RunFolderError(f"{folder / CHECKPOINT} {error}. Use another copy.") from None
    if info["step"] > config.steps:
        raise RunFolderError(
            f"{folder / CHECKPOINT} is at step {info['step']:,} of {config.steps:,}: restore {folder / FILE}."
        )
    if info["digest"] != digest:
        raise RunFolderError(
            f"{config.table} has changed since the run was started: put the old table back, or train anew."
        )

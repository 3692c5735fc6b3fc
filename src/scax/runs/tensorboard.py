"""A run's records as TensorBoard's event files, through tensorboardX."""

from pathlib import Path
from typing import Any

from .._extras import required_by
from ..storage.run_folder import RunFolderError
from ..training.scores import SCORES

#: key of a record → TensorBoard's tag; what is not here is reported by the method's steps
TAGS = {
    "objective": "training/objective",
    "batch_loss": "training/batch_loss",
    "accepted": "method/share_of_steps_taken",
    "validation_loss": "held_out/loss",
    **{score.name: f"held_out/{score.name}" for score in SCORES.values()},
}


class EventFiles:
    """Writes each record's numbers; a run that goes on replaces what was written beyond its checkpoint."""

    def __init__(self, folder: Path, step: int = 0):
        if folder.exists() and not folder.is_dir():
            raise RunFolderError(f"--tensorboard {folder} is a file: give a folder.")
        self.writer = require()(str(folder), purge_step=step + 1 if step else None)

    def record(self, record: dict[str, Any]) -> None:
        for name, value in record.items():
            if name != "step" and value is not None:
                self.writer.add_scalar(TAGS.get(name, f"method/{name}"), value, record["step"])

    def close(self) -> None:
        self.writer.close()


def require() -> Any:
    """tensorboardX's writer, or what to install."""
    with required_by("--tensorboard"):
        from tensorboardX import SummaryWriter
    return SummaryWriter

"""From run folders to report.html."""

from pathlib import Path

from .._text import printable
from ..runs.config import FILE
from ..storage import write_text
from ..storage.run_files import read_comparison
from ..storage.run_folder import RunFolderError
from .comparison import comparison_page
from .training import LONGEST, read_run, training_page


def build(folder: Path) -> Path:
    """Write report.html into a run folder from the files in it."""
    path = folder / "report.html"
    text = training_page([read_run(folder)]) if _is_training(folder) else comparison_page(read_comparison(folder))
    write_text(path, text, follow=False)
    return path


def build_together(folders: list[Path], path: Path) -> Path:
    """Write one page for several training runs."""
    for folder in folders:
        if not _is_training(folder):
            raise RunFolderError(f"{folder} is not a folder that `scax train` made: only such runs share a page.")
    runs = [read_run(folder) for folder in folders]
    for run in runs[1:]:
        if run.config.target != runs[0].config.target:
            one, other = (printable(each.config.target, LONGEST) for each in (runs[0], run))
            raise RunFolderError(
                f"{runs[0].folder} predicts {one!r} and {run.folder} {other!r}: runs on one page predict the same "
                "column. Leave --output out for a page of each."
            )
    write_text(path, training_page(runs))
    return path


def build_picture(folder: Path, path: Path) -> Path:
    """Write one SVG picture of a comparison."""
    from .picture import picture

    if _is_training(folder):
        raise RunFolderError(
            f"{folder} is a run of `scax train`: a picture is made of a run of `scax compare`. Leave --picture out."
        )
    write_text(path, picture(read_comparison(folder)))
    return path


def _is_training(folder: Path) -> bool:
    return (folder / FILE).exists()

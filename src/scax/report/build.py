"""From run folders to report.html."""

from pathlib import Path
from typing import Any

from ..storage import write_text
from ..storage.run_folder import FORMAT, RunFolderError, read_json
from .comparison import comparison_page
from .training import read_run, training_page


def build(folder: Path) -> Path:
    """Write report.html into a run folder from the files in it."""
    if (folder / "config.toml").exists():
        return build_together([folder], folder / "report.html")
    results = _comparison(folder)
    path = folder / "report.html"
    try:
        text = comparison_page(results)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise RunFolderError(f"{folder / 'results.json'} is damaged ({error!r}): run the command again.") from None
    write_text(path, text)
    return path


def build_together(folders: list[Path], path: Path) -> Path:
    """Write one page for several training runs."""
    for folder in folders:
        if not (folder / "config.toml").exists():
            raise RunFolderError(f"{folder} is not a folder that `scax train` made: only such runs share a page.")
    write_text(path, training_page([read_run(folder) for folder in folders]))
    return path


def build_picture(folder: Path, path: Path) -> Path:
    """Write one SVG picture of a comparison."""
    from .picture import picture

    if (folder / "config.toml").exists():
        raise RunFolderError(
            f"{folder} is a run of `scax train`: a picture is made of a run of `scax compare`. Leave --picture out."
        )
    write_text(path, picture(_comparison(folder)))
    return path


def _comparison(folder: Path) -> dict[str, Any]:
    if not (folder / "results.json").exists():
        raise RunFolderError(f"{folder} is not a run folder: give one that `scax compare` or `scax train` made.")
    results = read_json(folder / "results.json")
    if not isinstance(results, dict) or results.get("kind") != "compare":
        raise RunFolderError(f"{folder / 'results.json'} is not one of ours: give a folder that scax made.")
    if results.get("format", 0) > FORMAT:
        raise RunFolderError(f"{folder} was written by a newer scax (format {results['format']}): update scax.")
    return results

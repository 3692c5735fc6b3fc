"""From run folders to report.html."""

from pathlib import Path

from ..train.run_folder import FORMAT, RunFolderError, read_json, write_text
from .comparison import comparison_page


def build(folder: Path) -> Path:
    """Write report.html into a run folder from the files in it."""
    results = read_json(folder / "results.json")
    if results.get("format", 0) > FORMAT:
        raise RunFolderError(f"{folder} was written by a newer scax (format {results['format']}): update scax.")
    path = folder / "report.html"
    write_text(path, comparison_page(results))
    return path

"""scax report: build report.html from run folders."""

from pathlib import Path
from typing import Annotated

import typer


def register(cli: typer.Typer) -> None:
    cli.command("report")(report)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of `scax compare` or `scax train`.")],
) -> None:
    """Build the HTML report again from the files in a run folder."""
    from ..report import build

    for folder in runs:
        print(f"Report: {build(folder)}")

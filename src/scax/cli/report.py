"""scax report: build report.html from run folders."""

from pathlib import Path
from typing import Annotated

import typer


def register(cli: typer.Typer) -> None:
    cli.command("report")(report)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of `scax compare` or `scax train`.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="One page for several training runs, in this file.")
    ] = None,
) -> None:
    """Build the HTML report from the files of a run folder, finished or not."""
    from ..report.build import build, build_together

    if output is not None:
        print(f"Report: {build_together(runs, output)}")
        return
    for folder in runs:
        print(f"Report: {build(folder)}")

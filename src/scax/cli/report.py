"""scax report: build report.html from run folders."""

from pathlib import Path
from typing import Annotated

import typer

from .words import say


def register(cli: typer.Typer) -> None:
    cli.command("report", short_help="Make a page of a run: scores, errors, curves.")(report)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of `scax compare` or `scax train`.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="One page for several training runs, in this file.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Instead of a page, one SVG picture of a `scax compare` run.")
    ] = None,
) -> None:
    """Build the HTML report from the files of a run folder, finished or not."""
    if picture is not None:
        from ..report.build import build_picture

        say(f"Picture: {build_picture(runs[0], picture)}")
        return
    from ..report.build import build, build_together

    if output is not None:
        say(f"Report: {build_together(runs, output)}")
        return
    for folder in runs:
        say(f"Report: {build(folder)}")

"""scax reproduce: the paper's benchmarks."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .errors import UserError
from .options import absurd, numbers
from .words import near, say

#: What can be asked for, and the part of the results it belongs to.
PARTS = {
    "table2": "table2", "fig1": "table2",
    "susy": "susy", "fig2": "susy", "fig4": "susy",
    "speedup": "speedup", "fig3": "speedup",
}  # fmt: skip


def register(cli: typer.Typer) -> None:
    cli.command("reproduce", short_help="Run the paper's experiments again.")(reproduce)


def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="table2 or fig1 (the same runs); susy, fig2 or fig4; speedup or fig3; all; "
            "page: tables and figures once more from the results of --out.",
        ),
    ],
    repeats: Annotated[int, typer.Option(help="Splits and starts; SUSY gets a fifth of them.")] = 100,
    iterations: Annotated[
        str, typer.Option(help="Iterations of table2; several lengths, separated by commas, are run one by one.")
    ] = "500",
    data_dir: Annotated[
        Path | None, typer.Option(help="Where the data sets are looked for first.", envvar="SCAX_DATA")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results; parts already there are kept.", show_default="a new one in runs/"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the splits, starts and batches.")] = 0,
    workers: Annotated[int, typer.Option(help="Data sets run side by side.", show_default="one per core")] = 0,
) -> None:
    """Run the paper's experiments again: its settings, tuned baselines and our defaults, beside what it printed.

    Writes results.json, and from it alone reproduction.md with every table and figure.
    """
    absurd("repeats", repeats, 1, 10_000)
    absurd("seed", seed, 0, 2**31 - 1)
    absurd("workers", workers, 0, 64)
    lengths = numbers("iterations", iterations)
    if what not in {*PARTS, "all", "page"}:
        raise UserError(f"{what!r} is not part of the paper.{near(what, [*PARTS, 'all', 'page'])}")
    if not lengths:
        raise UserError("--iterations is empty: give a number such as 500.")
    if what == "page" and out is None:
        raise UserError("page: which results? Give their folder with --out.")

    from . import reproduce_run

    folder = reproduce_run.folder(out, fresh=what != "page")
    if what != "page":
        wanted = list(dict.fromkeys(PARTS.values())) if what == "all" else [PARTS[what]]
        reproduce_run.run(folder, wanted, repeats, lengths, data_dir, seed, workers)
    say(f"Page: {reproduce_run.write(folder)}")
    sys.stdout.flush()

"""scax compare: SCA against the usual optimizers on the same problem."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from . import interrupts
from .config import Config
from .errors import UserError
from .options import absurd, names, numbers
from .words import say


def register(cli: typer.Typer) -> None:
    cli.command("compare", short_help="Compare SCA with tuned SGD, Adam and others.")(compare)


def compare(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A CSV, CSV.gz or Parquet file, or the name of a data set (see scax datasets).",
            show_default="diabetes, bundled",
        ),
    ] = "diabetes",
    target: Annotated[str | None, typer.Option(help="The column to predict, for a table.")] = None,
    task: Annotated[str, typer.Option(help="regression, classification, or auto: the target decides.")] = "auto",
    methods: Annotated[str, typer.Option(help="Which to compare, separated by commas, or `all`.")] = "default",
    steps: Annotated[int, typer.Option(help="Iterations of each run.")] = 300,
    repeats: Annotated[int, typer.Option(help="Runs of each method, each with a new split and start.")] = 10,
    batch_size: Annotated[int, typer.Option(help="Rows in a mini-batch.")] = 20,
    hidden: Annotated[str, typer.Option(help="Widths of the hidden layers.")] = "10,6",
    l2: Annotated[float, typer.Option(help="Strength of the L2 penalty.")] = 0.02,
    seed: Annotated[int, typer.Option(help="Seed of the splits, starts and batches.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data sets are looked for first.", envvar="SCAX_DATA")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.", show_default="a new one in runs/")] = None,
    config: Config = None,
    json: Annotated[bool, typer.Option("--json", help="Print the final table as JSON, and nothing else.")] = False,
) -> None:
    """Compare SCA with SGD, AdaGrad, RMSProp, Adam, … on the same problem, and write report.html.

    Every method gets the same splits, starts and batches. Baselines run at the best learning rate of a grid.
    """
    absurd("steps", steps, 1, 1_000_000)
    absurd("repeats", repeats, 1, 1000)
    absurd("batch-size", batch_size, 1, 100_000)
    absurd("l2", l2, 0, 1e6)
    absurd("seed", seed, 0, 2**31 - 1)
    widths = numbers("hidden", hidden)
    if task not in {"auto", "regression", "classification"}:
        raise UserError(f"--task is {task!r}: choose auto, regression or classification.")

    with interrupts.patient():
        from ..storage.run_folder import aside, free, refuse_existing, write_json
        from . import compare_run

    if out is not None:
        refuse_existing(out)
    chosen = compare_run.methods(names("methods", methods))
    with interrupts.anywhere():
        data = compare_run.load(table, target, task, data_dir)
    if len(data.x) < 2 * batch_size:
        raise UserError(
            f"{data.name} has {len(data.x)} rows, too few for mini-batches of {batch_size}: lower --batch-size."
        )
    folder = free(f"compare-{data.name}") if out is None else out
    settings: dict[str, Any] = {
        "methods": chosen,
        "hidden": widths,
        "l2": l2,
        "steps": steps,
        "batch_size": batch_size,
        "repeats": repeats,
        "seed": seed,
    }
    with interrupts.patient():
        command = _command(table, target, task, settings, methods, hidden)
        results = compare_run.run(data, settings, quiet=json, command=command)
        from ..report.build import build

        with aside(folder) as working:
            write_json(working / "results.json", results)
            build(working)
    if json:
        import json as json_

        print(json_.dumps(compare_run.brief(results, folder), indent=1))
    else:
        compare_run.show(results)
        say(f"Report: {folder / 'report.html'}")
    sys.stdout.flush()


def _command(table: str, target: str | None, task: str, settings: dict[str, Any], methods: str, hidden: str) -> str:
    import shlex

    parts = ["scax", "compare", table]
    if target is not None:
        parts += ["--target", target]
    if task != "auto":
        parts += ["--task", task]
    if methods != "default":
        parts += ["--methods", methods]
    for name in ("steps", "repeats", "batch_size", "l2", "seed"):
        parts += [f"--{name.replace('_', '-')}", f"{settings[name]:g}" if name == "l2" else str(settings[name])]
    return shlex.join([*parts, "--hidden", hidden])

"""scax train and scax resume: a network on a table, in a run folder."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from . import interrupts
from .config import Config
from .errors import UserError
from .options import absurd, names
from .options import numbers as widths

Json = Annotated[bool, typer.Option("--json", help="Print each record and the outcome as lines of JSON.")]
Tensorboard = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write TensorBoard's event files there, too.", show_default=False)
]
PENALTIES = ("l2", "l1", "log", "group")
SaveEvery = Annotated[float, typer.Option(help="Seconds between checkpoints.")]
Hosts = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Train with other processes, which meet at the address of the first; auto: as SLURM or MPI say.",
        show_default=False,
    ),
]
Processes = Annotated[int | None, typer.Option(help="With --hosts: how many there are.", show_default=False)]
ProcessId = Annotated[int | None, typer.Option(help="With --hosts: which one this is, from 0.", show_default=False)]


def register(cli: typer.Typer) -> None:
    cli.command("train", short_help="Train a network on a table.")(train)


def register_resume(cli: typer.Typer) -> None:
    cli.command("resume", short_help="Go on with a run after a stop, or beyond its end.")(resume)


def train(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE", help="A CSV, CSV.gz or Parquet file, or the name of a data set (see scax datasets)."
        ),
    ],
    target: Annotated[str | None, typer.Option(help="The column to predict; a data set knows its own.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.", show_default="a new one in runs/")] = None,
    task: Annotated[str, typer.Option(help="regression, classification, or auto: the target decides.")] = "auto",
    drop: Annotated[str, typer.Option(help="Columns to leave out, separated by commas.")] = "",
    category: Annotated[str, typer.Option(help="Columns of numbers to take as categories.")] = "",
    max_levels: Annotated[int, typer.Option(help="Most values that a category may have.")] = 100,
    numbers: Annotated[
        str, typer.Option(help="How numbers enter: standard, clipped, bins, or auto: bins for many rows.")
    ] = "auto",
    hidden: Annotated[str, typer.Option(help="Widths of the hidden layers, or auto.")] = "auto",
    activation: Annotated[
        str, typer.Option(help="tanh, relu, gelu, silu, elu, softplus or sigmoid, or auto.")
    ] = "auto",
    l2: Annotated[
        float | None,
        typer.Option(
            help="Strength of the L2 penalty.", show_default="found on the validation rows; 0.01 below 1,000 rows"
        ),
    ] = None,
    l1: Annotated[float, typer.Option(help="Strength of the L1 penalty.")] = 0.0,
    log: Annotated[float, typer.Option(help="Strength of the log penalty: like L1, with less shrinkage.")] = 0.0,
    group: Annotated[float, typer.Option(help="Strength of the penalty that removes whole neurons and inputs.")] = 0.0,
    penalty: Annotated[str, typer.Option(help="The penalty that --strength sets: l2, l1, log or group.")] = "",
    strength: Annotated[str, typer.Option(help="A number, or auto: found on held-out rows (not for l2).")] = "",
    steps: Annotated[int | None, typer.Option(help="Iterations.", show_default="by the number of rows")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows in a mini-batch.", show_default="64, or 32")] = None,
    validation: Annotated[float, typer.Option(help="Share of the rows that choose the step to keep.")] = 0.2,
    test: Annotated[
        float | None,
        typer.Option(help="Share of the rows held out for the final score.", show_default="0.1; 0 with --folds"),
    ] = None,
    folds: Annotated[
        int, typer.Option(help="Score by cross-validation: so many networks more, each on rows it has not seen.")
    ] = 0,
    keep: Annotated[str, typer.Option(help="The model to keep: best on the validation rows, or last.")] = "best",
    seed: Annotated[int, typer.Option(help="Seed of the split, the start and the batches.")] = 0,
    encoding: Annotated[str, typer.Option(help="Encoding of a CSV file: utf-8, latin-1, cp1252.")] = "utf-8",
    header: Annotated[bool, typer.Option(help="Whether the first line of a CSV file names the columns.")] = True,
    save_every: SaveEvery = 10.0,
    tensorboard: Tensorboard = None,
    hosts: Hosts = None,
    processes: Processes = None,
    process_id: ProcessId = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Train a network on a table; the run folder holds model, metrics and checkpoints. Ctrl-C saves and stops."""
    absurd("save-every", save_every, 0, 1e6)
    with interrupts.patient():
        from . import train_run
    _join(hosts, processes, process_id)
    from ..cluster.hosts import agree, first
    from ..runs.config import TrainConfig
    from ..storage.run_folder import free, refuse_existing
    from .named import named

    known = named(table)
    column = known.target if target is None else target
    if column is None:
        raise UserError(f"{table}: which column is to be predicted? Give --target.")
    as_known = column == known.target
    given: dict[str, Any] = {
        "hidden": None if hidden == "auto" else widths("hidden", hidden),
        "activation": None if activation == "auto" else activation,
        "steps": steps,
        "batch_size": batch_size,
    }
    auto = {name for name, value in given.items() if value is None} | ({"l2"} if l2 is None and not penalty else set())
    given = {name: value for name, value in given.items() if value is not None}
    options = TrainConfig(
        table=str(known.path.absolute()),
        target=column,
        task=known.task if task == "auto" and as_known else task,
        drop=names("drop", drop) if drop else list(known.drop),
        category=names("category", category) if category else [],
        max_levels=max_levels,
        numbers=numbers,
        **given,
        **_strengths({"l1": l1, "log": log, "group": group}, l2, penalty, strength),
        validation=validation,
        test=(0.0 if folds else 0.1) if test is None else test,
        folds=folds,
        keep=keep,
        seed=seed,
        encoding=encoding,
        header=header and known.header,
    )
    if reason := options.problems():
        raise UserError(reason)
    if folds and hosts is not None:
        raise UserError("--folds trains in one process: leave --hosts out.")
    if out is not None and first():
        refuse_existing(out)
    _require_tensorboard(tensorboard)
    stem = table.name.removesuffix(".gz").rpartition(".")[0] or table.name
    folder = Path(agree(str(free(f"train-{stem}") if out is None else out)))
    train_run.begin(folder, options, save_every, json, tensorboard, auto)
    sys.stdout.flush()


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that was stopped, or that ended.")],
    steps: Annotated[
        int | None, typer.Option(help="Train on to so many iterations in all.", show_default="as the run was started")
    ] = None,
    save_every: SaveEvery = 10.0,
    tensorboard: Tensorboard = None,
    hosts: Hosts = None,
    processes: Processes = None,
    process_id: ProcessId = None,
    json: Json = False,
) -> None:
    """Go on with a run after a stop or a crash, to the bit as if it had not stopped; with --steps, beyond its end."""
    absurd("save-every", save_every, 0, 1e6)
    if steps is not None:
        absurd("steps", steps, 1, 1e9)
    with interrupts.patient():
        from . import train_run
    _join(hosts, processes, process_id)
    _require_tensorboard(tensorboard)
    train_run.again(run, save_every, json, tensorboard, steps)
    sys.stdout.flush()


def _join(hosts: str | None, processes: int | None, process_id: int | None) -> None:
    """Meet the other processes of the run, if there are any."""
    if hosts is None:
        if processes is not None or process_id is not None:
            raise UserError("--processes and --process-id go with --hosts HOST:PORT, or use scax launch.")
        return
    if hosts != "auto":
        host, _, port = hosts.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise UserError(f"--hosts is {hosts!r}: give the first process's address as HOST:PORT, or auto.")
        if processes is None or process_id is None:
            raise UserError("--hosts HOST:PORT needs --processes and --process-id; --hosts auto finds them.")
        absurd("processes", processes, 1, 100_000)
        absurd("process-id", process_id, 0, processes - 1)
    from ..cluster.hosts import join

    try:
        join(None if hosts == "auto" else hosts, processes, process_id)
    except (ValueError, RuntimeError) as error:
        why = str(error).splitlines()[0].rstrip(".")
        advice = "give --hosts HOST:PORT, --processes and --process-id" if hosts == "auto" else "check the address"
        raise UserError(f"The processes could not meet ({why}): {advice}.") from None


def _strengths(others: dict[str, Any], l2: float | None, penalty: str, strength: str) -> dict[str, Any]:
    """What --penalty and --strength mean for the others: a number is the strength of one of them, auto stays."""
    if not penalty and not strength:
        return others | {"l2": 0.01 if l2 is None else l2}
    if not penalty:
        raise UserError(f"--strength is that of --penalty: add --penalty and one of {', '.join(PENALTIES)}.")
    if penalty not in PENALTIES:
        raise UserError(f"--penalty is {penalty!r}: choose {', '.join(PENALTIES)}.")
    if not strength:
        raise UserError(f"--penalty {penalty} needs --strength: a number, or auto.")
    if strength != "auto" and (others | {"l2": l2})[penalty]:
        raise UserError(
            f"--{penalty} and --penalty {penalty} --strength {strength} say it twice: leave one of them out."
        )
    strengths = others | {"l2": 0.0 if l2 is None else l2}
    if strength == "auto":
        return strengths | {"penalty": penalty, "strength": strength}
    try:
        value = float(strength)
    except ValueError:
        raise UserError(f"--strength is {strength!r}: give a number, or auto.") from None
    absurd("strength", value, 0, 1e6)
    return strengths | {penalty: value}


def _require_tensorboard(folder: Path | None) -> None:
    """Before anything is read or made."""
    if folder is not None:
        from ..runs.tensorboard import require

        require()

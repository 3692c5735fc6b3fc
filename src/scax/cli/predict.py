"""scax predict: a trained model on a new table. No JAX: the model file predicts with NumPy alone."""

import itertools
import sys
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from .._text import printable
from .errors import UserError
from .named import named
from .options import names
from .words import say


def register(cli: typer.Typer) -> None:
    cli.command("predict", short_help="Predict the target of new rows.")(predict)


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a model file.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A CSV, CSV.gz or Parquet file, or a data set.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write: .csv, .csv.gz or .parquet.", show_default="the terminal"),
    ] = None,
    keep: Annotated[str, typer.Option(help="Columns of the table to carry over, separated by commas.")] = "",
    interval: Annotated[
        float | None,
        typer.Option(
            help="Also write bounds that hold this share of the true values, such as 0.95.", show_default="none"
        ),
    ] = None,
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="Probabilities corrected by the model's error bars.")
    ] = False,
    encoding: Annotated[str, typer.Option(help="Encoding of a CSV file: utf-8, latin-1, cp1252.")] = "utf-8",
    header: Annotated[bool, typer.Option(help="Whether the first line of a CSV file names the columns.")] = True,
) -> None:
    """Predict the target for every row of a table; for classes, their probabilities as well."""
    if output is not None and not output.name.endswith((".csv", ".csv.gz", ".parquet")):
        raise UserError(f"{output}: predictions are written as .csv, .csv.gz or .parquet.")
    if output is not None and output.resolve() == table.resolve():
        raise UserError(f"{output} is the table itself: write the predictions to another file.")
    from ..storage import load, write_bytes
    from ..tables import Tally, open_table

    table = named(table).path
    model = load(model_file(run))
    if model.preprocess is None:
        raise UserError(
            f"{model_file(run)} was saved without preprocessing, so it takes arrays and not tables: in Python, "
            "scax.load(file).predict(x), or save it with preprocess=."
        )
    _check_bars(model, run, interval, calibrated)
    tally, rows = Tally(), open_table(table, header=header, encoding=encoding)
    columns = _kept(rows, names("keep", keep)) if keep else {}
    for name, values in _columns(model, rows, tally, interval, calibrated).items():
        columns[_free(name, columns)] = values
    for sentence in tally.sentences():
        say(f"scax: warning: {sentence}", to_stderr=True)
    content = _encode(columns, "" if output is None else output.name)
    if output is None:
        lines = content.decode().split("\n")  # a terminal shows them, a pipe gets the bytes as they are
        sys.stdout.write("\n".join(map(printable, lines) if sys.stdout.isatty() else lines))
    else:
        write_bytes(output, content)
        say(f"{len(next(iter(columns.values()))):,} predictions: {output}")


def model_file(run: Path) -> Path:
    """The model of a run folder, or the file itself."""
    if not run.is_dir():
        return run
    model = run / "model.safetensors"
    if not model.is_file():
        if (run / "checkpoint.safetensors").is_file():
            raise UserError(f"{run} is not finished, it has no model yet. Go on: scax resume {run}")
        raise UserError(f"{run} has no model.safetensors: give the folder of a `scax train` run, or a model file.")
    return model


def _kept(table: Any, wanted: list[str]) -> dict[str, Any]:
    """Name → values as they stand in the table: an id 007 stays 007."""
    import polars

    from ..tables.errors import near

    for name in wanted:
        if name not in table.columns:
            raise UserError(f"--keep: {table.name} has no column {name!r}.{near(name, table.columns)}")
    parts = [
        [b.frame[name] if isinstance(b.frame, Mapping) else b.frame.column(name).series for name in wanted]
        for b in table.blocks()
    ]
    return {name: polars.concat(part) for name, part in zip(wanted, zip(*parts, strict=True), strict=False)}


def _check_bars(model: Any, run: Path, interval: float | None, calibrated: bool) -> None:
    """Refuse what the model's error bars cannot answer."""
    if interval is not None and not 0 < interval < 1:
        raise UserError(f"--interval is {interval:g}: give a share between 0 and 1, such as 0.95.")
    if interval is not None and model.classes:
        raise UserError(f"--interval is for numbers, and {run} predicts classes: use --calibrated.")
    if calibrated and not model.classes:
        raise UserError(f"--calibrated is for classes, and {run} predicts numbers: use --interval 0.95.")
    if (interval is not None or calibrated) and model.error_bars is None:
        raise UserError(
            f"{model_file(run)} has no error bars: train again with this scax (hundreds of classes have none)."
        )


def _columns(model: Any, table: Any, tally: Any, interval: float | None, calibrated: bool) -> dict[str, Any]:
    """Name → values: the prediction under the target's name, then its bounds, or a probability per class."""
    name = model.preprocess.schema.target.name
    if not model.classes:
        columns = {name: model.predict(table, tally)}
        if interval is not None:
            bounds = model.predict_interval(table, interval)
            columns[_free("lower", columns)] = bounds[:, 0]
            columns[_free("upper", columns)] = bounds[:, 1]
        return columns
    p = model.predict_proba(table, tally, calibrated=calibrated)
    labels = [model.classes[i] for i in p.argmax(axis=1)]
    columns = {name: labels}
    for i, c in enumerate(model.classes):
        columns[_free(f"probability {c}", columns)] = p[:, i]
    return columns


def _free(name: str, taken: Container[str]) -> str:
    """The name, or with a number behind it where a column has it already: a target may be called like a probability."""
    names = itertools.chain([name], (f"{name} ({n})" for n in itertools.count(2)))
    return next(each for each in names if each not in taken)


def _encode(columns: dict[str, Any], name: str) -> bytes:
    import gzip
    import io

    import polars

    frame = polars.DataFrame(columns, strict=False)
    out = io.BytesIO()
    if name.endswith(".parquet"):
        frame.write_parquet(out)
        return out.getvalue()
    frame.write_csv(out)
    return gzip.compress(out.getvalue(), mtime=0) if name.endswith(".gz") else out.getvalue()

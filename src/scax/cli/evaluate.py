"""scax evaluate: the scores of a trained model on a table that has the target, beside a constant prediction."""

import json as encode
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import UserError
from .named import named
from .predict import model_file
from .words import count, say

SHOWN = 20  # classes listed in the terminal; --json has them all


def register(cli: typer.Typer) -> None:
    cli.command("evaluate", short_help="Score a trained model on a table that has the target.")(evaluate)


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a model file.")],
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A CSV, CSV.gz or Parquet file with the target, or a data set.")
    ],
    encoding: Annotated[str, typer.Option(help="Encoding of a CSV file: utf-8, latin-1, cp1252.")] = "utf-8",
    header: Annotated[bool, typer.Option(help="Whether the first line of a CSV file names the columns.")] = True,
    importance: Annotated[
        bool, typer.Option("--importance", help="How much the error rises when a column's values are shuffled.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the scores as a line of JSON.")] = False,
) -> None:
    """Score a trained model on a table that has the target; give it rows that it was not trained on."""
    from ..runs import scoring
    from ..storage import load
    from ..storage.run_files import is_trained_on
    from ..storage.run_folder import finite
    from ..tables import Tally, open_table

    table = named(table).path
    model = load(model_file(run))
    pre = model.preprocess
    if pre is None:
        raise UserError(f"{model_file(run)} was saved without preprocessing: save it with preprocess= to evaluate it.")
    tally, rows = Tally(), open_table(table, header=header, encoding=encoding)
    truth = pre.target(rows)
    scores = scoring.scores(pre, model.outputs(rows, tally), truth)
    if importance:
        few = _first(pre, rows, scoring.ROWS)
        scores["importance"] = scoring.importance(pre, model.encoded_outputs, few, truth)
        if not scores["importance"]:
            raise UserError(
                f"--importance takes at least two rows and at most {scoring.COLUMNS} columns, and there are "
                f"{count(len(truth), 'row')} and {count(len(pre.schema.used), 'column')}."
            )
    warnings = list(tally.sentences())
    if is_trained_on(run, table):
        warnings.append("These rows are those of the training: on others the scores may be worse.")
    for sentence in warnings:
        say(f"scax: warning: {sentence}", to_stderr=True)
    if json:
        print(encode.dumps(finite({"rows": len(truth), "target": pre.schema.target.name, **scores})))
        return
    say(f"{rows.name}: {count(len(truth), 'row')}, target {pre.schema.target.name}.")
    _show(scores)


def _first(pre: Any, rows: Any, most: int) -> Any:
    """The first rows of a table, encoded."""
    import numpy as np

    parts, count = [], 0
    for part in pre.parts(rows):
        parts.append(part[: most - count])
        count += len(parts[-1])
        if count == most:
            break
    return np.concatenate(parts)


def _show(scores: dict[str, Any]) -> None:
    from ..report.numbers import number

    shown = {name: value for name, value in scores.items() if name not in ("classes", "importance")}
    width = max(map(len, shown))
    for name, value in shown.items():
        say(f"  {name:{width}}  {'-' if value is None else number(value)}")
    if scores.get("classes"):
        _show_classes(scores["classes"])
    if rises := scores.get("importance"):
        wide = min(28, max(len(each["column"]) for each in rises))
        error = "log loss" if "log loss" in scores else "RMSE"
        say(f"  {error} rises by, when the values of a column are shuffled among the rows:")
        for each in rises[:SHOWN]:
            say(f"  {_short(each['column'], wide):{wide}}  {number(each['rise']):>10}")
        if len(rises) > SHOWN:
            say(f"  … and {len(rises) - SHOWN} more with --json")


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _show_classes(classes: list[dict[str, Any]]) -> None:
    wide = min(28, max(len("class"), *(len(c["class"]) for c in classes)))
    say(f"  {'class':{wide}}  {'rows':>8}  {'recall':>8}  {'precision':>9}")
    share = lambda value: "-" if value is None else f"{value:.3f}"
    for c in classes[:SHOWN]:
        say(f"  {_short(c['class'], wide):{wide}}  {c['rows']:8,}  {share(c['recall']):>8}  {share(c['precision']):>9}")
    if len(classes) > SHOWN:
        say(f"  … and {len(classes) - SHOWN} more with --json")

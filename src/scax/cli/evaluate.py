"""scax evaluate: the scores of a trained model on a table that has the target, beside a constant prediction."""

import json as encode
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import UserError
from .predict import model_file
from .words import count, say

SHOWN = 20  # classes listed in the terminal; --json has them all


def register(cli: typer.Typer) -> None:
    cli.command("evaluate")(evaluate)


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a model file.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A CSV, CSV.gz or Parquet file with the target.")],
    encoding: Annotated[str, typer.Option(help="Of a CSV file: utf-8, latin-1, cp1252.")] = "utf-8",
    header: Annotated[bool, typer.Option(help="Whether the first line of a CSV file names the columns.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the scores as a line of JSON.")] = False,
) -> None:
    """Score a trained model on a table that has the target; give it rows that it was not trained on."""
    from ..storage import load
    from ..tables import Tally, open_table
    from ..training.scores import class_scores, number_scores

    model = load(model_file(run))
    pre = model.preprocess
    if pre is None:
        raise UserError(f"{model_file(run)} was saved without preprocessing: save it with preprocess= to evaluate it.")
    tally, rows = Tally(), open_table(table, header=header, encoding=encoding)
    truth = pre.target(rows)
    if model.classes:
        scores = class_scores(model.predict_proba(rows, tally), truth.astype(int), [str(c) for c in model.classes])
    else:
        scores = number_scores(model.predict(rows, tally), pre.restore(truth))
    for sentence in tally.sentences():
        say(f"scax: warning: {sentence}", to_stderr=True)
    if json:
        print(encode.dumps({"rows": len(truth), "target": pre.schema.target.name, **scores}))
        return
    say(f"{rows.name}: {count(len(truth), 'row')}, target {pre.schema.target.name}.")
    _show(scores)


def _show(scores: dict[str, Any]) -> None:
    from ..report.numbers import number

    shown = {name: value for name, value in scores.items() if name != "classes"}
    width = max(map(len, shown))
    for name, value in shown.items():
        say(f"  {name:{width}}  {'-' if value is None else number(value)}")
    classes = scores.get("classes", [])
    if not classes:
        return
    wide = min(28, max(len("class"), *(len(c["class"]) for c in classes)))
    say(f"  {'class':{wide}}  {'rows':>8}  {'recall':>8}  {'precision':>9}")
    share = lambda value: "-" if value is None else f"{value:.3f}"
    for c in classes[:SHOWN]:
        name = c["class"] if len(c["class"]) <= wide else c["class"][: wide - 1] + "…"
        say(f"  {name:{wide}}  {c['rows']:8,}  {share(c['recall']):>8}  {share(c['precision']):>9}")
    if len(classes) > SHOWN:
        say(f"  … and {len(classes) - SHOWN} more with --json")

"""The page of a `scax compare` run."""

import numpy as np

from .._text import printable
from ..storage.run_files import Comparison
from ..training.scores import one_class
from . import charts, page
from .numbers import margin
from .summary import NEAR, Interval, Row, best, headline, missing, places, rows, without_score

LONGEST = 80  # characters of a name in a headline


def comparison_page(results: Comparison) -> str:
    """The whole document, from the content of results.json."""
    table = rows(results)
    name = printable(results["dataset"]["name"], LONGEST)
    title = f"SCA beside other optimizers on {name}"
    return page.page(
        title,
        [
            f"<h1>{page.text(title)}</h1>",
            f'<p class="lead">{page.text(headline(results, table))}</p>',
            f'<p class="soft">{page.text(_what(results))}</p>',
            "<h2>At the end</h2>",
            _table(results, table),
            f'<p class="soft">{page.text(_how_to_read(results))}</p>',
            "<h2>On the way</h2>",
            page.legend(
                (row.label, color, row.name == "sca") for row, color in zip(table, _colors(table), strict=True)
            ),
            page.grid(_curves(results, table)),
            "<h2>A closer look</h2>",
            page.grid(_closer(results, table)),
            "<h2>Settings</h2>",
            page.facts(_settings(results)),
            "<h2>Again</h2>",
            page.command(results["command"]),
            f"<footer>Made by scax {page.text(results['environment']['packages'].get('scax') or '')}</footer>",
        ],
    )


def _what(results: Comparison) -> str:
    data, run = results["dataset"], results["settings"]
    widths = "/".join(map(str, results["network"]))
    return (
        f"{data['rows']:,} rows of {data['columns']} inputs, {_task(results)} of “{data['target']}”. "
        f"A {widths} network ({results['weights']:,} weights) trained for {run['steps']:,} iterations on mini-batches "
        f"of {run['batch_size']}, {_times(run['repeats'])}, each with a new split and start; all methods get the same "
        "batches."
    )


def _task(results: Comparison) -> str:
    return "regression" if results["task"] == "regression" else "classification"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _how_to_read(results: Comparison) -> str:
    score = results["score"]
    better = "higher" if score["larger_is_better"] else "lower"
    tried = len(results["grid"]["rates"]) * len(results["grid"]["decays"])
    return (
        "Bold: the best of a column. Objective: average training loss plus penalty, lower is better. "
        f"Test {score['name']} is on held-out rows, {better} is better. Mean ± half a 95% interval over repeats; the "
        "difference is paired (same splits) and marked * where its interval excludes zero. "
        f"Each baseline runs at the one of {tried} learning rates and decays that gave it the lowest training "
        f"objective; SCA is not tuned. Iterations to best + {NEAR:.0%}: until the objective is at most that far above "
        "the lowest final objective of any method; to Adam’s end: until it is at or below Adam’s last; medians over "
        f"repeats. Seconds: the compiled training loop alone, all iterations. {without_score(results)}"
    ).rstrip()


def _table(results: Comparison, table: list[Row]) -> str:
    score = page.text(results["score"]["name"])
    head = [
        "", "objective", "less SCA’s", f"test {score}", "less SCA’s",
        f"iterations<br>to best + {NEAR:.0%}", "iterations to<br>Adam’s end", "seconds", "learning rate",
    ]  # fmt: skip
    digits = places(r.objective.mean for r in table), places(r.score.mean for r in table)
    body = []
    leading = best(table, results["score"]["larger_is_better"])
    for row, color in zip(table, _colors(table), strict=True):
        bold = lambda column, text, name=row.name: f"<b>{text}</b>" if name in leading[column] else text
        cells = [
            page.key(color) + page.text(row.label),
            bold("objective", interval(row.objective, digits[0])),
            difference(row.objective_less_ours, digits[0]),
            bold("score", interval(row.score, digits[1], missing(results))),
            difference(row.score_less_ours, digits[1]),
            bold("near", "–" if row.near is None else f"{row.near:,}"),
            bold("iterations", "–" if row.iterations is None else f"{row.iterations:,}"),
            bold("seconds", f"{row.seconds:.3f}"),
            page.text(row.setting),
        ]
        body.append(("ours" if row.name == "sca" else "", cells))
    return page.table(head, body)


def interval(value: Interval, digits: int, otherwise: str = "diverged") -> str:
    if not np.isfinite(value.mean):
        return otherwise
    return f"{value.mean:,.{digits}f}" + ("" if value.half is None else f" <small>± {margin(value.half)}</small>")


def difference(value: Interval | None, digits: int) -> str:
    if value is None or not np.isfinite(value.mean):
        return "–"
    return f"{value.mean:+,.{digits}f}{'*' if value.excludes_zero else ''}".replace("-", "−")


def _colors(table: list[Row]) -> list[int]:
    """SCA has color 0, the others 1, 2, … in order."""
    others = iter(range(1, 10))
    return [0 if row.name == "sca" else next(others, 9) for row in table]


def _curves(results: Comparison, table: list[Row]) -> list[str]:
    ends = np.array(results["ends"], float)
    score = results["score"]["name"]
    out = []
    shown = [("objective", "objective")]
    if len(results.get("one_class", ())) < results["settings"]["repeats"]:
        shown.append(("score", f"test {score}"))
    for what, label in shown:
        lines = {"iterations": [], "seconds": []}
        for row, color in zip(table, _colors(table), strict=True):
            method = results["methods"][row.name]
            values = np.array(method["curves"][what], float)
            lines["iterations"].append(charts.Curve(row.label, ends, values, color, row.name == "sca"))
            seconds = ends * method["seconds_per_step"]
            lines["seconds"].append(charts.Curve(row.label, seconds, values, color, row.name == "sca"))
        for axis in ("iterations", "seconds"):
            svg = charts.curves(f"{what}-{axis}", lines[axis], axis, label, wild_start=True)
            title = f"{label[0].upper()}{label[1:]} against {axis}"
            out.append(page.chart(title, svg, "Mean over repeats; band: one standard deviation." if not out else ""))
    return out


def _closer(results: Comparison, table: list[Row]) -> list[str]:
    truth, task, out = np.array(results["truth"], float), results["task"], []
    shown = results["methods"].get("sca") or next(iter(results["methods"].values()))
    z = np.array(shown["outputs"], float)
    if task == "regression":
        svg = charts.scatter("predicted", truth, z[:, 0], results["dataset"]["target"])
        note = f"Held-out rows of the first repeat, {shown['label']}. On the dashed line predictions are exact."
        out.append(page.chart("Predicted against true", svg, note))
    elif one_class(task, truth):
        pass  # no ROC curve
    elif task == "binary":
        lines = []
        for row, color in zip(table, _colors(table), strict=True):
            outputs = np.array(results["methods"][row.name]["outputs"], float)[:, 0]
            if np.isfinite(outputs).all():
                lines.append((row.label, outputs, truth, color, row.name == "sca"))
        out.append(page.chart("ROC curves", charts.roc_chart("roc", lines), "Held-out rows of the first repeat."))
    else:
        svg = charts.confusion("confusion", truth, np.argmax(z, axis=1), results["dataset"]["classes"])
        note = f"Held-out rows of the first repeat, {shown['label']}; shade: share of the true class."
        out.append(page.chart("Confusion matrix", svg, note))
    seen = results["methods"]["sca"]["curves"] if "sca" in results["methods"] else {}
    if "damping" in seen and "accepted" in seen:
        tau, taken = np.array(seen["damping"], float), np.array(seen["accepted"], float)
        svg = charts.damping("damping", np.array(results["ends"], float), tau, taken)
        note = "SCA’s damping adapts; a step that would raise the objective is not taken. Bold: mean over repeats."
        out.append(page.chart("Damping and acceptance", svg, note))
    return out


def _settings(results: Comparison) -> list[tuple[str, str]]:
    run, env = results["settings"], results["environment"]
    rates = ", ".join(f"{r:g}" for r in results["grid"]["rates"])
    packages = ", ".join(f"{name} {version}" for name, version in env["packages"].items() if version)
    return [
        ("network", f"{'/'.join(map(str, results['network']))}, {run['activation']}"),
        ("loss and penalty", f"{results['loss']} + L2({run['l2']:g})"),
        ("rows", f"{results['rows']['train']:,} to train on, {results['rows']['test']:,} held out"),
        ("iterations, batch, repeats", f"{run['steps']:,}, {run['batch_size']}, {run['repeats']}"),
        ("seed", str(run["seed"])),
        ("learning rates tried", f"{rates}; {' and '.join(results['grid']['decays'])}"),
        ("precision", "float64" if env["float64"] else "float32"),
        ("versions", f"{packages}, Python {env['python']}"),
        ("machine", f"{env['system']}, {env['cores']} cores, {', '.join(env['devices'])}"),
    ]  # fmt: skip

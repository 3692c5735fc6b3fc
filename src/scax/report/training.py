"""The page of one or several `scax train` runs."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from .._text import printable
from ..runs.config import FILE, TrainConfig, load
from ..storage.run_files import (
    Environment,
    PathSummary,
    TrainResults,
    read_environment,
    read_metrics,
    read_path,
    read_results,
    read_schema,
)
from ..storage.run_folder import RunFolderError
from ..tables import Schema
from ..training.scores import one_class
from . import charts, page
from .numbers import number

#: Inputs named in the chart of those that stay.
MOST_INPUTS = 20
LONGEST = 80  # characters of a name in a headline


@dataclasses.dataclass(frozen=True)
class Run:
    """What the files of a run folder say. `results` is None while the run is not finished."""

    name: str
    folder: Path
    config: TrainConfig
    environment: Environment
    schema: Schema
    records: list[dict[str, Any]]
    results: TrainResults | None
    path: PathSummary | None = None  # how a strength was chosen


def read_run(folder: Path) -> Run:
    environment, records = read_environment(folder), read_metrics(folder)
    if not records:
        raise RunFolderError(f"{folder} has no records yet. Go on: scax resume {folder}")
    run = Run(
        name=folder.resolve().name,
        folder=folder,
        config=load(folder / FILE),
        environment=environment,
        schema=read_schema(folder),
        records=records,
        results=read_results(folder),
        path=read_path(folder),
    )
    classes = len(run.schema.target.classes)
    if run.results is not None and run.results["task"] == "multiclass" and classes != run.results["network"][-1]:
        raise RunFolderError(f"{folder}: schema.json has {classes} classes and results.json others. Restore them.")
    return run


def training_page(runs: list[Run]) -> str:
    """The whole document: one run in full, or several beside each other."""
    first, several = runs[0], len(runs) > 1
    target = printable(first.config.target, LONGEST)
    title = f"{len(runs)} runs for “{target}”" if several else f"A model of “{target}”"
    legend = page.legend((r.name, i % 10, False) for i, r in enumerate(runs)) if several else ""
    return page.page(
        title,
        [
            f"<h1>{page.text(title)}</h1>",
            *(part for run in runs for part in _summary(run, several)),
            "<h2>What it gets right and wrong</h2>" if any(run.results for run in runs) else "",
            page.grid(chart for i, run in enumerate(runs) for chart in _closer(run, i, several)),
            "<h2>How it was trained</h2>",
            legend,
            page.grid(_curves(runs)),
            *_paths(runs),
            *_details(runs),
            f"<footer>Made by scax {page.text(first.environment['packages'].get('scax') or '')}</footer>",
        ],
    )


def _summary(run: Run, several: bool) -> list[str]:
    """In words what was trained on what and how good it is; then the scores as a table."""
    start = f"{run.name}: " if several else ""
    table = printable(Path(run.config.table).name, LONGEST)
    if run.results is None:
        step = run.records[-1]["step"]
        text = f"{start}not finished; step {step:,} of {run.config.steps:,} on {table}. Go on: scax resume {run.folder}"
        return [f'<p class="lead">{page.text(text)}</p>']
    text = f"{start}{_verdict(run)}"
    return [
        f'<p class="lead">{page.text(text)}</p>',
        f'<p class="soft">{page.text(_how(run, table))}</p>',
        *_scores(run),
    ]


def _verdict(run: Run) -> str:
    """How good the network is, against the mean or the commonest class and against a line."""
    assert run.results is not None
    final, rows, test = run.results["final"], run.results["rows"], run.results.get("test")
    name = _score_name(run)
    if test is None:
        if name in final and final[name] is not None:
            return f"{name} {number(final[name])} on {rows['validation']:,} validation rows."
        return _no_score(run) or "No rows were held out, so how good it is cannot be said: train with --test 0.1."
    count = f"On {rows.get('test', 0):,} test rows"
    if run.results["task"] != "regression":
        share, base = test.get("accuracy"), test.get("largest class")
        if share is None or base is None:
            return f"{count}: {', '.join(f'{k} {number(v)}' for k, v in test.items() if isinstance(v, float))}."
        text = f"{count} it names the right class in {100 * share:.1f}%; the commonest class alone, {100 * base:.1f}%."
        text += " It is no better than that: do not use it." if share <= base else ""
        return f"{text} {_no_score(run)}".rstrip()
    r2, error, mean = test.get("R²"), test.get("RMSE"), test.get("RMSE of the mean")
    if r2 is None or error is None or mean is None:
        return f"{count}: {', '.join(f'{k} {number(v)}' for k, v in test.items() if isinstance(v, float))}."
    if r2 <= 0:
        return f"{count} it is no better than always predicting the mean (R² {number(r2)}): do not use it."
    text = f"{count} it explains {100 * r2:.0f}% of the variance, and its typical error (RMSE) is {number(error)}"
    text += f" against {number(mean)} for always predicting the mean"
    line = run.results.get("linear", {}).get("RMSE")
    return f"{text}{'' if line is None else f' and {number(line)} for a linear model, {_beside(error, line)}'}."


def _beside(error: float, line: float) -> str:
    """How the network's error is to that of a linear model."""
    if abs(line - error) <= 0.02 * line:
        return "which is as good"
    return f"{1 - error / line:.0%} less" if error < line else "which is better"


def _no_score(run: Run) -> str:
    """Why the validation rows give no score, where they give none."""
    assert run.results is not None
    final, name = run.results["final"], _score_name(run)
    if run.results["task"] != "binary" or name not in final or final[name] is not None:
        return ""
    return f"The {run.results['rows']['validation']:,} validation rows are of one class, so there is no {name}."


def _how(run: Run, table: str) -> str:
    """What was trained on what."""
    assert run.results is not None
    rows, final = run.results["rows"], run.results["final"]
    widths = "/".join(map(str, run.results["network"]))
    text = f"A {widths} network, trained on {rows['train']:,} rows of {table} for {run.config.steps:,} steps"
    if run.results["kept"] == "best":
        text += (
            f"; kept from step {final['step']:,}, where the loss on {rows['validation']:,} validation rows was lowest"
        )
    if (left := run.results.get("sparsity")) and left["weights"] < run.results["weights"]:
        text += f"; {left['weights']:,} of {run.results['weights']:,} weights are in use"
    return text + "."


def _scores(run: Run) -> list[str]:
    """Scores on the test rows, ours beside a linear model's; of every class, where there are classes."""
    assert run.results is not None
    test, line = run.results.get("test"), run.results.get("linear")
    if test is None:
        return []
    shown = [(key, value) for key, value in test.items() if isinstance(value, int | float)]
    if line is not None:
        mean = {"R²": 0.0, "RMSE": test.get("RMSE of the mean")}
        columns = [key for key, _ in shown if key != "RMSE of the mean"]
        cell = lambda values, key: number(values[key]) if isinstance(values.get(key), int | float) else "–"
        named = (("ours", "network", test), ("", "linear model", line), ("", "mean", mean))
        body = [(css, [label, *(cell(values, key) for key in columns)]) for css, label, values in named]
    else:
        columns, body = [key for key, _ in shown], [("ours", ["network", *(number(value) for _, value in shown)])]
    out = [page.table(["", *map(page.text, columns)], body, "scores")]
    if classes := test.get("classes", [])[:MOST_INPUTS]:
        share = lambda value: "–" if value is None else f"{100 * value:.1f}%"
        body = [
            ("", [page.text(c["class"], LONGEST), f"{c['rows']:,}", share(c["recall"]), share(c["precision"])])
            for c in classes
        ]
        out.append(page.table(["class", "rows", "recall", "precision"], body, "scores"))
    return out


def _score_name(run: Run) -> str:
    return next((n for n in ("RMSE", "AUC", "accuracy") if n in run.records[0]), "")


def _curves(runs: list[Run]) -> list[str]:
    """Learning curves against steps: one run's two losses in one picture, with the step that was kept."""
    out, score, several = [], _score_name(runs[0]), len(runs) > 1
    losses = [("objective", "objective, training rows"), ("validation_loss", "loss, rows held out")]
    shown = [[one] for one in losses] if several else [losses]
    if score in ("AUC", "accuracy"):  # an RMSE is the loss once more
        shown.append([(score, f"{score}, rows held out")])
    shown += [[("weights_kept", "weights in use")], [("neurons_kept", "hidden neurons in use")]]
    for group in shown:
        lines = []
        for i, run in enumerate(runs):
            for j, (key, label) in enumerate(group):
                x, y = _with_the_end(run, key, _column(run, "step"), _column(run, key))
                if np.isfinite(y).any():
                    name, color = (run.name, i % 10) if several else (label, j)
                    lines.append(charts.Curve(name, np.maximum(x, 1e-6), y[None], color, not several and j == 0))
        if not lines:
            continue
        key, label = group[0]
        results = runs[0].results
        best_step = None
        if not several and results is not None and results["kept"] == "best":
            best_step = results["final"]["step"]
        title = "Losses" if len(group) > 1 else f"{label[0].upper()}{label[1:]}"
        about = "loss" if len(group) > 1 else label
        svg = charts.curves(
            f"{key.replace('_', '-')}", lines, "step", about, counts=key.endswith("_kept"), best_step=best_step
        )
        note = "Dashed line: the step whose weights were kept." if best_step is not None else ""
        out.append(page.chart(title, svg, note))
    steps, tau, taken = (_column(runs[0], name) for name in ("step", "damping", "accepted"))
    if not several and np.isfinite(tau).any():
        note = "The damping adapts; a step that would raise the objective is not taken."
        out.append(
            page.chart("Damping and steps taken", charts.damping("damping", steps, tau[None], taken[None]), note)
        )
    return out


def _with_the_end(run: Run, key: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Averaged iterates are not sparse, the last steps make the zeros: what is left after them ends the curve."""
    left = None if run.results is None else run.results.get("sparsity")
    if left is None or not key.endswith("_kept") or not np.isfinite(y).any():
        return x, y
    return np.append(x, x[-1]), np.append(y, left["weights" if key == "weights_kept" else "neurons"])


def _column(run: Run, name: str) -> np.ndarray:
    return np.array([np.nan if r.get(name) is None else r[name] for r in run.records], float)


def _paths(runs: list[Run]) -> list[str]:
    """How strengths were chosen: the error against what was kept, and which inputs stayed."""
    out = []
    for i, run in enumerate(runs):
        path, of = run.path, f", {run.name}" if len(runs) > 1 else ""
        if path is None:
            continue
        what = "neurons" if path["penalty"] == "group" else "weights"
        sizes, loss, error = (np.array(path[name], float) for name in (what, "loss", "error"))
        label = "hidden neurons in use" if what == "neurons" else "weights in use"
        svg = charts.path(f"run{i}-path", sizes, loss, error, path["best"], path["chosen"], label)
        note = (
            "Rows held out of the training rows; one point per strength. Ring: lowest loss. Filled: the chosen "
            f"strength, {path['strengths'][path['chosen']]:.2g}, the strongest within one standard error (bar) of that."
        )
        out.append(page.chart(f"Loss against {what} kept{of}", svg, note))
        stayed = np.array([np.isin(np.arange(len(path["names"])), row) for row in path["inputs"]])
        shown = np.argsort(-stayed.sum(axis=0), kind="stable")[:MOST_INPUTS]
        names = [path["names"][j] for j in shown]
        svg = charts.survivors(f"run{i}-inputs", names, stayed[:, shown], path["strengths"], path["chosen"])
        less = len(path["names"]) - len(shown)
        note = "Square: the input is used at this strength. Between the lines: the chosen one."
        note += f" {less} inputs that leave sooner are left out." if less else ""
        out.append(page.chart(f"Inputs that stay{of}", svg, note))
    return ["<h2>How strong a penalty</h2>", page.grid(out)] if out else []


def _closer(run: Run, number: int, several: bool) -> list[str]:
    out, tag, of = [], f"run{number}", f", {run.name}" if several else ""
    results = run.results
    if results is not None and "outputs" in results and "truth" in results:
        z, truth = np.array(results["outputs"], float), np.array(results["truth"], float)
        if results["task"] == "regression":
            svg = charts.scatter(f"{tag}-predicted", truth, z[:, 0], run.config.target)
            note = "Rows held out. On the dashed line predictions are exact."
            out.append(page.chart(f"Predicted against true{of}", svg, note))
            svg = charts.residuals(f"{tag}-residuals", truth, z[:, 0], run.config.target)
            note = "The same rows. A shape here is something that the network has not learned."
            out.append(page.chart(f"Errors against predictions{of}", svg, note))
        elif one_class(results["task"], truth):
            pass  # no curve
        elif results["task"] == "binary":
            svg = charts.roc_chart(f"{tag}-roc", [(run.name, z[:, 0], truth, number % 10, True)])
            out.append(page.chart(f"ROC curve{of}", svg, "Rows held out."))
        else:
            classes = [str(c) for c in run.schema.target.classes]
            svg = charts.confusion(f"{tag}-confusion", truth, np.argmax(z, axis=1), classes)
            out.append(page.chart(f"Confusion matrix{of}", svg, "Rows held out; shade: share of the true class."))
    out += _uncertainty(run, tag, of)
    if results is not None and (rises := results.get("importance", [])[:MOST_INPUTS]):
        error = "log loss" if results["task"] != "regression" else "RMSE"
        svg = charts.bars(
            f"{tag}-importance", [(each["column"], each["rise"]) for each in rises], f"rise of the {error}"
        )
        note = "Rows held out, one column shuffled at a time. Two correlated columns may both look unimportant."
        out.append(page.chart(f"Columns that matter{of}", svg, note))
    return out


def _uncertainty(run: Run, tag: str, of: str) -> list[str]:
    """How intervals, or probabilities, did on rows held out."""
    results = run.results
    out: list[str] = []
    if results is None or "outputs" not in results or "truth" not in results:
        return out
    z, truth = np.array(results["outputs"], float), np.array(results["truth"], float)
    if (ends := results.get("intervals")) is not None and results["task"] == "regression":
        at = dict(zip(ends["levels"], ends["covered"], strict=True))
        share = f"{100 * at[0.95]:.1f}% of {ends['rows']:,} rows held out" if 0.95 in at else "rows held out"
        svg = charts.coverage(f"{tag}-coverage", ends["levels"], ends["covered"])
        note = f"On the dashed line coverage is exact. 95% intervals covered {share}."
        out.append(page.chart(f"Coverage of intervals{of}", svg, note))
        lower, upper = np.array(ends["lower"]), np.array(ends["upper"])
        svg = charts.interval_chart(f"{tag}-intervals", truth, z[:, 0], lower, upper, run.config.target)
        note = f"Rows held out; 95% intervals, {number(ends['width'])} wide on average. Large dots lie outside."
        out.append(page.chart(f"Intervals{of}", svg, note))
    if (calibration := results.get("calibration")) is not None and results["task"] != "regression":
        lines = list(zip(("as trained", "corrected"), calibration["bins"], strict=True))
        svg = charts.reliability(f"{tag}-calibration", [line for line in lines if line[1]])
        before, after = calibration["error"]
        note = f"Rows held out. Calibration error {number(before)}, corrected {number(after)}"
        if None not in calibration["log_loss"]:
            note += f"; log loss {number(calibration['log_loss'][0])}, corrected {number(calibration['log_loss'][1])}"
        out.append(page.chart(f"Calibration{of}", svg, note + "."))
    return out


def _details(runs: list[Run]) -> list[str]:
    out = []
    for run in runs:
        config, env = run.config, run.environment
        packages = ", ".join(f"{name} {version}" for name, version in env["packages"].items() if version)
        penalty = " + ".join(
            f"{n}({v:g})"
            for n, v in (("L2", config.l2), ("L1", config.l1), ("Log", config.log), ("Group", config.group))
            if v
        )
        if run.path is not None:
            strength = run.path["strengths"][run.path["chosen"]]
            chosen = f"{run.path['penalty'].capitalize()}({strength:.3g}), chosen by held-out rows"
            penalty = f"{penalty} + {chosen}" if penalty else chosen
        hidden = "/".join(map(str, config.hidden)) or "none"
        used = [printable(c.name, LONGEST) for c in run.schema.used]
        shown = ", ".join(used[:40]) + (", …" if len(used) > 40 else "")
        out += [
            f"<h2>Settings{f' of {page.text(run.name)}' if len(runs) > 1 else ''}</h2>",
            page.facts(
                [
                    ("table", f"{Path(config.table).name}, {run.schema.rows:,} rows"),
                    ("columns used", shown),
                    ("target", printable(config.target, LONGEST)),
                    ("hidden layers", f"{hidden}, {config.activation}"),
                    ("penalty", penalty),
                    ("iterations, batch", f"{config.steps:,}, {config.batch_size}"),
                    (
                        "held out",
                        f"{100 * config.validation:g}% of the rows for validation, {100 * config.test:g}% for the test",
                    ),
                    ("seed", str(config.seed)),
                    ("versions", f"{packages}, Python {env['python']}"),
                    ("machine", f"{env['system']}, {env['cores']} cores, {', '.join(env['devices'])}"),
                ]
            ),
            "<h2>Again</h2>",
            page.command(env["command"]),
        ]
    return out

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
    first = runs[0]
    target = printable(first.config.target, LONGEST)
    title = f"Training for “{target}”" if len(runs) == 1 else f"{len(runs)} runs for “{target}”"
    legend = page.legend((r.name, i % 10, False) for i, r in enumerate(runs)) if len(runs) > 1 else ""
    return page.page(
        title,
        [
            f"<h1>{page.text(title)}</h1>",
            *(f'<p class="lead">{page.text(_headline(run, len(runs) > 1))}</p>' for run in runs),
            "<h2>On the way</h2>",
            legend,
            page.grid(_curves(runs)),
            *_paths(runs),
            "<h2>A closer look</h2>",
            page.grid(chart for i, run in enumerate(runs) for chart in _closer(run, i, len(runs) > 1)),
            *_details(runs),
            f"<footer>Made by scax {page.text(first.environment['packages'].get('scax') or '')}</footer>",
        ],
    )


def _headline(run: Run, several: bool) -> str:
    start = f"{run.name}: " if several else ""
    name, record = _score_name(run), run.records[-1]
    if run.results is None:
        return f"{start}not finished; step {record['step']:,} of {run.config.steps:,}."
    final, rows = run.results["final"], run.results["rows"]
    widths = "/".join(map(str, run.results["network"]))
    told = f"{start}A {widths} network after {run.config.steps:,} iterations on {rows['train']:,} rows"
    alike = name in final and final[name] is None and run.results["task"] == "binary"
    if name in final and not alike:
        told += f": {name} {number(final[name])} on {rows['validation']:,} rows held out to choose by"
    if run.results["kept"] == "best":
        loss = "the loss on rows to choose by" if alike else "their loss"
        told += f", at step {final['step']:,}, where {loss} was lowest"
    if alike:
        told += f"; the {rows['validation']:,} rows to choose by are of one class, so there is no {name}"
    if (left := run.results.get("sparsity")) and left["weights"] < run.results["weights"]:
        told += f"; {left['weights']:,} of {run.results['weights']:,} weights are in use"
    if (test := run.results.get("test")) is not None:
        parts = (f"{key} {number(value)}" for key, value in test.items() if isinstance(value, int | float))
        told += f". On {rows.get('test', 0):,} rows that nothing was chosen by: {', '.join(parts)}"
    return told + "."


def _score_name(run: Run) -> str:
    return next((n for n in ("RMSE", "AUC", "accuracy") if n in run.records[0]), "")


def _curves(runs: list[Run]) -> list[str]:
    out = []
    shown = [("objective", "objective"), ("validation_loss", "loss on rows held out")]
    score = _score_name(runs[0])
    if score:
        shown.append((score, f"{score} on rows held out"))
    shown += [("weights_kept", "weights in use"), ("neurons_kept", "hidden neurons in use")]
    for key, label in shown:
        for axis, over in (("step", "iterations"), ("seconds", "seconds")):
            lines = []
            for i, run in enumerate(runs):
                x, y = _with_the_end(run, key, _column(run, axis), _column(run, key))
                if np.isfinite(y).any():
                    lines.append(charts.Curve(run.name, np.maximum(x, 1e-6), y[None], i % 10, len(runs) == 1))
            if lines and (axis == "step" or key in ("objective", score)):
                name = f"{key.replace('_', '-')}-{axis}"
                svg = charts.curves(name, lines, over, label, counts=key.endswith("_kept"))
                out.append(page.chart(f"{label[0].upper()}{label[1:]} against {over}", svg))
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
        kept, loss, error = (np.array(path[name], float) for name in (what, "loss", "error"))
        label = "hidden neurons in use" if what == "neurons" else "weights in use"
        svg = charts.kept(f"run{i}-path", kept, loss, error, path["best"], path["chosen"], label)
        note = (
            "Rows set aside from the training rows; one point per strength. Ring: the least loss. Filled: the chosen "
            f"strength, {path['strengths'][path['chosen']]:.2g}, the strongest within one standard error (bar) of that."
        )
        out.append(page.chart(f"Loss against {what} kept{of}", svg, note))
        stayed = np.array([np.isin(np.arange(len(path["names"])), row) for row in path["inputs"]])
        shown = np.argsort(-stayed.sum(axis=0), kind="stable")[:MOST_INPUTS]
        names = [path["names"][j] for j in shown]
        svg = charts.survivors(f"run{i}-inputs", names, stayed[:, shown], path["strengths"], path["chosen"])
        less = len(path["names"]) - len(shown)
        note = "A square: the input is used at this strength. Between the lines: the chosen one."
        note += f" {less} inputs that leave sooner are not shown." if less else ""
        out.append(page.chart(f"Inputs that stay{of}", svg, note))
    return ["<h2>How strong</h2>", page.grid(out)] if out else []


def _closer(run: Run, number: int, several: bool) -> list[str]:
    out, tag, of = [], f"run{number}", f", {run.name}" if several else ""
    found = run.results
    if found is not None and "outputs" in found and "truth" in found:
        z, truth = np.array(found["outputs"], float), np.array(found["truth"], float)
        if found["task"] == "regression":
            svg = charts.scatter(f"{tag}-predicted", truth, z[:, 0], run.config.target)
            note = "Rows held out. On the dashed line a prediction is exact."
            out.append(page.chart(f"Predicted against true{of}", svg, note))
        elif one_class(found["task"], truth):
            pass  # no curve
        elif found["task"] == "binary":
            svg = charts.roc_chart(f"{tag}-roc", [(run.name, z[:, 0], truth, number % 10, True)])
            out.append(page.chart(f"ROC curve{of}", svg, "Rows held out."))
        else:
            classes = [str(c) for c in run.schema.target.classes]
            svg = charts.confusion(f"{tag}-confusion", truth, np.argmax(z, axis=1), classes)
            out.append(page.chart(f"Confusion matrix{of}", svg, "Rows held out; shade: share of the true class."))
    out += _uncertainty(run, tag, of)
    if found is not None and (rises := found.get("importance", [])[:MOST_INPUTS]):
        error = "log loss" if found["task"] != "regression" else "RMSE"
        svg = charts.bars(
            f"{tag}-importance", [(each["column"], each["rise"]) for each in rises], f"rise of the {error}"
        )
        note = "Rows held out, a column's values shuffled among them. Of two columns that say the same, one stands in."
        out.append(page.chart(f"Columns that matter{of}", svg, note))
    steps, tau, taken = (_column(run, name) for name in ("step", "damping", "accepted"))
    svg = charts.damping(f"{tag}-damping", steps, tau[None], taken[None])
    note = "SCA’s damping looks after itself; a step that would do harm is not taken."
    out.append(page.chart(f"Damping and acceptance{of}", svg, note))
    return out


def _uncertainty(run: Run, tag: str, of: str) -> list[str]:
    """How intervals, or probabilities, did on rows held out."""
    found = run.results
    out: list[str] = []
    if found is None or "outputs" not in found or "truth" not in found:
        return out
    z, truth = np.array(found["outputs"], float), np.array(found["truth"], float)
    if (ends := found.get("intervals")) is not None and found["task"] == "regression":
        at = dict(zip(ends["levels"], ends["covered"], strict=True))
        share = f"{100 * at[0.95]:.1f}% of {ends['rows']:,} rows held out" if 0.95 in at else "rows held out"
        svg = charts.coverage(f"{tag}-coverage", ends["levels"], ends["covered"])
        note = f"On the dashed line intervals keep what they promise. Those of 95% covered {share}."
        out.append(page.chart(f"Coverage of intervals{of}", svg, note))
        lower, upper = np.array(ends["lower"]), np.array(ends["upper"])
        svg = charts.interval_chart(f"{tag}-intervals", truth, z[:, 0], lower, upper, run.config.target)
        note = f"Rows held out; 95% intervals, {number(ends['width'])} wide on average. Orange: outside."
        out.append(page.chart(f"Intervals{of}", svg, note))
    if (known := found.get("calibration")) is not None and found["task"] != "regression":
        lines = list(zip(("as trained", "corrected"), known["bins"], strict=True))
        svg = charts.reliability(f"{tag}-calibration", [line for line in lines if line[1]])
        before, after = known["error"]
        note = f"Rows held out. Calibration error {number(before)}, corrected {number(after)}"
        if None not in known["log_loss"]:
            note += f"; log loss {number(known['log_loss'][0])}, corrected {number(known['log_loss'][1])}"
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
            found = f"{run.path['penalty'].capitalize()}({run.path['strengths'][run.path['chosen']]:.3g}), found"
            penalty = f"{penalty} + {found}" if penalty else found
        hidden = "/".join(map(str, config.hidden)) or "none"
        used = [c.name for c in run.schema.used]
        shown = ", ".join(used[:40]) + (", …" if len(used) > 40 else "")
        out += [
            f"<h2>Settings{f' of {page.text(run.name)}' if len(runs) > 1 else ''}</h2>",
            page.facts(
                [
                    ("table", f"{Path(config.table).name}, {run.schema.rows:,} rows"),
                    ("columns used", shown),
                    ("target", config.target),
                    ("hidden layers", f"{hidden}, {config.activation}"),
                    ("penalty", penalty),
                    ("iterations, batch", f"{config.steps:,}, {config.batch_size}"),
                    (
                        "held out",
                        f"{100 * config.validation:g}% of the rows to choose by, {100 * config.test:g}% to score on",
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

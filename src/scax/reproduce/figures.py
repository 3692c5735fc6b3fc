"""The paper's figures, from the results file alone: SVG text, one drawing per name."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from ..report.charts import Ticks
from ..report.picture import standalone
from ..report.svg import FAINT, SERIES, figure, styled, to_svg
from .configs import LABELS
from .page_table2 import baselines
from .statistics import numbers

COLORS = {
    "sgd": 1, "adagrad": 2, "rmsprop": 4, "adam": 5, "sca": 0, "sca-damped": 3, "sca-paper": 7,
    "sca-1": 0, "sca-4": 3, "sca-16": 6, "sca-64": 8,
}  # fmt: skip


def figures(results: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, SVG) of every figure the results have data for."""
    for steps, study in results.get("table2", {}).items():
        yield f"convergence-{steps}", convergence(study, "paper", ("sca-damped",))
        yield f"convergence-{steps}-tuned", convergence(study, "tuned", ())
        yield f"divergence-{steps}", divergence(study)
    if "susy" in results:
        yield "susy-convergence", susy_convergence(results["susy"])
        yield "susy-roc", susy_roc(results["susy"])
    if "speedup" in results:
        yield "speedup", speedup(results["speedup"])


def convergence(study: dict[str, Any], kind: str, variants: tuple[str, ...]) -> str:
    """Objective against iterations on each data set, mean ± one standard deviation over repetitions."""
    names = [f"{name}-{kind}" for name in baselines(study)] + [*variants, "sca"]
    with styled():
        fig = figure(9, 6.2)
        axes = fig.subplots(2, 2).ravel()
        for ax, (label, row) in zip(axes, study["rows"].items(), strict=False):
            for name in names:
                method = row["methods"][name]
                draw(ax, method["curve"], name.removesuffix(f"-{kind}"), _legend(name, kind), strong=name == "sca")
            ax.set_ylim(*_range([numbers(row["methods"][n]["curve"]["mean"]) for n in names]))
            ax.set_title(label, fontsize=10)
        for ax in axes[2:]:
            ax.set_xlabel("iteration")
        for ax in axes[::2]:
            ax.set_ylabel("objective on training rows")
        _legend_above(fig, axes[0], 3)
        return standalone(to_svg(fig, f"convergence-{kind}"))


def divergence(study: dict[str, Any]) -> str:
    """The three ways to run SCA, on a logarithmic axis: the paper's settings leave every other picture."""
    with styled():
        fig = figure(9, 2.7)
        axes = fig.subplots(1, len(study["rows"]), squeeze=False, sharey=True)[0]
        for ax, (label, row) in zip(axes, study["rows"].items(), strict=True):
            for name in ("sca-paper", "sca-damped", "sca"):
                draw(ax, row["methods"][name]["curve"], name, _legend(name, "paper"), name == "sca", band=False)
            ax.set_yscale("log")
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
            ax.yaxis.set_minor_formatter(NullFormatter())
            ax.set_title(label, fontsize=10)
            ax.set_xlabel("iteration")
        axes[0].set_ylabel("objective")
        _legend_above(fig, axes[0], 3)
        return standalone(to_svg(fig, "divergence"))


def draw(ax, curve: dict[str, Any], key: str, label: str, strong: bool, band: bool = True) -> None:
    """A mean with its band, from iteration 1 on."""
    x, mean, sd = (numbers(curve[k])[1:] for k in ("iterations", "mean", "sd"))
    color = SERIES[COLORS[key]]
    if band:
        ax.fill_between(x, mean - sd, mean + sd, color=color, alpha=0.2 if strong else 0.09, linewidth=0)
    ax.plot(x, mean, color=color, linewidth=2.4 if strong else 1.3, label=label, zorder=3 if strong else 2)
    ax.set_xscale("log")
    ax.set_xlim(1, x[-1])
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    ax.xaxis.set_major_formatter(Ticks())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter(Ticks())


def susy_convergence(study: dict[str, Any]) -> str:
    """Objective against iterations on each of the problems."""
    with styled():
        fig = figure(9, 3.6)
        axes = fig.subplots(1, len(study["problems"]), squeeze=False)[0]
        for ax, problem in zip(axes, study["problems"].values(), strict=True):
            methods = _drawn(problem["methods"])
            for name, method in methods.items():
                draw(ax, method["curve"], name.removesuffix("-tuned"), method["label"], strong=name == "sca-1")
            ax.set_ylim(*_range([numbers(m["curve"]["mean"]) for m in methods.values()]))
            ax.set_title(problem["about"], fontsize=10)
            ax.set_xlabel("iteration")
        axes[0].set_ylabel("objective on training rows")
        _legend_above(fig, axes[0], 4)
        return standalone(to_svg(fig, "susy-convergence"))


def _drawn(methods: dict[str, Any]) -> dict[str, Any]:
    """Those with a color of their own: of random blocks the table tells."""
    return {name: method for name, method in methods.items() if name.removesuffix("-tuned") in COLORS}


def susy_roc(study: dict[str, Any]) -> str:
    """ROC curves, averaged over repetitions at fixed false positive rates."""
    with styled():
        fig = figure(9, 4.4)
        axes = fig.subplots(1, len(study["problems"]), squeeze=False)[0]
        for ax, problem in zip(axes, study["problems"].values(), strict=True):
            ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
            for name, method in _drawn(problem["methods"]).items():
                values = numbers(method["roc"])
                strong = name == "sca-1"
                color = SERIES[COLORS[name.removesuffix("-tuned")]]
                width, dashes = 2.4 if strong else 1.3, (0, (4, 2)) if name in {"sca-4", "sca-16", "sca-64"} else "-"
                x = np.linspace(0, 1, len(values))
                ax.plot(x, values, color=color, linewidth=width, linestyle=dashes, label=method["label"])
            ax.set_title(problem["about"], fontsize=10)
            ax.set_xlabel("false positive rate")
        axes[0].set_ylabel("true positive rate")
        _legend_above(fig, axes[0], 4)
        return standalone(to_svg(fig, "susy-roc"))


def speedup(study: dict[str, Any]) -> str:
    """Seconds of an iteration against the number of blocks, and speed-up over one block."""
    blocks = np.array(study["blocks"])
    whole, unit = numbers(study["processor"]), numbers(study["unit"])
    labels = {"sample-space": "sample space, no blocks", "structured": "structured, no blocks", "adam": "Adam"}
    styles = {"sample-space": (2, "--"), "structured": (0, "-"), "adam": (5, ":")}
    with styled():
        fig = figure(9, 3.8)
        left, right = fig.subplots(1, 2)
        for ax, turn in ((left, lambda s: s), (right, lambda s: unit[0] / s)):
            ax.loglog(blocks, turn(unit), color=SERIES[3], marker="o", ms=4, label="weight space, one of C units")
            ax.loglog(blocks, turn(whole), color=SERIES[1], marker="s", ms=4, label="weight space, all C blocks")
            for name, value in study["lines"].items():
                color, dashes = styles[name]
                ax.axhline(turn(value), color=SERIES[color], linestyle=dashes, label=labels[name])
            ax.set_xlabel("C, blocks")
            ax.set_xticks(blocks, [str(c) for c in blocks])
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.yaxis.set_major_formatter(Ticks())
        left.set_ylabel("processor seconds per iteration")
        right.set_ylabel(f"speed-up over C = {blocks[0]}")
        _legend_above(fig, left, 3)
        return standalone(to_svg(fig, "speedup"))


def _legend(name: str, kind: str) -> str:
    if name == "sca":
        return "SCA, our defaults"
    if name == "sca-damped":
        return "SCA, the paper's but τ = .1, ρ = .9"
    if name == "sca-paper":
        return "SCA, the paper's (τ = 0)"
    stem = name.removesuffix(f"-{kind}")
    return f"{LABELS[stem]}, {'tuned' if kind == 'tuned' else 'the paper’s'}"


def _range(means: list[np.ndarray]) -> tuple[float, float]:
    """From the lowest value to where the middle of the curves starts: what goes on above is not of interest."""
    low = min(float(np.nanmin(m)) for m in means)
    high = float(np.nanmedian([m[len(m) // 4] for m in means]))
    return low - 0.05 * (high - low), high + 0.4 * (high - low)


def _legend_above(fig, ax, columns: int) -> None:
    handles, labels = ax.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: labels[i] != "SCA, our defaults")
    fig.legend([handles[i] for i in order], [labels[i] for i in order], loc="outside upper left", ncols=columns)

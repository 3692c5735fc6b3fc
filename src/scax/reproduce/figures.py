"""The paper's figures, from the results file alone: SVG text, one drawing per name."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ..report.charts import short
from ..report.picture import standalone
from ..report.svg import SERIES, figure, styled, to_svg
from .configs import LABELS, PAPER_SETTINGS
from .statistics import numbers

COLORS = {"sgd": 1, "adagrad": 2, "rmsprop": 4, "adam": 5, "sca": 0, "sca-damped": 3, "sca-paper": 7}


def figures(results: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, SVG) of every figure the results have data for."""
    for steps, found in results.get("table2", {}).items():
        yield f"convergence-{steps}", convergence(found, "paper", ("sca-paper", "sca-damped"))
        yield f"convergence-{steps}-tuned", convergence(found, "tuned", ())


def convergence(found: dict[str, Any], kind: str, variants: tuple[str, ...]) -> str:
    """Objective against iterations on each data set, mean ± one standard deviation over repetitions."""
    names = [f"{name}-{kind}" for name in PAPER_SETTINGS] + [*variants, "sca"]
    with styled():
        fig = figure(9, 6.2)
        axes = fig.subplots(2, 2).ravel()
        for ax, (label, row) in zip(axes, found["rows"].items(), strict=False):
            for name in names:
                method = row["methods"][name]
                draw(ax, method["curve"], name.removesuffix(f"-{kind}"), _legend(name, kind), strong=name == "sca")
            last = [row["methods"][n]["curve"]["mean"] for n in names if n != "sca-paper"]
            ax.set_ylim(*_range([numbers(values) for values in last]))
            ax.set_title(label, fontsize=10)
        for ax in axes[2:]:
            ax.set_xlabel("iteration")
        for ax in axes[::2]:
            ax.set_ylabel("objective on training rows")
        _legend_above(fig, axes[0], 4)
        return standalone(to_svg(fig, f"convergence-{kind}"))


def draw(ax, curve: dict[str, Any], key: str, label: str, strong: bool) -> None:
    """A mean with its band, from iteration 1 on."""
    x, mean, sd = (numbers(curve[k])[1:] for k in ("iterations", "mean", "sd"))
    color = SERIES[COLORS[key]]
    ax.fill_between(x, mean - sd, mean + sd, color=color, alpha=0.2 if strong else 0.09, linewidth=0)
    ax.plot(x, mean, color=color, linewidth=2.4 if strong else 1.3, label=label, zorder=3 if strong else 2)
    ax.set_xscale("log")
    ax.set_xlim(1, x[-1])
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    ax.xaxis.set_major_formatter(FuncFormatter(short))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter(FuncFormatter(short))


def _legend(name: str, kind: str) -> str:
    if name == "sca":
        return "SCA, our defaults"
    if name == "sca-damped":
        return "SCA, the paper's but τ = .1, ρ = .9"
    if name == "sca-paper":
        return "SCA, the paper's (leaves the picture)"
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

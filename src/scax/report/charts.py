"""The charts of a report."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._extras import required_by
from .._text import printable
from ..training.scores import roc
from .numbers import short, ticks
from .svg import DASHES, FAINT, GRID, INK, SERIES, SHADES, figure, styled, to_svg

with required_by("A report"):
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import Formatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

MOST_CLASSES = 20  # named, and their counts written, in a confusion matrix
MOST_CELLS = 2500  # of a confusion matrix that are drawn where they are empty
LONGEST = 18  # characters of a name


class Curve(NamedTuple):
    """One line: values [repeats, records] over x [records]; color is its place in the page's palette."""

    label: str
    x: np.ndarray
    values: np.ndarray
    color: int
    strong: bool = False


def curves(
    name: str,
    lines: Sequence[Curve],
    xlabel: str,
    ylabel: str,
    *,
    wild_start: bool = False,
    counts: bool = False,
    best_step: float | None = None,
) -> str:
    """Mean over repeats with a band of one standard deviation; a logarithmic y axis where values span a wide range.

    `wild_start` lets the first iterations leave the picture: what follows decides its range. `counts` are whole numbers
    on an axis from zero. A dashed line marks the `best_step`.
    """
    with styled():
        fig = figure()
        ax = fig.add_subplot()
        draw_curves(ax, lines, xlabel, ylabel, wild_start, counts)
        if best_step is not None:
            ax.axvline(best_step, color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        if len(lines) > 1 and len({line.label for line in lines}) == len(lines) and best_step is not None:
            ax.legend(loc="best", fontsize=8)
        return to_svg(fig, name)


def draw_curves(ax, lines: Sequence[Curve], xlabel: str, ylabel: str, wild_start: bool, counts: bool = False) -> None:
    low, high = np.inf, -np.inf
    for line in sorted(lines, key=lambda c: c.strong):
        values = np.ma.masked_invalid(line.values)
        mean, sd = values.mean(axis=0), values.std(axis=0)
        color, width, veil = SERIES[line.color], 2.4 if line.strong else 1.3, 0.2 if line.strong else 0.07
        if line.values.shape[0] > 1:
            ax.fill_between(line.x, mean - sd, mean + sd, color=color, alpha=veil, linewidth=0)
        dashes = (0, DASHES[line.color % len(DASHES)]) if line.color else "-"
        order = 3 if line.strong else 2
        ax.plot(line.x, mean, color=color, linewidth=width, linestyle=dashes, label=line.label, zorder=order)
        if mean.count():
            visible = mean[len(mean) // 12 :].compressed() if wild_start and len(mean) > 12 else mean.compressed()
            top = np.quantile(visible, 0.98) if wild_start else visible.max()
            low, high = min(low, float(mean.min())), max(high, float(top))
    ax.set_xscale("log")
    left, right = ax.get_xlim()
    # within a decade or so the powers of ten alone would leave the axis without a number
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if right / left < 30 else (1,), numticks=6))
    _y_axis(ax, low, high, log="objective" in ylabel or "loss" in ylabel)
    if counts:
        ax.set_ylim(0, 1.06 * max(high, 1))
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.xaxis.set_major_formatter(Ticks())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(printable(xlabel, 4 * LONGEST))
    ax.set_ylabel(printable(ylabel, 4 * LONGEST))


def _y_axis(ax, low: float, high: float, log: bool) -> None:
    if not np.isfinite([low, high]).all() or high <= low:
        return
    if log and low > 0 and high / low > 3:
        ax.set_yscale("log")
        ax.set_ylim(low / 1.08, high * 1.15)
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 100 else (1,), numticks=12))
    else:
        margin = 0.06 * (high - low)
        ax.set_ylim(low - margin, high + margin)
        ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter(Ticks())
    ax.yaxis.set_minor_formatter(NullFormatter())


def damping(name: str, steps: np.ndarray, tau: np.ndarray, accepted: np.ndarray) -> str:
    """The damping τ and the share of steps taken, one above the other."""
    with styled():
        fig = figure()
        above, below = fig.subplots(2, 1, sharex=True)
        for ax, values, label in ((above, tau, "damping τ"), (below, accepted, "steps taken")):
            values = np.ma.masked_invalid(values)
            for repeat in values:
                ax.plot(steps, repeat, color=SERIES[0], alpha=0.35, linewidth=1)
            ax.plot(steps, values.mean(axis=0), color=SERIES[0], linewidth=2)
            ax.set_ylabel(label)
            ax.set_xscale("log")
        above.set_yscale("log")
        positive = tau[np.isfinite(tau) & (tau > 0)]
        if len(positive):
            floor = float(positive.min())
            above.set_ylim(floor / 2, max(float(positive.max()) * 2, floor * 20))
        above.yaxis.set_major_locator(LogLocator(numticks=4))
        above.yaxis.set_major_formatter(Ticks())
        above.yaxis.set_minor_formatter(NullFormatter())
        below.set_ylim(-0.05, 1.08)
        below.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f}%"))
        below.xaxis.set_major_formatter(Ticks())
        below.xaxis.set_minor_formatter(NullFormatter())
        below.set_xlabel("step")
        return to_svg(fig, name)


def path(name: str, count: np.ndarray, loss: np.ndarray, error: np.ndarray, best: int, chosen: int, label: str) -> str:
    """Loss against the size of the network along a path of strengths; the best with a ring, the chosen one filled."""
    with styled():
        fig = figure()
        ax = fig.add_subplot()
        ax.errorbar(count, loss, yerr=error, color=SERIES[0], linewidth=1.3, elinewidth=1, marker="o", markersize=3.5)
        ax.plot(count[best], loss[best], "o", markersize=10, markerfacecolor="none", markeredgecolor=SERIES[0])
        ax.plot(count[chosen], loss[chosen], "o", markersize=9, color=SERIES[1], zorder=4)
        ax.axvline(count[chosen], color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        ax.set_xlim(left=0)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(5))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(Ticks())
        ax.set_xlabel(label)
        ax.set_ylabel("loss on held-out rows")
        return to_svg(fig, name)


def survivors(name: str, inputs: Sequence[str], stayed: np.ndarray, strengths: Sequence[float], chosen: int) -> str:
    """One row per input, one column per strength, a square where the input is used."""
    with styled({"axes.grid": False}):
        fig = figure(4.5, max(1.6, 0.9 + 0.17 * len(inputs)))
        ax = fig.add_subplot()
        for i, j in zip(*np.nonzero(stayed.T), strict=True):
            ax.add_patch(_square(float(j), float(i), SERIES[1] if j == chosen else SERIES[0]))
        for edge in (chosen - 0.5, chosen + 0.5):
            ax.axvline(edge, color=INK, linewidth=1)
        cut = [printable(text, LONGEST) for text in inputs]
        ax.set_yticks(range(len(inputs)), cut, fontsize=8)
        places = range(0, len(strengths), max(1, len(strengths) // 5))
        ax.set_xticks(places, [short(float(f"{strengths[j]:.1g}")) for j in places])
        ax.set_xlim(-0.6, len(strengths) - 0.4)
        ax.set_ylim(len(inputs) - 0.5, -0.5)
        ax.tick_params(length=0)
        ax.set_xlabel("strength")
        return to_svg(fig, name)


def bars(name: str, values: Sequence[tuple[str, float]], label: str) -> str:
    """One horizontal bar per (name, value), the first on top."""
    with styled({"axes.grid": False}):
        fig = figure(4.5, max(1.6, 0.5 + 0.2 * len(values)))
        ax = fig.add_subplot()
        ax.barh(range(len(values)), [value for _, value in values], color=SERIES[0], height=0.7)
        ax.set_yticks(range(len(values)), [printable(each, LONGEST) for each, _ in values], fontsize=8)
        ax.set_ylim(len(values) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(label)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.xaxis.set_major_formatter(Ticks())
        return to_svg(fig, name)


def scatter(name: str, truth: np.ndarray, prediction: np.ndarray, unit: str) -> str:
    """Predicted against true, with the diagonal."""
    with styled():
        fig = figure()
        ax = fig.add_subplot()
        low, high = float(min(truth.min(), prediction.min())), float(max(truth.max(), prediction.max()))
        ax.plot([low, high], [low, high], color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        ax.scatter(truth, prediction, s=9, color=SERIES[0], alpha=0.55, linewidths=0)
        ax.set_xlabel(f"true {printable(unit, 2 * LONGEST)}")
        ax.set_ylabel(f"predicted {printable(unit, 2 * LONGEST)}")
        _plain_axes(ax)
        return to_svg(fig, name)


def coverage(name: str, levels: Sequence[float], covered: Sequence[float]) -> str:
    """The share of rows that intervals covered against the nominal one."""
    with styled():
        fig = figure()
        ax = fig.add_subplot()
        ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        ax.plot(levels, covered, color=SERIES[0], linewidth=2.4, marker="o", markersize=4)
        ax.set_xlabel("nominal coverage")
        ax.set_ylabel("coverage")
        return to_svg(fig, name)


def interval_chart(
    name: str, truth: np.ndarray, center: np.ndarray, lower: np.ndarray, upper: np.ndarray, unit: str, rows: int = 60
) -> str:
    """Intervals of some rows in the order of their predictions, and the true values among them."""
    order = np.argsort(center, kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, min(rows, len(order))).astype(int))]
    truth, center, lower, upper = (part[order] for part in (truth, center, lower, upper))
    place, outside = np.arange(len(order)), (truth < lower) | (truth > upper)
    with styled():
        fig = figure()
        ax = fig.add_subplot()
        ax.vlines(place, lower, upper, color=SERIES[0], alpha=0.35, linewidth=2.4)
        ax.plot(place, center, color=SERIES[0], linewidth=1.3)
        ax.scatter(place, truth, s=np.where(outside, 22, 9), color=[SERIES[1] if o else INK for o in outside], zorder=3)
        ax.set_xticks([])
        ax.set_xlabel("rows, by their prediction")
        ax.set_ylabel(printable(unit, 2 * LONGEST))
        ax.yaxis.set_major_locator(MaxNLocator(6))
        ax.yaxis.set_major_formatter(Ticks())
        return to_svg(fig, name)


def reliability(name: str, lines: Sequence[tuple[str, Sequence[Sequence[float]]]]) -> str:
    """The share of rows predicted right against the confidence, for bins (confidence, share, rows) of each line."""
    with styled():
        fig = figure()
        ax = fig.add_subplot()
        ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        for i, (label, bins) in enumerate(lines):
            confidence, share, _ = np.array(bins).T
            ax.plot(
                confidence, share, color=SERIES[i], linewidth=2.4 if i else 1.3, marker="o", markersize=4, label=label
            )
        ax.set_xlabel("probability of the predicted class")
        ax.set_ylabel("share of right predictions")
        ax.legend(loc="upper left")
        return to_svg(fig, name)


def residuals(name: str, truth: np.ndarray, prediction: np.ndarray, unit: str) -> str:
    """True minus predicted, against predicted, with the line of no error."""
    with styled():
        fig = figure()
        ax = fig.add_subplot()
        ax.axhline(0, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        ax.scatter(prediction, truth - prediction, s=9, color=SERIES[0], alpha=0.55, linewidths=0)
        ax.set_xlabel(f"predicted {printable(unit, 2 * LONGEST)}")
        ax.set_ylabel("true − predicted")
        _plain_axes(ax)
        return to_svg(fig, name)


def roc_chart(name: str, lines: Sequence[tuple[str, np.ndarray, np.ndarray, int, bool]]) -> str:
    """ROC curves: (label, outputs, truth, color, strong)."""
    with styled():
        fig = figure()
        ax = fig.add_subplot()
        ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        for _, z, y, color, strong in sorted(lines, key=lambda line: line[4]):
            ax.step(*roc(z, y), where="post", color=SERIES[color], linewidth=2.4 if strong else 1.2)
        ax.set_xlabel("false positive rate")
        ax.set_ylabel("true positive rate")
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        return to_svg(fig, name)


def confusion(name: str, truth: np.ndarray, prediction: np.ndarray, classes: Sequence[str]) -> str:
    """Counts of true class (rows) by predicted class (columns), shaded by the share of the row."""
    k = len(classes)
    counts = np.zeros((k, k), int)
    np.add.at(counts, (truth.astype(int), prediction.astype(int)), 1)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with styled({"axes.grid": False}):
        fig = figure(4.5, 3.4)
        ax = fig.add_subplot()
        size = 9 if k <= 6 else 7 if k <= 12 else 5
        for i, j in zip(*np.nonzero(counts > (0 if k * k > MOST_CELLS else -1)), strict=True):
            shade = round(10 * float(share[i, j]))
            ax.add_patch(_square(float(j), float(i), SHADES[shade]))
            if counts[i, j] and k <= MOST_CLASSES:
                color = "#ffffff" if shade >= 6 else INK
                ax.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=size, color=color)
        ax.set_xlim(-0.5, k - 0.5)
        ax.set_ylim(k - 0.5, -0.5)
        ax.set_aspect("equal")
        named = range(0, k, -(-k // MOST_CLASSES))
        names = [printable(classes[i], LONGEST) for i in named]
        flat = k <= 4 or max(map(len, names)) < 3
        ax.set_xticks(named, names, fontsize=size, rotation=0 if flat else 45 if k <= 12 else 90)
        ax.set_yticks(named, names, fontsize=size)
        ax.tick_params(length=0)
        ax.set_xlabel("predicted")
        ax.set_ylabel("true")
        return to_svg(fig, name)


def _plain_axes(ax) -> None:
    """Numbers along both axes, few enough across that long ones do not meet."""
    for axis, most in ((ax.xaxis, 4), (ax.yaxis, 6)):
        axis.set_major_locator(MaxNLocator(most))
        axis.set_major_formatter(Ticks())


def _square(x: float, y: float, color: str):
    return Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor=GRID, linewidth=0.5)


class Ticks(Formatter):
    """The labels of an axis, chosen together."""

    def format_ticks(self, values) -> list[str]:
        assert self.axis is not None
        low, high = sorted(self.axis.get_view_interval())
        seen = [low <= v <= high for v in values]  # a locator also names places beyond both ends
        labels = iter(ticks([float(v) for v, inside in zip(values, seen, strict=True) if inside]))
        return [next(labels) if inside else "" for inside in seen]

    def __call__(self, x, pos=None) -> str:
        return short(x)

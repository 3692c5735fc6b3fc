"""A matplotlib figure as inline SVG that follows the page's colors, in light and in dark."""

import io
import re
import warnings
from collections.abc import Callable
from typing import Any, cast

from .._extras import required_by

with required_by("A report"):
    import matplotlib

    matplotlib.use("Agg")

    from matplotlib.figure import Figure

# Colors are placeholders: each is replaced by a CSS variable of the page. Their digits mean nothing.
INK, GRID, FAINT = "#010203", "#010204", "#010205"
SERIES = tuple(f"#0203{i:02x}" for i in range(10))
#: on and off, in points; none for the first, which is whole
DASHES = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2), (9, 3), (3, 1.5, 1, 1.5, 1, 1.5), (2, 4), (7, 1.5), (4, 4), (1, 3))
SHADES = tuple(f"#0204{i:02x}" for i in range(11))

_VARIABLES = {INK: "--ink", GRID: "--line", FAINT: "--soft"}
_VARIABLES |= {color: f"--s{i}" for i, color in enumerate(SERIES)}
_VARIABLES |= {color: f"--h{i}" for i, color in enumerate(SHADES)}

STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "text.parse_math": False,  # a $ in a name is a $
    "text.usetex": False,
}


def styled(more: dict[str, Any] | None = None):
    """A context with the page's style."""
    return matplotlib.rc_context(cast(Any, STYLE | (more or {})))


def figure(width: float = 4.5, height: float = 2.9) -> Figure:
    """An empty figure of the page's size; matplotlib's global state is left alone."""
    return Figure(figsize=(width, height), layout="constrained")


def to_svg(fig: Figure, name: str, math: bool = False) -> str:
    """The figure as an <svg> element; `name` keeps the ids of several charts on a page apart. `math`: what stands
    between two $ is a formula, as in matplotlib's own labels of powers of ten."""
    text = io.StringIO()
    with styled({"svg.hashsalt": name, "text.parse_math": math}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # of a script that the fonts here lack: the browser has others
        fig.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", svg, flags=re.S)
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg ", '<svg aria-hidden="true" ', 1)
    used = set(re.findall(r"(?:#|url\(#)([\w-]+)", "".join(_TAG.findall(svg))))
    svg = in_tags(svg, lambda tag: _adapt(tag, name, used))
    return re.sub(r"\n\s*", "\n", svg)


_TAG = re.compile(r"<[^>]*>")  # matplotlib writes no > within a tag


def in_tags(svg: str, change: Callable[[str], str]) -> str:
    """Change the tags alone: what stands between them are names, which may look like anything."""
    return _TAG.sub(lambda m: change(m[0]), svg)


def _adapt(tag: str, name: str, used: set[str]) -> str:
    """Colors as variables, ids with the chart's name before them where they are referred to, the page's own font."""
    for color, variable in _VARIABLES.items():
        tag = tag.replace(color, f"var({variable})")
    tag = re.sub(r' id="([\w.-]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", tag)
    tag = re.sub(r'(href="#|url\(#)([\w-]+)', rf"\1{name}-\2", tag)
    # matplotlib names the fonts of its own machine: up to 3.10 beside the size, then apart
    return re.sub(r"font: (\S+) [^;\"]*", r"font-size: \1", re.sub(r"(; ?)?font-family: [^;\"]*", "", tag))

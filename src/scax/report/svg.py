"""A matplotlib figure as inline SVG that follows the page's colors, in light and in dark."""

import io
import re
from typing import Any, cast

from .._extras import required_by

with required_by("A report"):
    import matplotlib

    matplotlib.use("Agg")

    from matplotlib.figure import Figure

# Colors are placeholders: each is replaced by a CSS variable of the page. Their digits mean nothing.
INK, GRID, FAINT = "#010203", "#010204", "#010205"
SERIES = tuple(f"#0203{i:02x}" for i in range(10))
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
    "mathtext.default": "regular",
}


def styled(more: dict[str, Any] | None = None):
    """A context with the page's style."""
    return matplotlib.rc_context(cast(Any, STYLE | (more or {})))


def figure(width: float = 4.5, height: float = 2.9) -> Figure:
    """An empty figure of the page's size; matplotlib's global state is left alone."""
    return Figure(figsize=(width, height), layout="constrained")


def to_svg(fig: Figure, name: str) -> str:
    """The figure as an <svg> element; `name` keeps the ids of several charts on a page apart."""
    text = io.StringIO()
    with styled({"svg.hashsalt": name}):
        fig.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg ", '<svg aria-hidden="true" ', 1)
    for color, variable in _VARIABLES.items():
        svg = svg.replace(color, f"var({variable})")
    used = set(re.findall(r"(?:#|url\(#)([\w-]+)", svg))
    svg = re.sub(r' id="([\w.-]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'(href="#|url\(#)([\w-]+)', rf"\1{name}-\2", svg)
    # matplotlib names the fonts of its own machine; the page's own font is meant
    svg = re.sub(r"font: (\S+) [^;\"]*", r"font-size: \1", svg)
    return re.sub(r"\n\s*", "\n", svg)

"""One picture of a comparison, for a page that is not ours: an SVG file with colors of its own."""

import re
from importlib import resources

import numpy as np

from .._text import printable
from ..storage.run_files import Comparison
from .charts import LONGEST, Curve, draw_curves
from .summary import rows
from .svg import figure, in_tags, styled, to_svg


def picture(results: Comparison) -> str:
    """Objective against iterations and against seconds, side by side."""
    table, ends = rows(results), np.array(results["ends"], float)
    with styled({"font.size": 9}):
        fig = figure(9, 3.4)
        axes = fig.subplots(1, 2, sharey=True)
        for ax, axis in zip(axes, ("iterations", "seconds"), strict=True):
            lines, color = [], 0
            for row in table:
                method, strong = results["methods"][row.name], row.name == "sca"
                color += not strong
                x = ends if axis == "iterations" else ends * method["seconds_per_step"]
                values = np.array(method["curves"]["objective"], float)
                lines.append(Curve(row.label, x, values, 0 if strong else color, strong))
            draw_curves(ax, lines, axis, "objective" if axis == "iterations" else "", wild_start=True)
        handles, labels = axes[0].get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda i: labels[i] != "SCA")
        names = [printable(labels[i], LONGEST) for i in order]
        fig.legend([handles[i] for i in order], names, loc="outside upper left", ncols=len(order))
        svg = to_svg(fig, "picture")
    return standalone(svg)


def standalone(svg: str) -> str:
    """The drawing on a white ground in the light colors of our pages, whatever the page around it."""
    css = resources.files("scax.report").joinpath("style.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"(--\w+): (#[0-9a-f]+)", css[: css.index("@media")]))
    svg = in_tags(svg, lambda tag: re.sub(r"var\((--\w+)\)", lambda m: light[m[1]], tag))
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()  # type: ignore[union-attr]
    svg = svg.replace("<svg ", f'<svg width="{width}" height="{height}" font-family="sans-serif" ', 1)
    start = svg.index(">", svg.index("<svg")) + 1
    return f'{svg[:start]}<rect width="100%" height="100%" fill="#ffffff"/>{svg[start:]}'

"""Names that mean something to matplotlib, HTML, SVG or CSS are shown as they are, and mean nothing."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from scax.report import charts
from scax.report.comparison import comparison_page
from scax.report.picture import picture
from scax.report.svg import figure, to_svg

from .results import results

NAMES = [
    "$x_1$", "$", "a $ b $ c", r"\frac{", "font: 10px x;", 'id="a"', "url(#a)", 'href="#b"', "#010203", "var(--ink)",
    "var(--nothing)", "</svg><script>alert(1)</script>", "<b>", "&amp;", "a\nb", "\x00\x1b[31m", "\u202eabc", "日本",
    "_hidden", "{0}", "", "n" * 5000,
]  # fmt: skip


def drawings(page: str) -> list[ElementTree.Element]:
    """Every chart of a page, read as the XML that it and the keys of its lines must be."""
    found = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg .*?</svg>", page, flags=re.S)]
    return [svg for svg in found if svg.get("class") != "key"]


def texts(svg: ElementTree.Element) -> set[str]:
    return {"".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")}


def test_classes():
    classes = NAMES[:20]
    k = len(classes)
    svg = charts.confusion("c", np.arange(k), np.arange(k), classes)
    (found,) = drawings(svg)
    shown = texts(found)
    assert {"$x_1$", "#010203", "var(--nothing)", r"a\nb", r"\x00\x1b[31m", "日本"} <= shown
    assert {name.strip() for name in classes if name.isprintable() and 0 < len(name) <= charts.LONGEST} <= shown
    reference = charts.confusion("c", np.arange(k), np.arange(k), [str(i) for i in range(k)])
    assert svg.count("var(") == reference.count("var(") + 2 * sum(name.count("var(") for name in classes)


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("$x_1$", "regression"),
        ('font: 9px x; id="a" #010203 var(--no)', "multiclass"),
        ("</svg><script>", "regression"),
        ("\x00\x1b[31m\n", "binary"),
        ("n" * 5000, "regression"),
    ],
)
def test_comparisons(name, task):
    found = results(task, methods=("sca",), repeats=1)
    found["dataset"] |= {"name": name, "target": name, "classes": [name, "b", "c"]}
    found["score"]["name"] = name
    found["methods"]["sca"]["label"] = name
    page = comparison_page(found)
    assert "<script" not in page
    assert "\x1b" not in page
    assert len(drawings(page)) == 6
    ElementTree.fromstring(picture(found))


def test_inputs_that_stay():
    (svg,) = drawings(charts.survivors("s", NAMES, np.ones((2, len(NAMES)), bool), [0.1, 0.2], 1))
    assert {name.strip() for name in NAMES if name.isprintable() and 0 < len(name) <= charts.LONGEST} <= texts(svg)


def test_hundreds_of_classes_are_drawn_in_time():
    k = 600
    svg = charts.confusion("c", np.arange(k), np.arange(k), [f"class {i}" for i in range(k)])
    assert svg.count("<path") < 2000


def test_formulas_are_drawn_where_they_are_asked_for():
    """matplotlib writes powers of ten as formulas; names in a report are none. No picture names fonts."""
    for math in (False, True):
        fig = figure()
        ax = fig.subplots()
        ax.loglog([1, 1000], [1, 1000])
        svg = to_svg(fig, "powers", math)
        assert ("mathdefault" in svg) is not math
        assert "font-family" not in svg

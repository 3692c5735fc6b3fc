"""The page of a comparison: from results.json alone."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from scax.report.build import build, build_picture
from scax.report.charts import confusion
from scax.report.comparison import comparison_page
from scax.report.summary import best, headline, interval, iterations_to, places, rows
from scax.storage.run_folder import RunFolderError

from .results import results

VOID = {"meta", "link", "br", "img", "hr"}


class Outline(HTMLParser):
    """Tags in balance, ids unique, everything the page refers to inside the page."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.references, self.tags = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in {"href", "src", "xlink:href", "clip-path", "style"} and value:
                self.references += re.findall(r"url\((?!#)[^)]*\)", value)
                if name != "style" and not value.startswith(("#", "url(#", "data:")):
                    self.references.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_one_self_contained_page(task):
    page = comparison_page(results(task))
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.references == []
    assert "script" not in outline.tags
    assert outline.tags.count("figure") == 6
    for reference in re.findall(r'(?:href="#|url\(#)([\w-]+)', page):
        assert reference in outline.ids
    assert not re.search(r"https?://(?!www\.w3\.org/)", page)
    title = {"regression": "Predicted against true", "binary": "ROC curves", "multiclass": "Confusion matrix"}[task]
    assert title in page


def test_colors_follow_the_page():
    page = comparison_page(results())
    svg = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.S))
    colors = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", svg))
    assert colors <= {"#ffffff"}, colors
    assert "var(--ink)" in svg
    assert "var(--s0)" in svg


def test_same_results_same_bytes(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(results()))
    first = build(tmp_path).read_bytes()
    assert build(tmp_path).read_bytes() == first


def test_names_from_a_table_are_escaped():
    found = results()
    found["dataset"]["name"] = found["dataset"]["target"] = "<script>alert(1)</script>"
    page = comparison_page(found)
    assert "<script>alert" not in page


def test_one_repeat_one_method_and_divergence():
    assert "SCA" in comparison_page(results(repeats=1))
    assert "SGD" in comparison_page(results(methods=("sgd",)))
    found = results()
    found["methods"]["sgd"]["objective"] = [float("nan")] * 3
    found["methods"]["sgd"]["curves"]["objective"] = [[1.0, *[None] * 5]] * 3
    found["methods"]["sgd"]["score"] = [None] * 3
    assert "diverged" in comparison_page(found)


def test_interval_is_students():
    values = np.array([1.0, 2.0, 4.0])
    from scipy import stats

    low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    found = interval(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.half == pytest.approx((high - low) / 2)
    assert interval([3.0]).half is None


def test_iterations_are_medians_of_first_crossings():
    method = {"curves": {"objective": [[3, 2, 1], [3, None, 2], [3, 3, 3]]}}
    assert iterations_to(method, np.array([2, 2, 2]), [1, 10, 100]) == 100
    assert iterations_to(method, np.array([2, 2, 3]), [1, 10, 100]) == 10
    assert iterations_to(method, np.array([0, 0, 3]), [1, 10, 100]) is None


def test_headline_says_who_is_ahead():
    found = results()
    assert "below that of the best" in headline(found, rows(found))
    found["methods"]["adam"]["objective"] = [v - 1 for v in found["methods"]["sca"]["objective"]]
    assert "ADAM, is" in headline(found, rows(found))


def test_places():
    assert places([0.4914, 0.2]) == 4
    assert places([55.0]) == 2
    assert places([12345.0]) == 0
    assert places([float("nan")]) == 3


def test_below_is_a_share_of_the_higher_one():
    found = results()
    for name, value in (("sca", 0.0790), ("adam", 0.1112), ("sgd", 0.5)):
        found["methods"][name]["objective"] = [value - 1e-6, value, value + 1e-6]
    assert "29% below" in headline(found, rows(found))
    found["methods"]["adam"]["objective"], found["methods"]["sca"]["objective"] = (
        found["methods"]["sca"]["objective"],
        found["methods"]["adam"]["objective"],
    )
    assert "29% below" in headline(found, rows(found))


def test_held_out_rows_of_one_class_are_not_a_divergence():
    found = results("binary")
    found["one_class"] = [1]
    for method in found["methods"].values():
        method["score"][1] = None
    table, page = rows(found), comparison_page(found)
    assert table[0].score.mean == pytest.approx(0.81)  # of 0.80 and 0.82
    assert "diverged" not in page
    assert "In 1 of 3 repeats the rows held out are of one class" in page
    found["one_class"], found["truth"] = [0, 1, 2], [0.0] * 40
    for method in found["methods"].values():
        method["score"], method["curves"]["score"] = [None] * 3, [[None] * 6] * 3
    page = comparison_page(found)
    assert "diverged" not in page
    assert "there is no AUC" in page
    assert "Test AUC against" not in page


def test_bold_is_the_best_of_a_column():
    found = results()  # lower is better: SCA has the best objective, and is made to have the worst score
    for name, score in (("sca", 3000.0), ("sgd", 1000.0), ("adam", 2000.0)):
        found["methods"][name]["score"] = [score, score + 300, score - 300]
    assert best(rows(found), False) == {
        "objective": {"sca"}, "score": {"sgd"}, "near": {"sca"}, "iterations": {"sca"}, "seconds": {"sca"},
    }  # fmt: skip
    assert best(rows(found), True)["score"] == {"sca"}
    page = comparison_page(found)
    assert "<b>1,000 <small>± 745</small></b>" in page
    assert "<td>3,000 <small>" in page


def test_many_classes_are_thinned_out():
    truth = np.arange(60) % 45
    names = [f"kind {i}" for i in range(45)]
    svg = confusion("c", truth, truth, names)
    assert 15 <= svg.count("kind ") / 2 <= 20
    assert re.findall(r">(\d+)</text>", svg) == []
    assert len(re.findall(r">\d+</text>", confusion("c", truth % 5, truth % 5, names[:5]))) == 5


def test_a_picture_is_of_a_comparison(tmp_path):
    (tmp_path / "config.toml").touch()
    (tmp_path / "results.json").write_text('{"kind": "train"}')
    with pytest.raises(RunFolderError, match="picture is made of a run of `scax compare`"):
        build_picture(tmp_path, tmp_path / "x.svg")

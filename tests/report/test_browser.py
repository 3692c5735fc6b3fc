"""The pages in a real browser: nothing to complain about, nothing fetched, everything on the page and inside it."""

from pathlib import Path

import pytest

from scax.report.comparison import comparison_page
from scax.report.training import Run, training_page
from scax.runs.config import TrainConfig
from scax.tables.schema import Column, Schema, Target

from .browser import Browser, chromium
from .results import results

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs Chromium, for example apt-get install chromium")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


def training() -> str:
    """A finished sparse run on a table with long names, made up."""
    steps = [1, 2, 5, 10, 20, 50, 100]
    records = [
        {
            "step": n, "seconds": n / 1000, "batch_loss": 1 / n, "objective": 1 / n + 0.2, "accepted": 1.0,
            "damping": 0.1 * n, "validation_loss": 1 / n + 0.3, "RMSE": 2 / n + 1, "weights_kept": 385 - 3 * n,
            "neurons_kept": 20,
        }
        for n in steps
    ]  # fmt: skip
    column = "a_column_with_a_name_that_nobody_would_want_to_read_twice"
    schema = Schema(tuple(Column(f"{column}_{i}", "number") for i in range(9)), Target(column, "regression"), 100)
    found = {
        "task": "regression", "network": [9, 16, 16, 1], "weights": 433, "rows": {"train": 80, "validation": 20},
        "kept": "last", "final": records[-1],
        "test": {"R²": 0.5, "MAE": 0.1, "RMSE": 0.2, "RMSE of the mean": 0.3}, "linear": {"R²": 0.4, "RMSE": 0.25},
        "outputs": [[0.1 * i] for i in range(20)],
        "truth": [0.11 * i for i in range(20)],
    }  # fmt: skip
    config = TrainConfig(table="/somewhere/t.csv", target=column, l1=0.01, steps=100)
    environment = {**results()["environment"], "command": f"scax train --config {column}/config.toml --out again"}
    names = [f"{column}_{i}" for i in range(9)]
    path = {
        "penalty": "group", "strengths": [1e-4, 1e-3, 1e-2, 1e-1], "loss": [0.3, 0.28, 0.29, 0.9], "best": 1,
        "error": [0.01, 0.0, 0.02, 0.1], "weights": [400, 300, 90, 20], "neurons": [30, 24, 9, 2], "chosen": 2,
        "inputs": [list(range(9)), list(range(7)), [0, 4], []], "names": names,
    }  # fmt: skip
    return training_page([Run("run", Path("run"), config, environment, schema, records, found, path)])


PAGES = {
    "regression": lambda: comparison_page(results("regression")),
    "binary": lambda: comparison_page(results("binary")),
    "multiclass": lambda: comparison_page(results("multiclass")),
    "training": training,
}
#: charts whose drawing is empty or wider than its frame
BROKEN = """[...document.querySelectorAll('figure')].filter(figure => {
  const svg = figure.querySelector('svg'), box = svg && svg.getBoundingClientRect();
  const frame = figure.getBoundingClientRect();
  return !svg || box.width < 100 || box.height < 80 || box.right > frame.right + 1 || !svg.querySelector('path, use');
}).map(figure => figure.ariaLabel)"""
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("name", PAGES)
def test_page(name, browser, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(PAGES[name](), encoding="utf-8")
    seen = {}
    for view in ({}, {"scheme": "dark"}, {"width": 360, "height": 740}, {"width": 700, "media": "print"}):
        browser.open(page, **view)
        assert browser.complaints() == []
        assert browser.requests() == [page.resolve().as_uri()]
        assert browser.value("document.querySelectorAll('figure svg').length") == (8 if name == "training" else 6)
        assert browser.value(BROKEN) == []
        # nothing sticks out: no sideways scrolling of the page, at any width
        assert browser.value("document.documentElement.scrollWidth") <= view.get("width", 1200)
        seen[tuple(view)] = browser.value(BACKGROUND)
        if view.get("media") == "print":  # a sheet of paper does not scroll
            fits = (
                "[...document.querySelectorAll('table')].every(t => t.offsetWidth <= t.parentElement.clientWidth + 1)"
            )
            assert browser.value(fits)
    assert seen["scheme",] != seen[()]  # dark is dark


def test_the_checks_can_fail(browser, tmp_path):
    page = tmp_path / "bad.html"
    wide = '<figure aria-label="wide"></figure><div style="width:2000px">x</div>'
    page.write_text(f'<img src="http://127.0.0.1:9/x.png">{wide}<script>console.error("no")</script>')
    browser.open(page, width=360)
    assert browser.complaints()
    assert "http://127.0.0.1:9/x.png" in browser.requests()
    assert browser.value("document.documentElement.scrollWidth") > 360
    assert browser.value(BROKEN) == ["wide"]

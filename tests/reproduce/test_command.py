"""scax reproduce on generated tables: a short variant of every experiment, its files, its page."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from scax.reproduce import regression as regression_module
from scax.reproduce.configs import SUSY, SUSY_BLOCKS, TABLE2
from scax.reproduce.figures import figures
from scax.reproduce.page import page
from scax.reproduce.speedup import speedup
from scax.reproduce.statistics import spread
from scax.reproduce.susy import susy
from scax.reproduce.tables import Rows

from ..cli.conftest import refused, scax  # noqa: F401
from .generated import table_of

WINE = next(row for row in TABLE2 if row.label == "Wine")


@pytest.fixture
def short(monkeypatch, tmp_path):
    """One data set, one baseline, three learning rates."""
    from scax.cli import reproduce_run

    table_of(WINE, tmp_path, monkeypatch)
    monkeypatch.setattr(reproduce_run, "TABLE2", (WINE,))
    few = functools.partial(
        regression_module.regression, rates=(0.1, 0.03, 0.01), tuning_repeats=2, baselines=("adam",)
    )
    monkeypatch.setattr(reproduce_run, "regression", few)


def test_table2(scax, short):  # noqa: F811
    outcome = scax("reproduce", "table2", "--repeats", "2", "--iterations", "6,3", "--data-dir", ".", "--out", "run")
    assert outcome.code == 0, outcome.err
    assert "SCA, our defaults" in outcome.out
    results = json.loads(Path("run/results.json").read_text())
    assert list(results["table2"]) == ["6", "3"]
    found = results["table2"]["6"]["rows"]["Wine"]
    assert found["paper"]["sca"] == [0.0528, 0.0023]
    assert set(found["methods"]) == {"adam-paper", "adam-tuned", "sca-paper", "sca-damped", "sca"}
    starts = set()
    for method in found["methods"].values():
        assert len(method["test"]) == len(method["objective"]) == 2
        assert method["curve"]["iterations"][0] == 0
        assert method["curve"]["iterations"][-1] == 6
        assert method["curve"]["mean"][-1] == pytest.approx(np.mean(method["objective"]), rel=1e-4)  # few rows: all
        starts.add(method["curve"]["mean"][0])
    assert len(starts) == 1  # the same starts for every method
    tried = {t["setting"]: t["loss"] for t in found["methods"]["adam-tuned"]["tried"]}
    assert len(tried) == 3 * 2 * 2
    assert tried[found["methods"]["adam-tuned"]["setting"]] == min(tried.values())
    # tables and figures come from the file alone, and follow it
    text = Path("run/reproduction.md").read_text()
    ours = spread(found["methods"]["sca"]["test"])
    assert f"{ours.mean:.4f} ± {ours.sd:.4f}" in text
    for name in ("convergence-6", "convergence-3-tuned", "divergence-6"):
        assert f"({name}.svg)" in text
        assert Path(f"run/{name}.svg").read_text().startswith("<svg")
    found["methods"]["sca"]["test"] = [0.5, 0.7]
    Path("run/results.json").write_text(json.dumps(results))
    assert scax("reproduce", "page", "--out", "run").code == 0
    assert "0.6000 ± 0.1414" in Path("run/reproduction.md").read_text()
    # files of a stranger: links are replaced, and what is damaged is refused
    Path("run/reproduction.md").rename("precious")
    Path("run/reproduction.md").symlink_to(Path("precious").absolute())
    found["methods"]["sca"]["test"] = [0.1, 0.2]
    Path("run/results.json").write_text(json.dumps(results))
    assert scax("reproduce", "page", "--out", "run").code == 0
    assert "0.6000 ± 0.1414" in Path("precious").read_text()
    del found["methods"]["sca"]["test"]
    for odd in (
        results,
        [],
        results | {"table2": {"../6": {}}},
        results | {"table2": {"6": []}},
        {"kind": "reproduce", "susy": {}},
    ):
        Path("run/results.json").write_text(json.dumps(odd))
        outcome = scax("reproduce", "page", "--out", "run")
        assert outcome.code == 2
        assert "Traceback" not in outcome.err


def test_refusals(refused, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SCAX_DATA", raising=False)
    assert "'table2'" in refused("reproduce", "table3")
    assert "--repeats" in refused("reproduce", "table2", "--repeats", "0")
    assert "--out" in refused("reproduce", "page")
    assert "no results" in refused("reproduce", "page", "--out", "nowhere")
    assert "scax datasets fetch casp" in refused("reproduce", "table2", "--data-dir", ".")
    Path("other").mkdir()
    Path("other/results.json").write_text('{"kind": "compare"}')
    assert "another command" in refused("reproduce", "table2", "--out", "other")


def test_susy_and_speedup():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 18)).astype(np.float32)
    table = Rows(x, (x[:, 0] + x[:, 1] > 0).astype(np.float32))
    few = susy(
        table, "80 generated events", repeats=2, steps=20, seed=0, rates=(0.03,), baselines=("adam",),
        configs=SUSY[:1], widths=(18, 4, 1), blocks={k: SUSY_BLOCKS[k] for k in ("1", "4", "4-random")},
    )  # fmt: skip
    problem = few["problems"]["paper"]
    assert set(problem["methods"]) == {"adam-tuned", "sca-1", "sca-4", "sca-4-random"}
    for method in problem["methods"].values():
        assert len(method["auc"]) == 2
        assert 0.5 < np.mean(method["auc"]) <= 1  # two inputs decide: easier than a coin
        # the area under the averaged curve is the average area, but for its coarse grid
        assert np.trapezoid(method["roc"], dx=0.01) == pytest.approx(np.mean(method["auc"]), abs=0.03)
    times = speedup(blocks=(2,), widths=(18, 4, 1), batch_size=8)
    assert times["blocks"] == [2]
    assert all(t > 0 for t in [*times["wall"], *times["unit"], *times["lines"].values()])
    about = {"command": "scax reproduce susy", "environment": {"cores": 2, "python": "3", "packages": {"jax": "0"}}}
    results = {"susy": few | about, "speedup": times | about}
    drawn = dict(figures(results))
    assert set(drawn) == {"susy-convergence", "susy-roc", "speedup"}
    text = page(results, lambda name, alt: name)
    assert "80 generated events" in text
    assert f"{np.mean(problem['methods']['sca-4']['auc']):.4f}" in text

"""The command lines and tables of the benchmarks; what they measure is no test."""

import importlib
import json
import sys
from pathlib import Path

import pytest


def test_help_measures_nothing(monkeypatch, capsys):
    from benchmarks import readme

    page = readme.ROOT / "docs" / "measurements" / "index.md"
    before = page.stat().st_mtime_ns
    monkeypatch.setattr(sys, "argv", ["readme", "--help"])
    monkeypatch.setattr(readme.subprocess, "run", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(SystemExit) as end:
        readme.main()
    assert end.value.code == 0
    assert "docs/measurements/index.md" in capsys.readouterr().out
    assert page.stat().st_mtime_ns == before


def test_cases_by_part_of_their_name(monkeypatch, capsys):
    from benchmarks import peers

    assert peers.named(["CASP"]) == ["CASP 9/10/6/1"]
    assert set(peers.named(["CASP", "SUSY"])) >= set(peers.NETWORKS)
    monkeypatch.setattr(sys, "argv", ["peers", "--cases", "nothing", "--out", str(Path("nowhere"))])
    with pytest.raises(SystemExit):
        peers.main()
    assert "none has such a name" in capsys.readouterr().err


def test_sparse_tables_are_those_of_the_results():
    """docs/measurements/sparse.md, its ratios too."""
    import numpy as np

    from benchmarks import sparse as solvers
    from benchmarks import sparse_training as sparse

    root = Path(sparse.__file__).parent.parent
    results = {n: json.loads((root / f"docs/results/sparse-training-{n}.json").read_text()) for n in sparse.NETWORKS}
    page = (root / "docs/measurements/sparse.md").read_text()
    shown = [sparse.markdown(found) for found in results.values()]
    read = lambda name: json.loads((root / f"docs/results/sparse-{name}.json").read_text())
    shown += [solvers.markdown(read("solvers") | {"steps": read("steps")["steps"]})]
    shown += [solvers.markdown_trainings(read("enough")["rows"]), solvers.markdown_forward(read("compact")["rows"])]
    for line in "\n".join(shown).splitlines():
        assert line in page
    for label, value in {
        "**scax**": lambda row: sparse.chosen(row)["test"],
        "Adam, pruned and trained on": lambda row: row["adam, pruned"]["test"],
        "proximal Adam": lambda row: row["proximal adam"]["test"],
    }.items():
        cells = []
        for name in sparse.SETS:
            rows = [row for row in results["paper"]["rows"] if row["set"] == name]
            cells.append(np.mean([value(row) for row in rows]) / np.mean([row["dense"]["test"] for row in rows]))
        assert f"| {label} | {' | '.join(f'{cell:.2f}' for cell in cells)} |" in page
    cells = []
    for name in sparse.SETS:
        rows = [row for row in results["wide"]["rows"] if row["set"] == name]
        cells.append(sparse.over_dense(rows))
    assert "the ratio is {:.2f}, {:.2f}, {:.2f} and {:.2f} (8 splits".format(*cells) in page


def test_rows_without_a_network_of_ours_have_a_table():
    from benchmarks import sparse_training as sparse

    rows = [{"set": "casp", "network": "paper", "widths": [9, 10, 6, 1], "weights": 173, "proxsgd": {"test": 0.5}}]
    assert "| 0.5000 |" in sparse.markdown({"rows": rows})
    assert "| 0.5000 |" in sparse.markdown({"rows": [rows[0] | {"dense": {"test": 0.5}}]})


def test_a_plan_has_strengths_for_the_methods_asked_for(monkeypatch, capsys):
    from benchmarks import sparse_training as sparse

    monkeypatch.setattr(
        sys, "argv", ["sparse_training", "--splits-file", "nowhere.npz", "--networks", "wide", "--methods", "group"]
    )
    with pytest.raises(SystemExit):
        sparse.main()
    assert "has no strengths for group: use --methods dense log l1 long-dense long-l1 others" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["noise", "least_squares", "unseen", "long_runs", "rule_constants"])
def test_the_tables_of_the_defaults_are_those_of_the_results(name):
    benchmark = importlib.import_module(f"benchmarks.{name}")
    page = (benchmark.FILE.parent.parent / "measurements" / "defaults.md").read_text()
    assert benchmark.markdown(json.loads(benchmark.FILE.read_text())) in page


def test_the_tables_of_the_paper_s_sets_are_those_of_the_results():
    from benchmarks import defaults

    page = (defaults.RESULTS.parent.parent / "measurements" / "defaults.md").read_text()
    for table in defaults.tables(json.loads(defaults.RESULTS.read_text())).values():
        assert table in page


def test_the_tables_of_many_outputs_are_those_of_the_results():
    from benchmarks import outputs_page
    from benchmarks.pages import place

    page = outputs_page.PAGE.read_text()
    made = {name: make(outputs_page.read(file)) for name, (file, make) in outputs_page.TABLES.items()}
    assert place(page, made) == page


def test_the_tables_of_equations_are_those_of_the_results():
    from benchmarks import physics_gpu
    from benchmarks.pages import DOCS

    page = (DOCS / "measurements/physics.md").read_text()
    results = json.loads((DOCS / "results/physics-gpu.json").read_text())
    assert f"<!-- times -->\n{physics_gpu.table(results).strip()}\n<!-- end -->" in page


def test_federated_tables_are_those_of_the_results():
    """docs/guides/federated.md."""
    from benchmarks import federated

    root = Path(federated.__file__).parent.parent
    results = json.loads((root / "docs/results/federated.json").read_text())
    page = (root / "docs/guides/federated.md").read_text()
    for name, table in federated.tables(results).items():
        assert f"<!-- {name} -->\n{table}\n<!-- end -->" in page

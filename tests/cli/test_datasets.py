"""scax datasets."""

import gzip
import json
from pathlib import Path

import pytest

from .tables import lines, numbered


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SCAX_DATA", raising=False)


def test_list(scax):
    outcome = scax("datasets")
    assert "diabetes" in outcome.out
    assert "scax datasets fetch casp" in outcome.out
    found = {entry["name"]: entry for entry in json.loads(scax("datasets", "--json").out)}
    assert found["diabetes"]["where"] == "bundled"
    assert found["casp"]["rows"] == 45_730
    assert "bundled" in scax("datasets", "fetch", "iris").out


def test_refusals(scax, refused):
    assert "'casp'" in refused("datasets", "fetch", "capp")
    assert "scax datasets fetch casp" in refused("compare", "casp")
    lines(Path("casp.csv"), "RMSD,F1", "1,2")
    assert "casp.csv" in refused("compare", "casp", "--data-dir", ".")
    assert "fetch it again" in scax("datasets", "--data-dir", ".").out  # the list says so, and lists the others
    assert "--target" in refused("compare", "casp.csv")
    assert "'RMSE'" in refused("compare", "casp.csv", "--target", "RMSE")


def test_compare_on_a_table(scax):
    table = numbered(Path("t.csv"), "a,b,y", lambda i: f"{i % 7},{i % 5},{(i % 7) * (i % 5)}.5", rows=60)
    Path("t.csv.gz").write_bytes(gzip.compress(table.read_bytes()))
    options = ("--steps", "4", "--repeats", "1", "--methods", "sca", "--hidden", "3", "--batch-size", "8")
    for file in ("t.csv", "t.csv.gz"):
        outcome = scax("compare", file, "--target", "y", *options, "--out", f"run-{file}")
        assert outcome.code == 0, outcome.err
    first, second = (json.loads(Path(f"run-{f}/results.json").read_text()) for f in ("t.csv", "t.csv.gz"))
    assert first["methods"]["sca"]["objective"] == second["methods"]["sca"]["objective"]
    assert first["dataset"] == {"name": "t", "target": "y", "rows": 60, "columns": 2, "classes": []}

"""The command lines of the benchmarks; what they measure is no test."""

import sys
from pathlib import Path

import pytest


def test_help_measures_nothing(monkeypatch, capsys):
    from benchmarks import readme

    before = (readme.ROOT / "README.md").stat().st_mtime_ns
    monkeypatch.setattr(sys, "argv", ["readme", "--help"])
    monkeypatch.setattr(readme.subprocess, "run", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(SystemExit) as end:
        readme.main()
    assert end.value.code == 0
    assert "README.md" in capsys.readouterr().out
    assert (readme.ROOT / "README.md").stat().st_mtime_ns == before


def test_cases_by_part_of_their_name(monkeypatch, capsys):
    from benchmarks import peers

    assert peers.named(["CASP"]) == ["CASP 9/10/6/1"]
    assert set(peers.named(["CASP", "SUSY"])) >= set(peers.NETWORKS)
    monkeypatch.setattr(sys, "argv", ["peers", "--cases", "nothing", "--out", str(Path("nowhere"))])
    with pytest.raises(SystemExit):
        peers.main()
    assert "none has such a name" in capsys.readouterr().err

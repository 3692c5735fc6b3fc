"""Running the command as a user does, but in this process: starting JAX anew for every test takes seconds."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def scax(monkeypatch, capsys, tmp_path):
    """scax("compare", "--steps", "5") in an empty folder; an exception that gets out is a bug, and fails the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCAX_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str | Path) -> Outcome:
        from scax.cli.main import app

        monkeypatch.setattr(sys, "argv", ["scax", *map(os.fspath, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            app()
        told = capsys.readouterr()
        code = stop.value.code
        return Outcome(code if isinstance(code, int) else 1, told.out, told.err)

    return run


@pytest.fixture
def refused(scax):
    """The sentence with which a command is refused: one or two lines, exit code 2, nothing left behind."""

    def check(*arguments: str | Path) -> str:
        before = {p: p.stat().st_mtime_ns for p in Path().rglob("*")}
        outcome = scax(*arguments)
        assert outcome.code == 2, outcome
        lines = outcome.err.strip().splitlines()
        assert 1 <= len(lines) <= 2, outcome.err
        assert "Traceback" not in outcome.err
        assert {p: p.stat().st_mtime_ns for p in Path().rglob("*")} == before
        return outcome.err

    return check

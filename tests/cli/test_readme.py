"""Every command and snippet of README.md works as printed."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import polars
import pytest

from .tables import regression

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.M | re.S)
SNIPPETS = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [line for language, code in BLOCKS if language == "sh" for line in code.splitlines() if line.strip()]


def test_every_block_is_looked_at():
    assert {language for language, _ in BLOCKS} == {"python", "sh"}
    for command in COMMANDS:
        assert command.split()[0] in {"make", "pip", "scax"}, command


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda code: code.split("\n")[0])
def test_snippets(snippet, capsys):
    exec(compile(snippet, "README.md", "exec"), {"__name__": "readme"})
    assert float(capsys.readouterr().out) == pytest.approx(0.0, abs=2)  # it prints one number, and a finite one


def test_commands_on_a_table(scax):
    """In the order in which they are printed; new.csv has no prices, test.csv has."""
    regression(Path("houses.csv"))
    polars.read_csv("houses.csv").drop("price").write_csv("new.csv")
    polars.read_csv("houses.csv").write_csv("test.csv")
    commands = [shlex.split(c, comments=True)[1:] for c in COMMANDS if c.startswith("scax ")]
    assert [c[0] for c in commands] == ["train", "evaluate", "predict", "report"]
    for command in commands:
        outcome = scax(*command)
        assert outcome.code == 0, outcome.err
    assert polars.read_csv("predictions.csv").height == 60
    assert Path("houses/report.html").is_file()


def test_make_and_pip():
    """What they would do; doing it would test the network and these tests themselves."""
    makefile = (ROOT / "Makefile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for command in COMMANDS:
        words = shlex.split(command, comments=True)
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, flags=re.M), command
            subprocess.run(["make", "-n", words[1]], cwd=ROOT, check=True, capture_output=True)
        elif words[0] == "pip":
            assert words == ["pip", "install", ".[cli]"], command
    assert project["readme"] == "README.md"


def test_links_lead_somewhere():
    """In README; `make docs` looks after the links of the manual."""
    pages = {page: page.read_text() for page in (ROOT / "README.md",)}
    for page, text in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?s)```.*?```|`[^`\n]*`", "", text)):
            if target.startswith("https://"):
                continue
            file, _, part = target.partition("#")
            there = (page.parent / file) if file else page
            assert there.exists(), (page.name, target)
            slugs = [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in _headings(there)] if part else []
            assert not part or part in slugs, (page.name, target)


def _headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", page.read_text(), flags=re.M)

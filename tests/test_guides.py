"""The guides describe what is there: every name and file that they mention exists, and their example runs."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import scax

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "scax"
GUIDES = ["CONTRIBUTING.md", "MATHS.md"]
SHELL = ("cli", "estimators", "report", "reproduce", "runs", "__main__")


@pytest.fixture(scope="module")
def names():
    """Every public name of the core's modules → the objects of that name."""
    found = {}
    for info in pkgutil.walk_packages(scax.__path__, "scax."):
        if info.name.split(".")[1] in SHELL or info.name.startswith("scax.bridges."):
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("guide", GUIDES)
def test_files_and_rooms_exist(guide):
    text = (ROOT / guide).read_text(encoding="utf-8")
    places = {place for quoted in re.findall(r"`([^`]+)`", text) for place in quoted.split()}
    for place in sorted(places):
        if re.fullmatch(r"[a-z_/]+(/|\.py)", place):
            assert (SOURCE / place).exists() or (ROOT / place).exists(), place


def test_names_of_the_mathematics_exist(names):
    rows = [line for line in (ROOT / "MATHS.md").read_text(encoding="utf-8").splitlines() if line.count("|") >= 5]
    owner = None
    for row in rows[2:]:
        for quoted in re.findall(r"`([^`]+)`", row.split("|")[3]):
            first, _, attribute = quoted.partition(".")
            owner = first or owner
            assert owner in names, quoted
            if attribute:
                fields = {name for value in names[owner] for name in (*dir(value), *_fields(value))}
                assert attribute in fields, quoted


def _fields(value):
    return getattr(value, "__annotations__", {})


def test_the_example_of_a_rule_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.S)
    scope = {}
    exec(code, scope)
    assert scope["info"].accepted
    assert scope["info"].damping > 0

"""docs/contributing/promises.md names commands and tests that are there."""

import importlib.util
import re

import pytest

from .source import ROOT

TEXT = (ROOT / "docs" / "contributing" / "promises.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted(set(re.findall(r"`(tests/[\w/.]+)`", TEXT))))
def test_the_tests_exist(file):
    assert "def test_" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", re.findall(r"`python -m ([^`]+)`", TEXT))
def test_the_commands_exist_with_their_options(command):
    module, *options = command.split()
    found = importlib.util.find_spec(module)
    assert found is not None
    source = (ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    for option in options[::2]:
        assert f'"{option}"' in source, option


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make (\w+)`", TEXT))))
def test_the_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)

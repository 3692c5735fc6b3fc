"""Every number of docs/measurements/reproduction.md, and of a table of index.md there, is that of the results file."""

import json
import re

import pytest

from benchmarks import reproduction, steps
from scax.reproduce.page import page

RESULTS = json.loads(reproduction.RESULTS.read_text())


def test_the_page_is_the_one_the_results_give():
    text = (reproduction.ROOT / "docs" / "measurements" / "reproduction.md").read_text()
    assert text == page(RESULTS, reproduction.image)
    for target in re.findall(r"\]\((../images/[^)]+)\)", text):
        assert (reproduction.ROOT / "docs" / "measurements" / target).is_file(), target


def test_so_is_the_table_of_the_summary():
    text = (reproduction.ROOT / "docs" / "measurements" / "index.md").read_text()
    assert "<!-- paper -->" in text
    assert reproduction.with_table(text, RESULTS) == text


def test_another_result_gives_another_page():
    changed = json.loads(json.dumps(RESULTS))
    steps = next(iter(changed["table2"]))
    changed["table2"][steps]["rows"]["CASP"]["methods"]["sca"]["test"][0] += 10
    assert page(changed, reproduction.image) != page(RESULTS, reproduction.image)


@pytest.mark.parametrize("part", sorted({"table2", "susy", "speedup"} & set(RESULTS)))
def test_every_part_names_its_command(part):
    found = RESULTS[part]
    for each in found.values() if part == "table2" else [found]:
        assert each["command"].startswith("scax reproduce ")
        assert "/" not in each["command"]  # no path of the machine it was run on


@pytest.mark.parametrize("file", sorted(reproduction.RESULTS.parent.glob("*.json")), ids=lambda file: file.name)
def test_no_results_file_names_a_place_on_a_machine(file):
    places = re.findall(r'(?:^|[\s"=])/\w+/[^"\s]*|[A-Z]:\\\\', file.read_text(encoding="utf-8"))
    assert not places


def test_a_command_is_shown_without_the_folders_of_the_machine(monkeypatch):
    monkeypatch.setattr("sys.argv", ["steps", "--cases", "784/300/100/10 softmax", "--out", "/somewhere/else"])
    assert steps.describe_machine()["command"].endswith("--cases '784/300/100/10 softmax' --out DIR")

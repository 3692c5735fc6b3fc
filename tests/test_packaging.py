"""pyproject.toml and the code agree: what is imported is declared, what is declared is imported, and where."""

import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scax import _compat, _extras
from tools import licenses, oldest

from .source import PACKAGE, ROOT, Import, imports_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: pip's name → the name that is imported, where they differ
IMPORTED_AS = {"scikit-learn": "sklearn", "mkdocstrings-python": "griffe"}
#: The extras each room may import from; the others make do with the core's packages. As in pyproject.toml's comment.
ROOMS = {
    "bridges": {"equinox", "flax", "torch"},
    "cli": {"cli"},
    "cluster": {"federated", "ray"},
    "estimators": {"sklearn"},
    "report": {"cli"},
    "reproduce": {"cli"},
    "runs": {"tensorboard"},
    "storage": {"onnx"},
    "tables": {"cli", "sklearn"},
}
#: Rooms whose door says what is missing, so that their files need not: `scax.estimators` and the command line.
GUARDED_AT_THE_DOOR = {"cli", "estimators", "reproduce"}
#: Programs of the developers, which nothing imports.
PROGRAMS = {"build", "pyright", "pytest-cov", "pytest-timeout", "pytest-xdist", "ruff", "zensical"}


def declared(lines: list[str]) -> dict[str, Requirement]:
    """Name as it is imported → requirement; our own extras left out."""
    found = [Requirement(line) for line in lines]
    return {IMPORTED_AS.get(one.name, one.name): one for one in found if one.name != "scax"}


CORE = declared(PROJECT["dependencies"])
EXTRAS = {
    name: declared(lines) for name, lines in PROJECT["optional-dependencies"].items() if name not in ("dev", "docs")
}
DEV = declared([*PROJECT["optional-dependencies"]["dev"], *PROJECT["optional-dependencies"]["docs"]])
OUTSIDE = [found for found in imports_of(PACKAGE) if found.package not in {"scax", *sys.stdlib_module_names}]


def packages(room: str) -> set[str]:
    return CORE.keys() | {name for extra in ROOMS.get(room, ()) for name in EXTRAS[extra]}


@pytest.mark.parametrize("found", OUTSIDE, ids=lambda one: f"{one.file.relative_to(PACKAGE)}:{one.line} {one.module}")
def test_what_a_room_imports_its_extra_brings(found: Import):
    assert found.package in packages(found.room)


def test_what_is_declared_is_imported():
    imported = {found.package for found in OUTSIDE}
    assert CORE.keys() - imported == set()
    assert {name for extra in EXTRAS.values() for name in extra} - imported == set()
    for room, extras in ROOMS.items():
        for extra in extras:
            assert any(found.room == room and found.package in EXTRAS[extra] for found in OUTSIDE), (room, extra)


def test_what_the_tests_import_is_declared_and_the_other_way_round():
    own = {"scax", "tests", "benchmarks", "tools", "run_tutorial", "reference", *sys.stdlib_module_names}
    folders = [ROOT / "tests", ROOT / "tools", ROOT / "examples"]
    imported = {found.package for folder in folders for found in imports_of(folder)} - own
    known = CORE.keys() | DEV.keys() | {name for extra in EXTRAS.values() for name in extra}
    assert imported - known == set()
    used = imported | set(
        re.findall(r'importorskip\("(\w+)"', "".join(p.read_text() for p in folders[0].rglob("*.py")))
    )
    assert {requirement.name for name, requirement in DEV.items() if name not in used} == PROGRAMS


def test_a_missing_package_is_said_where_it_is_imported():
    """Packages of extras are imported within `required_by`, or in a room whose door has it."""
    assert {name: extra for extra, lines in EXTRAS.items() for name in lines} == _extras.EXTRAS
    for found in OUTSIDE:
        if found.package in _extras.EXTRAS and found.room not in GUARDED_AT_THE_DOOR:
            others = [o for o in OUTSIDE if (o.file, o.package, o.guarded) == (found.file, found.package, True)]
            assert found.guarded or others, f"{found.file}:{found.line} imports {found.module} outside `required_by`"


def test_every_dependency_has_a_lower_bound_and_few_an_upper_one():
    bounded = set()
    for name, requirement in (CORE | {n: r for extra in EXTRAS.values() for n, r in extra.items()}).items():
        operators = {part.operator for part in requirement.specifier}
        assert operators & {">=", "=="}, requirement
        bounded |= {name} if operators - {">="} else set()
    assert bounded == {"jax", "torch"}, "an upper bound stands where a next release has broken scax before"


def test_the_oldest_releases_are_those_of_pyproject():
    lines = oldest.constraints(PROJECT)
    assert "jax==0.10.0" in lines
    assert all(re.fullmatch(r"[\w.-]+==[\d.]+", line) for line in lines)
    names = {name for extra in EXTRAS.values() for name in extra} | CORE.keys()
    assert {IMPORTED_AS.get(n := line.partition("==")[0], n) for line in lines} == names


def test_jax_releases_are_those_of_the_version_check():
    for version, inside in {(*_compat.OLDEST, 0): True, (*_compat.BEYOND, 0): False}.items():
        assert CORE["jax"].specifier.contains(Version(".".join(map(str, version)))) is inside


def test_the_licenses_of_all_dependencies_are_listed():
    rows = licenses.rows((ROOT / "docs" / "contributing" / "licenses.md").read_text(encoding="utf-8"))
    listed = {canonicalize_name(name) for name in rows}
    names = {canonicalize_name(r.name) for lines in (CORE, *EXTRAS.values()) for r in lines.values()}
    assert names <= listed, f"run python -m tools.licenses: {names - listed}"
    assert all(license not in {"", "unknown"} for license, _ in rows.values())


@pytest.mark.parametrize("file", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda file: file.name)
def test_actions_of_workflows_are_pinned_and_may_only_read(file):
    text = file.read_text(encoding="utf-8")
    for action in re.findall(r"uses: *(.*)", text):
        assert re.fullmatch(r"[\w/.-]+@[0-9a-f]{40}  # v[\d.]+", action), action
    assert re.search(r"^permissions:\n  contents: read\n", text, re.M)
    for target in re.findall(r"run: make ([\w-]+)", text):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M), target

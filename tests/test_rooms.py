"""The rooms of src/scax: the core knows nothing of the shell, and no room needs one that needs it."""

import pytest

from .source import PACKAGE, imports_of

#: Everything up to the method and its training.
CORE = {
    "batch", "checks", "layout", "linearize", "losses", "options", "problem", "regularizers", "rules", "sca",
    "sharding", "solvers", "state", "status", "surrogate", "terms", "training", "uncertainty", "_compat", "_struct",
}  # fmt: skip
SHELL = {"bridges", "cli", "cluster", "estimators", "federated", "report", "reproduce", "runs", "storage", "tables"}
#: Belongs to neither: our own networks, and the helpers that import the standard library alone.
BESIDE = {"models", "operators", "_cache", "_lazy", "_extras", "_gaussian", "_text", "_untrusted"}
HEAVY = {"matplotlib", "pandas", "polars", "ray", "rich", "sklearn", "typer"}
#: What the core takes from the shell; training: the order of rows, rows on disk, and the file that `strength` reads.
TAKES = {
    "training": {"scax.tables.shuffle", "scax.tables.stream", "scax.storage.run_folder"},
    # the networks and error bars that a model file keeps, in NumPy alone
    "uncertainty": {"scax.storage.error_bars"},
}


def test_every_room_has_its_place():
    rooms = {
        path.name.removesuffix(".py") for path in PACKAGE.iterdir() if not path.name.startswith(("__", "py.typed"))
    }
    assert rooms == CORE | SHELL | BESIDE
    assert len(CORE) + len(SHELL) + len(BESIDE) == len(rooms)


@pytest.mark.parametrize("room", sorted(CORE))
def test_the_core_imports_neither_heavy_packages_nor_the_shell(room):
    for found in imports_of(PACKAGE):
        if found.room != room:
            continue
        where = f"{found.file}:{found.line} imports {found.module}"
        assert found.package not in HEAVY, where
        if found.package == "scax" and found.module.count("."):
            taken = found.module in TAKES.get(room, ())
            assert found.module.split(".")[1] not in SHELL or taken, where


def test_rooms_do_not_import_each_other_in_circles():
    needs: dict[str, set[str]] = {room: set() for room in CORE | SHELL | BESIDE}
    for found in imports_of(PACKAGE):
        if found.package == "scax" and found.room in needs and not found.for_types:
            needs[found.room] |= {found.module.split(".")[1]} & needs.keys() - {found.room}
    reached = {room: _reached(needs, room) for room in needs}
    circles = {frozenset({room} | {other for other in reached[room] if room in reached[other]}) for room in needs}
    assert [sorted(circle) for circle in circles if len(circle) > 1] == []


def _reached(needs: dict[str, set[str]], room: str) -> set[str]:
    seen: set[str] = set()
    ahead = [room]
    while ahead:
        new = needs[ahead.pop()] - seen
        seen |= new
        ahead.extend(new)
    return seen

"""The imports of the source files, those inside functions and for type checkers included."""

import ast
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "scax"


class Import(NamedTuple):
    """One import: the dotted module it names, the line, and whether it stands in a `with required_by(...)`, or under
    `if TYPE_CHECKING:`, where it does not run."""

    file: Path
    line: int
    module: str
    guarded: bool
    for_types: bool

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]

    @property
    def room(self) -> str:
        """The folder or module of src/scax in which it stands."""
        return self.file.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def imports_of(folder: Path) -> list[Import]:
    """Every import in the Python files of a folder, relative ones made absolute."""
    return [found for file in sorted(folder.rglob("*.py")) for found in _imports(file)]


def _imports(file: Path) -> Iterator[Import]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    guarded = _within(
        tree, lambda node: isinstance(node, ast.With) and "required_by(" in ast.unparse(node.items[0].context_expr)
    )
    for_types = _within(tree, lambda node: isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    for node in ast.walk(tree):
        for module in _modules(node, file):
            yield Import(file, getattr(node, "lineno", 0), module, id(node) in guarded, id(node) in for_types)


def _within(tree: ast.AST, is_outer: Callable[[ast.AST], bool]) -> set[int]:
    """The ids of all nodes inside those that `is_outer` picks."""
    return {id(inner) for node in ast.walk(tree) if is_outer(node) for inner in ast.walk(node)}


def _modules(node: ast.AST, file: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    if node.level == 0:
        return [node.module or ""]
    above = list(file.relative_to(PACKAGE.parent if PACKAGE in file.parents else ROOT).parts[:-1])
    base = ".".join(above[: len(above) - node.level + 1])
    # `from . import a, b` names modules, `from .a import b` one
    return [f"{base}.{node.module}"] if node.module else [f"{base}.{alias.name}" for alias in node.names]

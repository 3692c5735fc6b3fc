"""The lazy table of public names: complete, honest, and light."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import scax


@pytest.mark.parametrize("package", ["scax", "scax.tables", "scax.storage"])
def test_lazy_names_match_the_imports_for_type_checkers(package):
    module = importlib.import_module(package)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        (node.module, alias.name) for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    lazy = {(home, name) for home, names in module._NAMES.items() for name in names}
    assert {pair for pair in told if pair[0] is not None} == lazy
    for _, name in lazy:
        assert name in dir(module)
        assert getattr(module, name) is not None


def test_train_is_the_function():
    code = "import scax.training.run, scax; from scax import train; assert callable(train) and train is scax.train"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'SGD'"):
        scax.SGD  # noqa: B018


def test_importing_scax_is_light():
    heavy = "{'jax', 'sklearn', 'polars', 'matplotlib', 'rich', 'numpy'}"
    check = f"assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", f"import sys, scax, scax.tables, scax.storage; {check}"], check=True)

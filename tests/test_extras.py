"""Extras: what documents and messages say of them is what pyproject.toml has, and a missing one is a sentence."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import numpy as np
import pytest

import scax

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
BUILDING = {"dev", "docs"}  # `make` installs them
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
TEXTS += [*(ROOT / "examples").glob("*.py"), *(ROOT / "src").rglob("*.py")]


def test_every_extra_that_is_named_exists():
    found = {}
    for file in TEXTS:
        for names in re.findall(r"(?:scax|'\.)\[([a-z,]+)\]", file.read_text(encoding="utf-8")):
            found |= dict.fromkeys(names.split(","), file.name)
    assert found.keys() >= EXTRAS.keys() - BUILDING, "an extra that nothing names"
    assert found.keys() <= EXTRAS.keys(), {name: found[name] for name in found.keys() - EXTRAS.keys()}


def test_the_page_on_installing_lists_them():
    text = (ROOT / "docs/start/install.md").read_text(encoding="utf-8")
    listed = [name for row in re.findall(r"^\| (`[a-z`, ]+`) \|", text, re.M) for name in re.findall(r"[a-z]+", row)]
    assert sorted(listed) == sorted(EXTRAS.keys() - BUILDING)


def installed(part: str, package: str, extra: str) -> str:
    return f"{part} needs {package}, which is not installed: pip install 'scax[{extra}]'"


@pytest.mark.parametrize("package", ["flax", "equinox", "torch"])
def test_bridges(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        getattr(scax, f"from_{package}")(None)
    assert str(caught.value) == installed(f"scax.from_{package}", package, package)


def test_onnx_ray_and_tensorboard(tmp_path, monkeypatch):
    net = scax.MLP((2, 1))
    params, rows = net.init(jax.random.key(0)), (np.ones((4, 2), np.float32), np.ones(4, np.float32))
    scax.save(tmp_path / "m.safetensors", net, params, loss=scax.Squared())
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        scax.load(tmp_path / "m.safetensors").to_onnx(tmp_path / "m.onnx")
    assert str(caught.value) == installed("Model.to_onnx", "onnx", "onnx")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        scax.train_async(scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(0.1))), params, rows, steps=1)
    assert str(caught.value) == installed("scax.train_async", "ray", "ray")
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    from scax.runs.tensorboard import require

    with pytest.raises(ModuleNotFoundError) as caught:
        require()
    assert str(caught.value) == installed("--tensorboard", "tensorboardX", "tensorboard")


#: (packages that are missing, code, last line of stderr, exit code)
WITHOUT = {
    "estimators": (
        ["sklearn"], "import scax; scax.estimators",
        "scax._extras.MissingPackageError: " + installed("scax.estimators", "scikit-learn", "sklearn"), 1,
    ),
    "table": (
        ["polars"], "import scax; scax.tables.open_table('t.csv').blocks().__next__()",
        "scax._extras.MissingPackageError: " + installed("Reading a table", "polars", "cli"), 1,
    ),
    "report": (
        ["matplotlib"], "import scax.report.build",
        "scax._extras.MissingPackageError: " + installed("A report", "matplotlib", "cli"), 1,
    ),
    "bundled data": (
        ["sklearn"], "from scax.tables.bundled import bundled; bundled('iris')",
        "scax._extras.MissingPackageError: " + installed("The bundled data set", "scikit-learn", "sklearn"), 1,
    ),
    "command": (
        ["typer", "rich", "polars"], "import scax.cli; scax.cli.app()",
        "scax: " + installed("The scax command", "typer", "cli"), 2,
    ),
    "a command's report": (
        ["matplotlib"], "import sys; sys.argv = ['scax', 'report', 'run']; import scax.cli; scax.cli.app()",
        "scax: " + installed("A report", "matplotlib", "cli"), 2,
    ),
    "a command's terminal": (
        ["rich"], "import sys; sys.argv = ['scax', 'compare', 'iris']; import scax.cli; scax.cli.app()",
        "scax: " + installed("The scax command", "rich", "cli"), 2,
    ),
}  # fmt: skip


HIDE = """
import sys
class Hide:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide)
"""


@pytest.mark.parametrize("case", WITHOUT)
def test_a_missing_package_is_one_sentence(case, tmp_path):
    missing, code, line, end = WITHOUT[case]
    (tmp_path / "t.csv").write_text("a,y\n1,2\n3,4\n")
    (tmp_path / "run").mkdir()
    code = HIDE.format(missing=missing) + code
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.stderr.strip().splitlines()[-1:] == [line], run.stderr
    assert run.returncode == end
    assert end == 1 or len(run.stderr.strip().splitlines()) == 1


def test_other_packages_that_are_missing_are_not_explained_away():
    """A package of the core, or one inside a package of an extra: the error stays what it is."""
    from scax._extras import required_by

    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'polars.nothing'$"), required_by("This"):
        importlib.import_module("polars.nothing")
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nothing_of_ours'$"), required_by("This"):
        importlib.import_module("nothing_of_ours")

"""What is said about the extras, in messages, documents and examples, is what pyproject.toml has."""

import re
import sys
import tomllib
from pathlib import Path

import jax
import numpy as np
import pytest

import scax

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
TEXTS += [*(ROOT / "examples").glob("*.py"), *(ROOT / "src").rglob("*.py")]


def test_every_extra_that_is_named_exists():
    found = {}
    for file in TEXTS:
        for names in re.findall(r"(?:scax|'\.)\[([a-z,]+)\]", file.read_text(encoding="utf-8")):
            found |= dict.fromkeys(names.split(","), file.name)
    assert found.keys() >= EXTRAS.keys() - {"dev"}, "an extra that nothing names"
    assert found.keys() <= EXTRAS.keys(), {name: found[name] for name in found.keys() - EXTRAS.keys()}


def test_the_readme_lists_them():
    (told,) = re.findall(r"^Extras are named in brackets.*?\n\n", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    assert set(re.findall(r"`([a-z]+)`", told)) == EXTRAS.keys() - {"dev"}


def test_without_onnx_and_ray_one_line_says_what_to_install(tmp_path, monkeypatch):
    net = scax.MLP((2, 1))
    params, rows = net.init(jax.random.key(0)), (np.ones((4, 2), np.float32), np.ones(4, np.float32))
    scax.save(tmp_path / "m.safetensors", net, params, loss=scax.Squared())
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(scax.storage.FileError) as caught:
        scax.load(tmp_path / "m.safetensors").to_onnx(tmp_path / "m.onnx")
    assert str(caught.value) == "ONNX files need the onnx package: pip install 'scax[onnx]'"
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError) as caught:
        scax.train_async(scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(0.1))), params, rows, steps=1)
    assert str(caught.value) == "train_async needs Ray: pip install 'scax[ray]'"

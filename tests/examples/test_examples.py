"""Every script of examples/ runs, and finds what it says it finds."""

import re
import runpy
import sys
from pathlib import Path

import jax
import pytest

FOLDER = Path(__file__).parents[2] / "examples"

#: script → (the extra it needs, a pattern with one number in it, the least and the most it may be)
FOUND = {
    "first_steps": (None, r"RMSE on rows not seen: ([\d.]+)", 0.09, 0.2),
    "scikit_learn": (None, r"SCARegressor: R² ([\d.]+)", 0.4, 0.6),
    "csv_table": (None, r"typical error ([\d.]+)", 5, 15),
    "flax_nnx": ("flax", r"([\d.]+)% of 119 rows", 93, 100),
    "equinox_model": ("equinox", r"([\d.]+)% of 38 rows", 90, 100),
    "torch_module": ("torch", r"R² on 102 rows not seen: ([\d.]+)", 0.25, 0.65),
    "digits_cnn": (None, r"([\d.]+)% of 201 digits", 93, 100),
    "sequence": (None, r"([\d.]+)% of 200 signals", 85, 100),
    "sparse_convolutions": (None, r"([\d.]+)% of 200 signals", 90, 100),
    "many_seeds": (None, r"L2\(0.1\): test RMSE ([\d.]+)", 0.6, 0.85),
}


#: script → (steps, the largest error that `main(steps)` may give)
SHORTENED = {
    "poisson": (25, 0.1),
    "poisson_5d": (25, 0.3),
    "burgers": (10, 1.0),
    "allen_cahn": (3, 2.0),
    "find_coefficient": (60, 0.06),
    "duffing": (30, 0.1),
    "chemical_kinetics": (20, 0.03),
}


@pytest.mark.parametrize("name", FOUND)
def test_example(name, capsys):
    extra, pattern, least, most = FOUND[name]
    if extra is not None:
        pytest.importorskip(extra, reason=f"needs the extra: pip install 'scax[{extra}]'")
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    told = capsys.readouterr().out
    number = re.search(pattern, told)
    assert number, told
    assert least <= float(number[1]) <= most, told


@pytest.mark.parametrize("name", SHORTENED)
def test_worked_problem_shortened(name):
    steps, most = SHORTENED[name]
    before = jax.config.read("jax_enable_x64")
    try:
        assert runpy.run_path(str(FOLDER / f"{name}.py"))["main"](steps) < most
    finally:
        jax.config.update("jax_enable_x64", before)  # each script asks for float64


@pytest.mark.parametrize("name", [name for name, (extra, *_) in FOUND.items() if extra is not None])
def test_without_the_extra_one_line_says_what_to_install(name, monkeypatch):
    extra = FOUND[name][0]
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert re.fullmatch(rf"This example needs \w+: pip install 'scax\[{extra}\]'", str(caught.value))
    assert f"Needs pip install 'scax[{extra}]'." in (FOLDER / f"{name}.py").read_text(encoding="utf-8")


def test_each_is_short_and_says_how_to_run_it():
    scripts = sorted(FOLDER.glob("*.py"))
    assert {script.stem for script in scripts} >= FOUND.keys() | SHORTENED.keys()
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert text.count("\n") < (60 if script.stem not in SHORTENED else 80), script.name
        assert f"python examples/{script.name}" in text, script.name

"""The reference has an entry for every public name, each with an example that runs.

Examples that train run when the manual is built (`make docs`), the others here.
"""

import doctest
import re

import jax
import pytest

import scax
from tools import reference
from tools.reference import ENTRIES

TRAINS = {
    *(
        "train",
        "train_many",
        "train_async",
        "train_by_evidence",
        "path",
        "Path",
        "refit",
        "finish",
        "baseline",
        "Result",
    ),
    *("posterior", "Posterior", "Stationarity", "stationarity", "as_optax", "SCA", "federated.simulate"),
    "federated.Local",
    *("estimators.SCARegressor", "estimators.SCAClassifier"),
}


@pytest.fixture(scope="module")
def scope():
    return reference.scope()


def test_every_public_name_has_an_entry_with_an_example():
    assert sorted(ENTRIES) == sorted(set(ENTRIES))
    assert {name for names in scax._NAMES.values() for name in names} <= set(ENTRIES)
    for name in ENTRIES:
        text = reference.docstring(name)
        executed = [each for each in reference.example(name).examples if not each.options.get(doctest.SKIP)]
        assert text.split(">>>")[0].strip(), f"{name} does not say what it is"
        assert executed or name == "train_async", f"{name} has no example that runs"  # that one starts a cluster
    assert set(ENTRIES) >= TRAINS


def test_every_entry_begins_in_words():
    for name in ENTRIES:
        first = reference.docstring(name).split("\n\n")[0].split(">>>")[0].split(". ")[0]
        assert not re.search("[=Σ∂∇‖]", re.sub("`[^`]*`", "", first)), f"{name}: {first}"


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in TRAINS])
def test_the_example_runs(name, scope):
    if reference.is_missing(name):
        pytest.skip(f"{reference.NEEDS[name]} is not installed")
    with jax.enable_x64(False):
        assert not (said := reference.run(name, scope)), said

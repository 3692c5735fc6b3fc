"""Numbers beyond the range of float32, and a process that cannot compute: refused or warned about, never silent."""

import subprocess
import sys

import jax
import numpy as np
import optax
import pytest

import scax
from benchmarks import extremes

NET = scax.MLP((3, 3, 1))
PROBLEM = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-3))
X = np.random.default_rng(0).normal(size=(40, 3))


def train(x, y, method=None):
    return scax.train(
        method or scax.SCA(PROBLEM), NET.init(jax.random.key(0)), (x, y), steps=8, batch_size=10, records=2
    )


def test_a_short_run_of_the_benchmark():
    assert extremes.run(fits=3, trains=6) == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_whose_loss_is_infinite_are_refused_with_the_scale_to_use(dtype):
    y = np.full(40, 1e20, dtype)
    expected = (
        r"^y has values up to 1e\+20, whose Squared loss is not finite in float32: divide y by 1e\+20 and multiply"
    )
    with pytest.raises(ValueError, match=expected):
        train(X.astype(np.float32), y)
    with pytest.raises(ValueError, match=expected):
        PROBLEM.objective(NET.init(jax.random.key(0)), X.astype(np.float32), y)
    assert np.isfinite(train(X.astype(np.float32), y / 1e20).history["objective"]).all()


def test_a_loss_that_is_finite_there_is_computed():
    problem = scax.Problem(NET.apply, scax.Huber(1.0), scax.L2(1e-3))
    found = problem.objective(NET.init(jax.random.key(0)), X.astype(np.float32), np.full(40, 1e20, np.float32))
    assert np.isfinite(found)


def test_numbers_that_the_cast_makes_infinite_are_refused():
    for x, y, name in ((X * 1e300, X[:, 0], "x"), (X, X[:, 0] * 1e300, "y")):
        with pytest.raises(
            ValueError, match=rf"^{name} has values up to .*e\+300, beyond the largest float32, 3.4e\+38"
        ):
            train(x, y)


def test_a_training_that_diverges_says_so():
    sgd = scax.baseline(optax.sgd(1e6), PROBLEM)
    with pytest.warns(
        RuntimeWarning, match=r"^the objective is (nan|inf) after 8 steps, on rows with x up to .*smaller"
    ):
        train(X.astype(np.float32), X[:, 0].astype(np.float32), sgd)


FORK = """
import os, sys, warnings, numpy as np, jax, scax
from scax.estimators import SCARegressor
warnings.simplefilter("ignore")  # JAX warns of the fork
x = np.ones((20, 2))
if sys.argv[1] == "after":
    jax.numpy.ones(3).sum().block_until_ready()
if os.fork() == 0:
    for call in (lambda: SCARegressor().fit(x, x[:, 0]), lambda: scax.MLP((2, 1)).init(None)):
        try:
            call()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_forked_child_of_a_process_that_has_used_jax_is_told_what_to_do(when):
    code = FORK if when == "after" else FORK.replace("SCARegressor().fit(x, x[:, 0])", "scax.MLP((2, 1)).init(None)")
    run = subprocess.run([sys.executable, "-c", code, when], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        told = "RuntimeError: this process was forked from one that had used JAX" in line and "'spawn'" in line
        assert told == (when == "after"), line

"""The objective in slices, on some rows, and as a record measures it."""

import jax.numpy as jnp
import numpy as np

import scax
from scax.training.evaluation import Objective, evaluate, spread_rows
from tests.cases import mlp, rows, start

NET = mlp(1)
X = rows(0, 30, dtype=np.float32)
Y = np.sin(2 * X[:, 0])
PROBLEM = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-3))
PARAMS = start(NET, 0, np.float32)


def test_evaluation_in_slices_is_evaluation():
    batch, whole = scax.Batch(jnp.asarray(X), jnp.asarray(Y)), PROBLEM.objective(PARAMS, X, Y)
    for size in (4, 7, 30, 100):
        np.testing.assert_allclose(evaluate(PROBLEM, PARAMS, batch, rows=size), whole, rtol=1e-5)


def test_a_record_measures_the_solution():
    sca = scax.SCA(PROBLEM)
    state, _ = sca.step(sca.init(PARAMS), (X, Y))
    part = scax.Batch(jnp.asarray(X[:9]), jnp.asarray(Y[:9]))
    measured = Objective(scax.Batch(jnp.asarray(X), jnp.asarray(Y)), part)(sca, state)
    solution = sca.solution(state)
    np.testing.assert_allclose(measured["objective"], PROBLEM.objective(solution, X, Y), rtol=1e-5)
    loss = np.mean((np.asarray(NET.apply(solution, X[:9]))[:, 0] - Y[:9]) ** 2)
    np.testing.assert_allclose(measured["validation_loss"], loss, rtol=1e-4)


def test_rows_that_have_weight_are_spread():
    weight = np.where(np.arange(30) < 10, 0.0, 1.0).astype(np.float32)
    batch = scax.Batch(jnp.asarray(X), jnp.arange(30.0), jnp.asarray(weight))
    few = spread_rows(batch, 5)
    np.testing.assert_array_equal(few.y, [10, 14, 19, 24, 29])
    assert spread_rows(batch, 20) is batch

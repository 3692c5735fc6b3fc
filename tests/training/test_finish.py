"""How a run with a nonsmooth penalty ends: exact zeros, at a stationary point."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from tests.sparse import NET, data, trained


def test_training_ends_with_exact_zeros_at_a_stationary_point():
    problem, result = trained()
    before = scax.stationarity(problem, result.state.params, data())
    after = scax.stationarity(problem, result.params, data())
    assert before.zeros < 0.05
    assert after.zeros > 0.3
    assert after.on < 0.05
    assert after.off < 0.05
    assert after.on + after.off < before.on + before.off
    used = np.any(np.asarray(result.params[0]["weight"]) != 0, axis=1)
    assert used[0]
    assert used[3]
    assert not np.all(used)  # whole inputs are gone
    assert problem.objective(result.params, *data()) <= problem.objective(result.state.params, *data())


def test_finish_is_optional_and_leaves_smooth_penalties_alone():
    params = NET.init(jax.random.key(0))
    lasso = scax.SCA(scax.Problem(NET.apply, scax.Squared(), scax.L1(1e-2)))
    raw = scax.train(lasso, params, data(), steps=5, batch_size=30, records=1, finish=0)
    same = jax.tree.map(lambda a, b: bool(jnp.all(a == b)), raw.params, lasso.solution(raw.state))
    assert all(jax.tree.leaves(same))
    ridge = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-2))
    assert scax.finish(ridge, params, data()) is params
    with pytest.raises(ValueError, match="finish must be a whole number ≥ 0, got -1"):
        scax.train(lasso, params, data(), steps=5, finish=-1)


def test_large_problems_finish_by_proximal_gradients(monkeypatch):
    monkeypatch.setattr(importlib.import_module("scax.training.finish"), "LARGEST_JACOBIAN", 0)
    params = NET.init(jax.random.key(0))
    problem = scax.Problem(NET.apply, scax.Squared(), scax.L1(2e-2))
    end = scax.finish(problem, params, data())
    assert scax.stationarity(problem, end, data()).zeros > 0.2
    assert problem.objective(end, *data()) < problem.objective(params, *data())

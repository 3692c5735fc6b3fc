"""A sparse network trained on without what made it sparse."""

import jax
import numpy as np

import scax
from tests.sparse import data, flat, trained


def test_refit_trains_what_is_left_and_nothing_else():
    problem, result = trained()
    end = scax.refit(problem, result.params, data(), steps=150, batch_size=30, ridge=1e-6)
    before, after = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(p)]) for p in (result.params, end))
    assert np.all(after[before == 0] == 0)
    assert np.any(after != before)
    loss = lambda params: float(problem.objective(params, *data())) - float(problem.regularizer.value(flat(params)))
    assert loss(end) < loss(result.params)  # the group penalty had shrunk what it kept
    strong = scax.refit(problem, result.params, data(), steps=150, batch_size=30, ridge=10.0)
    assert np.linalg.norm(flat(strong)) < np.linalg.norm(flat(end))

"""Paths of strengths: order, judgment, where they end."""

import importlib

import jax
import numpy as np
import pytest

import scax
from tests.sparse import NET, data


def test_path_goes_from_weak_to_strong():
    x, y = data()
    params = NET.init(jax.random.key(0))
    problem = scax.Problem(NET.apply, scax.Squared(), scax.GroupLasso(1.0, scax.neuron_groups(params)))
    seen = []
    path = scax.path(
        problem, [0.3, 1e-3, 1e-2], params=params, data=(x[:90], y[:90]), validation=(x[90:], y[90:]),
        steps=40, batch_size=30, on_record=seen.append,
    )  # fmt: skip
    assert path.strengths.tolist() == [1e-3, 1e-2, 0.3]
    assert [record["strength"] for record in seen] == path.strengths.tolist()
    assert path.weights[0] > path.weights[1] > path.weights[2]
    assert path.neurons[2] < path.neurons[0]
    assert path.loss[path.best] == path.loss.min()
    assert path.best <= path.suggested < 2  # the last holds next to nothing
    assert path.excess[path.suggested] <= path.error[path.suggested]
    assert path.strength == path.strengths[path.suggested]
    lines = repr(path).splitlines()[1:]  # a table, not every weight of every network
    assert [float(line.split()[0]) for line in lines] == path.strengths.tolist()
    assert lines[path.suggested].endswith("suggested")
    w = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(path.solution)])
    assert np.count_nonzero(w) == path.weights[path.suggested]
    with pytest.raises(ValueError, match="strengths must be a finite number ≥ 0"):
        scax.path(problem, [-1.0], params=params, data=data(), validation=data())


def test_a_path_with_refit_is_judged_by_the_refitted_networks():
    x, y = data()
    params = NET.init(jax.random.key(0))
    problem = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-4) + scax.L1(1.0))
    both = [
        scax.path(
            problem, [3e-2], params=params, data=(x[:90], y[:90]), validation=(x[90:], y[90:]), first_steps=60,
            batch_size=30, refit=refit,
        )
        for refit in (False, True)
    ]  # fmt: skip
    assert both[0].weights[0] == both[1].weights[0] < 100
    assert both[1].loss[0] < both[0].loss[0]
    assert (
        importlib.import_module("scax.training.path").scale(problem.regularizer, 2.0).ridge == 1e-4
    )  # the ridge beside it stays


def test_a_path_is_not_cut_short_by_a_loss_below_zero():
    """Poisson's loss leaves out log y!, and is negative for ordinary counts."""
    from scax.training.strength import choose_strength

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    y = rng.poisson(np.exp(1.5 + 0.3 * x[:, 0])).astype(np.float32)
    net = scax.MLP((3, 4, 1))
    problem = scax.Problem(net.apply, scax.Poisson(), scax.L1(1.0))
    found = choose_strength(
        problem, net.init(jax.random.key(0)), (x[:40], y[:40]), (x[40:], y[40:]), steps=20, batch_size=20
    )
    assert np.min(found.loss) < 0
    assert len(found.strengths) > 3

"""Exactly sparse networks: how a run ends, the smaller network, the path of strengths."""

import importlib
import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax

NET = scax.MLP((6, 8, 5, 1))


@pytest.fixture(scope="module")
def data():
    """The target depends on two of six inputs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 6)).astype("f")
    return x, np.tanh(x[:, 0] - x[:, 3]) + 0.05 * rng.normal(size=120).astype("f")


@pytest.fixture(scope="module")
def trained(data):
    params = NET.init(jax.random.key(0))
    problem = scax.Problem(NET.apply, scax.Squared(), scax.GroupLasso(4e-3, scax.neuron_groups(params)))
    return problem, scax.train(scax.SCA(problem), params, data, steps=150, batch_size=30, records=1)


def test_training_ends_with_exact_zeros_at_a_stationary_point(data, trained):
    problem, result = trained
    before = scax.stationarity(problem, result.state.params, data)
    after = scax.stationarity(problem, result.params, data)
    assert before.zeros < 0.05
    assert after.zeros > 0.3
    assert after.on < 0.05
    assert after.off < 0.05
    assert after.on + after.off < before.on + before.off
    used = np.any(np.asarray(result.params[0]["weight"]) != 0, axis=1)
    assert used[0]
    assert used[3]
    assert not np.all(used)  # whole inputs are gone
    assert problem.objective(result.params, *data) <= problem.objective(result.state.params, *data)


def test_finish_is_optional_and_leaves_smooth_penalties_alone(data):
    params = NET.init(jax.random.key(0))
    lasso = scax.SCA(scax.Problem(NET.apply, scax.Squared(), scax.L1(1e-2)))
    raw = scax.train(lasso, params, data, steps=5, batch_size=30, records=1, finish=0)
    same = jax.tree.map(lambda a, b: bool(jnp.all(a == b)), raw.params, lasso.solution(raw.state))
    assert all(jax.tree.leaves(same))
    ridge = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-2))
    assert scax.finish(ridge, params, data) is params
    with pytest.raises(ValueError, match="finish must be a whole number ≥ 0, got -1"):
        scax.train(lasso, params, data, steps=5, finish=-1)


def test_large_problems_finish_by_proximal_gradients(data, monkeypatch):
    monkeypatch.setattr(importlib.import_module("scax.training.finish"), "LARGEST_JACOBIAN", 0)
    params = NET.init(jax.random.key(0))
    problem = scax.Problem(NET.apply, scax.Squared(), scax.L1(2e-2))
    end = scax.finish(problem, params, data)
    assert scax.stationarity(problem, end, data).zeros > 0.2
    assert problem.objective(end, *data) < problem.objective(params, *data)


# -- compact -----------------------------------------------------------------------------------------


def test_compact_gives_the_same_outputs_with_less(data, trained):
    _, result = trained
    small = scax.compact(NET, result.params)
    assert small.net.widths[0] == len(small.inputs) < 6
    assert small.after.stored < small.before.stored
    assert small.after.multiply_adds < small.before.multiply_adds
    np.testing.assert_allclose(small.apply(data[0]), NET.apply(result.params, data[0]), atol=1e-6)
    assert "multiply-adds" in str(small)
    assert all(t > 0 for t in small.seconds(rows=8, repeats=1))


@pytest.mark.parametrize("activation", ["tanh", "softplus", "sigmoid"])
@pytest.mark.parametrize("seed", range(4))
def test_compact_on_random_zeros(seed, activation, x64):
    """Dead ends, constants and what follows from them, in any pattern."""
    net = scax.MLP((4, 6, 5, 2), activation)
    rng = np.random.default_rng(seed)
    params = [
        {"weight": rng.normal(size=(a, b)) * (rng.uniform(size=(a, b)) < 0.25), "bias": rng.normal(size=b)}
        for a, b in ((4, 6), (6, 5), (5, 2))
    ]
    x = rng.normal(size=(7, 4))
    small = scax.compact(net, params)
    np.testing.assert_allclose(small.apply(x), net.apply(params, x), rtol=1e-12, atol=1e-12)
    for before, after in zip(small.params[:-1], small.params[1:], strict=True):
        if all(np.any(layer["weight"]) for layer in small.params):  # not a constant network
            assert np.all(np.any(before["weight"] != 0, axis=0))
            assert np.all(np.any(after["weight"] != 0, axis=1))


def test_compact_of_a_constant_network(x64):
    params = [{"weight": np.zeros((3, 4)), "bias": np.ones(4)}, {"weight": np.ones((4, 1)), "bias": np.zeros(1)}]
    net = scax.MLP((3, 4, 1))
    small = scax.compact(net, params)
    assert small.net.widths == (1, 1, 1)
    np.testing.assert_allclose(small.apply(np.zeros((2, 3))), net.apply(params, np.zeros((2, 3))), rtol=1e-14)


def test_compact_refuses_what_it_cannot_read():
    with pytest.raises(ValueError, match="are those of a network of widths"):
        scax.compact(NET, NET.init(jax.random.key(0))[:1])


# -- path --------------------------------------------------------------------------------------------


def test_path_goes_from_weak_to_strong(data):
    x, y = data
    params = NET.init(jax.random.key(0))
    problem = scax.Problem(NET.apply, scax.Squared(), scax.GroupLasso(1.0, scax.neuron_groups(params)))
    seen = []
    path = scax.path(
        problem, [0.3, 1e-3, 1e-2], params=params, data=(x[:90], y[:90]), validation=(x[90:], y[90:]),
        steps=40, batch_size=30, told=seen.append,
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
        scax.path(problem, [-1.0], params=params, data=data, validation=data)


def test_the_example_ends_with_a_network_a_fifth_of_the_size(tmp_path, capsys):
    file = Path(__file__).parents[1] / "examples" / "sparse_from_csv.py"
    spec = importlib.util.spec_from_file_location("sparse_from_csv", file)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    small = example.main(*example.made_up(tmp_path), steps=100)
    assert small.before.stored >= 5 * small.after.stored
    told = re.search(r"inputs used, and the size of their weights: (.*)", capsys.readouterr().out)
    assert told
    used = {name: float(size) for name, size in (word.split() for word in told[1].split(", "))}
    assert len(used) == len(small.inputs)
    assert set(list(used)[:3]) == {"c1", "c4", "c9"}  # the columns that decide the target, largest first
    assert min(list(used.values())[:3]) > 10 * max([*list(used.values())[3:], 0.0])


# -- refit -------------------------------------------------------------------------------------------


def test_refit_trains_what_is_left_and_nothing_else(data, trained):
    problem, result = trained
    end = scax.refit(problem, result.params, data, steps=150, batch_size=30, ridge=1e-6)
    before, after = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(p)]) for p in (result.params, end))
    assert np.all(after[before == 0] == 0)
    assert np.any(after != before)
    loss = lambda params: float(problem.objective(params, *data)) - float(problem.regularizer.value(_flat(params)))
    assert loss(end) < loss(result.params)  # the group penalty had shrunk what it kept
    strong = scax.refit(problem, result.params, data, steps=150, batch_size=30, ridge=10.0)
    assert np.linalg.norm(_flat(strong)) < np.linalg.norm(_flat(end))


def test_a_path_with_refit_is_judged_by_the_refitted_networks(data):
    x, y = data
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


def test_support_holds_weights_at_zero():
    free = jnp.asarray([True, False, True])
    part, w = scax.Support(free), jnp.asarray([1.0, 2.0, -3.0])
    np.testing.assert_array_equal(part.prox(w, 0.5), [1, 0, -3])
    assert part.value(w) == np.inf
    assert part.value(part.prox(w, 1.0)) == 0
    np.testing.assert_array_equal(part.take(jnp.asarray([1, 2])).free, [False, True])
    with pytest.raises(ValueError, match="which of 3 weights may move but the network trains"):
        scax.SCA(scax.Problem(NET.apply, scax.Squared(), scax.L2(1.0) + part)).init(NET.init(jax.random.key(0)))
    params = NET.init(jax.random.key(0))
    held = scax.L2(1.0) + scax.Support(jnp.arange(_flat(params).size) != _flat(params).size - 1)
    sca = scax.SCA(scax.Problem(NET.apply, scax.Squared(), held))
    with pytest.raises(ValueError, match=r"params has 1 of the weights that Support holds at zero: set them to 0\.0"):
        sca.init(params)
    assert jax.jit(sca.init)(params).w[-1] == 0


def _flat(params):
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(params)])


def test_a_path_is_not_cut_short_by_a_loss_below_zero():
    """Poisson's loss leaves out log y!, and is negative for ordinary counts."""
    from scax.training.strength import chosen

    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    y = rng.poisson(np.exp(1.5 + 0.3 * x[:, 0])).astype(np.float32)
    net = scax.MLP((3, 4, 1))
    problem = scax.Problem(net.apply, scax.Poisson(), scax.L1(1.0))
    found = chosen(problem, net.init(jax.random.key(0)), (x[:40], y[:40]), (x[40:], y[40:]), steps=20, batch_size=20)
    assert np.min(found.loss) < 0
    assert len(found.strengths) > 3

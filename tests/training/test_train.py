"""The compiled loop against a loop by hand; history, validation, stopping; unlabeled rows; baselines."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import scax
from scax.tables.shuffle import Shuffle
from tests.cases import mlp, rows, start
from tests.test_sca import vector


def setting(regularizer=scax.L2(1e-3), n=30):
    net = mlp(1)
    x = rows(0, n, dtype=np.float32)
    y = np.sin(2 * x[:, 0]).astype(np.float32)
    return scax.Problem(net.apply, scax.Squared(), regularizer), start(net, 0, np.float32), (x, y)


@pytest.mark.parametrize("make", [scax.SCA, lambda p: scax.baseline(optax.adam(1e-2), p)], ids=["sca", "adam"])
def test_train_is_a_loop_by_hand(make):
    problem, params, (x, y) = setting()
    method = make(problem)
    key = jax.random.key(3)
    result = scax.train(method, params, (x, y), steps=9, batch_size=7, key=key, records=2)
    state, stream, losses = method.init(params), Shuffle.start(key, len(x)), []
    for _ in range(9):
        stream, index = stream.draw(7)
        state, info = method.step(state, (x[index], y[index]))
        losses.append(float(info.loss))
    np.testing.assert_allclose(vector(result.params), vector(method.solution(state)), rtol=2e-3, atol=2e-4)
    history = result.history
    np.testing.assert_array_equal(history["step"], [5, 9])
    np.testing.assert_allclose(history["batch_loss"], [np.mean(losses[:5]), np.mean(losses[5:])], rtol=1e-3)
    np.testing.assert_allclose(history["objective"][-1], problem.objective(result.params, x, y), rtol=1e-5)
    assert np.all(history.get("accepted", 1) == 1)
    assert np.all(np.diff(history["seconds"]) > 0)


def test_validation_callback_and_going_on():
    problem, params, (x, y) = setting()
    sca = scax.SCA(problem)
    seen = []

    def stop(record):
        seen.append(record)
        return len(seen) == 2

    part = scax.train(sca, params, (x, y), steps=40, batch_size=8, records=8, validation=(x[:9], y[:9]), callback=stop)
    assert [r["step"] for r in seen] == [5, 10]
    np.testing.assert_array_equal(part.history["step"], [5, 10])
    z = np.asarray(problem.apply(part.params, x[:9]))[:, 0]
    np.testing.assert_allclose(part.history["validation_loss"][-1], np.mean((z - y[:9]) ** 2), rtol=1e-4)
    more = scax.train(sca, params, (x, y), steps=5, batch_size=8, records=1, state=part.state)
    assert int(more.state.count) == 15
    assert int(part.state.count) == 10  # the state handed in was copied, not consumed


def test_the_key_decides_the_batches():
    problem, params, data = setting()
    run = lambda key: vector(scax.train(scax.SCA(problem), params, data, steps=4, batch_size=5, key=key).params)
    a, again, b = run(jax.random.key(0)), run(None), run(jax.random.key(1))
    np.testing.assert_array_equal(a, again)
    assert not np.array_equal(a, b)


def test_sample_weights_reach_the_objective():
    problem, params, (x, y) = setting()
    weight = np.where(np.arange(30) < 10, 1.0, 0.0).astype(np.float32)
    sca = scax.SCA(problem)
    weighted = scax.train(sca, params, (x, y, weight), steps=3, batch_size=30, records=1)
    np.testing.assert_allclose(
        weighted.history["objective"][-1], problem.objective(weighted.params, x[:10], y[:10]), rtol=1e-5
    )


def test_evaluation_in_slices_is_evaluation():
    from scax.training.evaluation import evaluate

    problem, params, (x, y) = setting()
    batch = scax.Batch(jnp.asarray(x), jnp.asarray(y))
    whole = problem.objective(params, x, y)
    for size in (4, 7, 30, 100):
        np.testing.assert_allclose(evaluate(problem, params, batch, rows=size), whole, rtol=1e-5)


# -- manifold ------------------------------------------------------------------------------------------


def test_unlabeled_rows_take_part():
    """Two moons of points, one label each: with the penalty the outputs vary less along each moon."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 40)
    side = np.arange(40) % 2
    x = np.stack([np.cos(angle) + side, np.where(side, -np.sin(angle) + 0.3, np.sin(angle))], 1)
    x = np.concatenate([x, np.zeros((40, 1))], 1).astype(np.float32)
    graph = scax.knn_graph(x, 4)
    net = mlp(1)
    params = start(net, 0, np.float32)
    labeled, unlabeled, y = x[:4], x[4:], np.where(side[:4], 1.0, -1.0).astype(np.float32)
    variation = {}
    for strength in (0.0, 20.0):
        problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3), manifold=scax.Manifold(strength, graph))
        method = scax.SCA(problem, damping=0.1, step_size=0.3, carry=0.0, acceptance=False)
        run = scax.train(method, params, (labeled, y), steps=100, batch_size=4, records=1, unlabeled=unlabeled)
        z = np.asarray(net.apply(run.params, x))[:, 0]
        neighbors = np.asarray(graph.neighbors)
        variation[strength] = np.mean((z[:, None] - z[neighbors]) ** 2)
    assert variation[20.0] < 0.5 * variation[0.0]


def test_mini_batch_pairs_estimate_the_whole_penalty(x64):
    """Averaged over all batches of an epoch, the gathered pairs give the explicit sum over the graph."""
    x = rows(0, 12)
    graph = scax.knn_graph(x, 3)
    net = mlp(2)
    params = start(net, 0)
    manifold = scax.Manifold(0.7, graph)
    z = net.apply(params, x)
    explicit = 0.0
    for i in range(12):
        for j, q in zip(graph.neighbors[i], graph.closeness[i], strict=True):
            explicit += 0.7 * q / 3 * jnp.sum((z[i] - z[j]) ** 2)
    np.testing.assert_allclose(manifold.value(z, graph.whole()), explicit, rtol=1e-10)
    parts = []
    for start_ in range(0, 12, 4):
        anchors = np.arange(start_, start_ + 4)
        own = graph.pairs(x, anchors)
        parts.append(manifold.value(net.apply(params, jnp.concatenate([x[anchors], own.extra])), own))
        beside = graph.pairs(x, anchors, start=2)
        rows_ = jnp.concatenate([x[:2], beside.extra])
        np.testing.assert_allclose(manifold.value(net.apply(params, rows_), beside), parts[-1], rtol=1e-10)
    np.testing.assert_allclose(np.mean(parts), explicit, rtol=1e-10)


def test_knn_graph():
    x = np.array([[0.0], [1.0], [1.5], [10.0]])
    graph = scax.knn_graph(x, 1)
    np.testing.assert_array_equal(graph.neighbors[:, 0], [1, 2, 1, 2])
    assert np.all((graph.closeness > 0) & (graph.closeness <= 1))
    assert graph.closeness[1, 0] > graph.closeness[0, 0]
    wide = scax.knn_graph(x, 1, width=100.0)
    assert np.all(wide.closeness > graph.closeness)


def test_refusals_of_graphs():
    problem, params, (x, y) = setting()
    graph = scax.knn_graph(x, 3)
    with_graph = scax.Problem(problem.apply, problem.loss, manifold=scax.Manifold(0.1, graph))
    sca = scax.SCA(with_graph)
    with pytest.raises(ValueError, match="the batch has 5 rows and the graph 30: give the batch's own pairs"):
        sca.step(sca.init(params), (x[:5], y[:5]))
    with pytest.raises(ValueError, match=r"the graph has 30 rows but there are 33 .*build it with knn_graph"):
        scax.train(sca, params, (x, y), steps=1, unlabeled=x[:3])
    pairs = graph.pairs(x, np.arange(5))
    plain = scax.SCA(problem)
    with pytest.raises(ValueError, match="neighbor pairs but the problem no manifold penalty: give"):
        plain.step(plain.init(params), scax.Batch(x[:5], y[:5], pairs=pairs))
    with pytest.raises(ValueError, match="train gathers neighbor pairs itself"):
        scax.train(sca, params, scax.Batch(x, y, pairs=pairs), steps=1)
    assert "manifold rows: 15 neighbor pairs" in sca.explain(params, x[:5])


@pytest.mark.parametrize("solver", ["sample-space", "weight-space", "cg", "fista"])
def test_every_solver_serves_the_manifold(solver, x64):
    """A mini-batch with gathered pairs: the gradient of the explicit linearized sum is zero at ŵ."""
    x = rows(0, 12)
    graph = scax.knn_graph(x, 3)
    net = mlp(1)
    params = start(net, 0)
    solver = scax.solvers.Fista(tolerance=1e-14) if solver == "fista" else solver
    problem = scax.Problem(net.apply, scax.Logistic(), scax.L2(0.01), manifold=scax.Manifold(0.3, graph))
    sca = scax.SCA(problem, solver=solver, step_size=1.0, damping=0.1, carry=0.0, acceptance=False)
    anchors = np.arange(4)
    pairs = graph.pairs(x, anchors)
    y = np.array([0.0, 1, 1, 0])
    best = sca.step(sca.init(params), scax.Batch(x[:4], y, pairs=pairs))[0].w
    w, unravel = ravel_pytree(params)
    everything = jnp.concatenate([x[:4], pairs.extra])

    def surrogate(v):
        network = lambda v: net.apply(unravel(v), everything)
        z, dz = jax.jvp(network, (w,), (v - w,))
        f = z + dz
        data = jnp.mean(problem.loss.value(f[:4], y[:, None])) + problem.manifold.value(f, pairs)
        return data + 0.005 * v @ v + 0.1 * jnp.sum((v - w) ** 2)

    assert np.linalg.norm(jax.grad(surrogate)(best)) < (1e-5 if not isinstance(solver, str) else 1e-8)


# -- baselines -----------------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": optax.sgd(0.05),
    "adam": optax.adam(1e-2),
    "adagrad": optax.adagrad(0.1),
    "rmsprop": optax.rmsprop(1e-2),
    "lion": optax.lion(1e-2),
    "lbfgs": optax.lbfgs(),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_lowers_the_same_objective(name):
    problem, params, (x, y) = setting(scax.ElasticNet(1e-3))
    method = scax.baseline(OPTIMIZERS[name], problem)
    result = scax.train(method, params, (x, y), steps=30, batch_size=30, records=1)
    assert result.history["objective"][-1] < 0.98 * float(problem.objective(params, x, y))


def test_a_baseline_follows_the_gradient_of_u(x64):
    net = mlp(1)
    params, x, y = start(net, 0), rows(0, 8), rows(1, 8, 1)
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(0.3) + scax.L1(0.1))
    method = scax.baseline(optax.sgd(0.1), problem)
    state, info = method.step(method.init(params), (x, y))

    def u(p):
        w = ravel_pytree(p)[0]
        return jnp.mean((net.apply(p, x) - y) ** 2) + 0.15 * w @ w + 0.1 * jnp.sum(jnp.abs(w))

    value, gradient = jax.value_and_grad(u)(params)
    np.testing.assert_allclose(info.loss, value, rtol=1e-12)
    np.testing.assert_allclose(vector(state.params), vector(params) - 0.1 * vector(gradient), rtol=1e-10)
    assert method.solution(state) is not None


def test_a_baseline_keeps_the_box_and_may_average():
    problem, params, (x, y) = setting(scax.Box(0.4))
    run = lambda power: scax.train(
        scax.baseline(optax.sgd(0.1), problem, mean_power=power), params, (x, 9 * y), steps=20, batch_size=10, records=1
    )
    last, averaged = run(None), run(2.0)
    assert np.abs(vector(last.params)).max() <= np.float32(0.4)
    assert np.any(np.abs(vector(last.params)) == np.float32(0.4))
    assert not np.allclose(vector(last.params), vector(averaged.params))
    np.testing.assert_allclose(vector(averaged.state.params), vector(last.params), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="mean_power must be a finite number ≥ 0"):
        scax.baseline(optax.sgd(0.5), problem, mean_power=-1.0)


def test_sca_keeps_the_box():
    problem, params, (x, y) = setting(scax.Box(0.4))
    result = scax.train(scax.SCA(problem), params, (x, y), steps=15, batch_size=10, records=1)
    assert np.abs(vector(result.params)).max() <= 0.4 * (1 + 1e-6)
    assert result.history["objective"][-1] < float(problem.objective(params, x, y))

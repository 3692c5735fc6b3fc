"""The manifold penalty: graphs, pairs of a batch, unlabeled rows, every solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import scax
from tests.cases import mlp, rows, start


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
    net, x = mlp(1), rows(0, 30, dtype=np.float32)
    problem, params, y = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)), start(net, 0, np.float32), x[:, 0]
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

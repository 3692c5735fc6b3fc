"""A step spread over devices is the one-device step; how many messages it takes."""

import re

import jax
import numpy as np
import pytest

import scax
from scax.sca import _step
from scax.sharding import shares
from tests.cases import LOSSES, REGULARIZERS, convolution, convolution_params, mlp, rows, start

DEVICES = 4


def setting(loss="squared", regularizer="l2", dtype=np.float32, n=8, widths=(3, 7)):
    k = max(LOSSES[loss].outputs)
    net = mlp(k, widths)
    params = start(net, 0, dtype)
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    problem = scax.Problem(net.apply, LOSSES[loss].loss, REGULARIZERS[regularizer](size))
    return problem, params, (rows(1, n, dtype=dtype), LOSSES[loss].draw(2, n, k, dtype))


def after(sca, params, batch, steps=2):
    state = sca.init(params)
    for _ in range(steps):
        state, info = sca.step(state, batch)
        jax.block_until_ready(state)
    return np.asarray(state.w - sca.init(params).w), info


def close(spread, alone, dtype):
    scale = np.linalg.norm(alone)
    assert scale > 1e-3
    assert np.linalg.norm(spread - alone) / scale < (1e-5 if dtype == np.float32 else 1e-10)


def test_exact_is_the_one_device_step(dtype):
    """After one step δ is the same; memory and carried step take part in the second."""
    loss = "squared" if dtype == np.float32 else "softmax"
    problem, params, batch = setting(loss, dtype=dtype)
    options = {"averaging": 0.7, "damping": 0.1, "solver": "structured"}
    spread = scax.SCA(problem, parallel=scax.Parallel(DEVICES), **options)
    moved, info = after(spread, params, batch)
    assert info.accepted
    close(moved, after(scax.SCA(problem, **options), params, batch)[0], dtype)
    if dtype == np.float64:  # rows that do not share out evenly
        seven = (batch[0][:7], batch[1][:7])
        close(after(spread, params, seven)[0], after(scax.SCA(problem, **options), params, seven)[0], dtype)


@pytest.mark.parametrize(
    ("scheme", "curvature"),
    [
        ("exact", "exact"),
        ("exact", 1),
        ("exact", 2),
        ("data", "exact"),
        ("data", 2),
        ("blocks", "exact"),
        ("blocks", 2),
    ],
)
def test_eight_devices_do_what_one_does(scheme, curvature, x64):
    """More of them than the hidden layer has units, and rows that do not share out evenly."""
    problem, params, batch = setting("softmax", dtype=np.float64, n=12)
    options = {"damping": 0.1, "blocks": scax.Blocks(8) if scheme == "blocks" else None, "curvature": curvature}
    spread = scax.SCA(problem, parallel=scax.Parallel(8, scheme=scheme), **options)
    close(after(spread, params, batch)[0], after(scax.SCA(problem, **options), params, batch)[0], np.float64)


@pytest.mark.parametrize("scheme", ["exact", "data"])
@pytest.mark.parametrize("kind", [jax.sharding.AxisType.Explicit, jax.sharding.AxisType.Auto])
def test_a_mesh_may_have_explicit_axes_and_several(scheme, kind):
    problem, params, batch = setting()
    names = ("rows", "weights") if kind == jax.sharding.AxisType.Auto else ("d",)
    places = np.array(jax.devices()[:DEVICES]).reshape([-1, 2][: len(names)])
    mesh = jax.sharding.Mesh(places, names, axis_types=(kind,) * len(names))
    spread = scax.SCA(problem, damping=0.1, parallel=scax.Parallel(mesh, scheme))
    close(after(spread, params, batch)[0], after(scax.SCA(problem, damping=0.1), params, batch)[0], np.float32)


def test_exact_with_columns_pairs_and_tied_weights(x64, monkeypatch):
    """Parameters without layers, a manifold penalty's rows, a matrix used twice: every way J can be held."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 6, 6, 1))
    y = np.sin(x.sum((1, 2, 3)))
    graph = scax.knn_graph(x.reshape(8, -1), 2)
    plain = scax.Problem(convolution, scax.Squared(), scax.L2(0.02), manifold=scax.Manifold(0.1, graph))
    tied = scax.Problem(lambda p, x: jax.numpy.tanh(x @ p["a"]) @ p["a"].T @ p["b"], scax.Squared(), scax.L2(0.02))
    weights = {"a": rng.normal(size=(3, 5)), "b": rng.normal(size=(3, 1))}
    for problem, params, batch, solver, few in (
        (plain, convolution_params(0), (x, y), "structured", 512),
        (tied, weights, (x.reshape(8, -1)[:, :3], y), "structured", 512),
        (tied, weights, (x.reshape(8, -1)[:, :3], y), "sample-space", 0),  # 0: columns go to their device alone
    ):
        monkeypatch.setattr(shares, "FEW", few)
        alone, spread = (
            after(scax.SCA(problem, damping=0.1, solver=solver, parallel=parallel), params, batch, 1)[0]
            for parallel in (None, scax.Parallel(DEVICES))
        )
        close(spread, alone, np.float64)
    assert "all-to-all" in collectives(
        scax.SCA(tied, damping=0.1, solver="sample-space", parallel=scax.Parallel(DEVICES)), weights, batch
    )


def collectives(sca, params, batch):
    """The collectives of one compiled step, by name."""
    state = sca.init(params)
    text = _step.lower(sca, state, sca.problem.ready(params, batch)).compile().as_text()
    return re.findall(r"= .*? (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(", text)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_messages_of_the_exact_step(loss):
    """Rows, JJᵀ, δ, Jδ_prev for the clock, the check of the new point; in branches, a check of the mean and a number
    for the damping. With a memory of curvature, in a branch, what is remembered of a batch; its products with J go with
    JJᵀ."""
    problem, params, batch = setting(loss)
    sca = scax.SCA(problem, parallel=scax.Parallel(DEVICES))
    assert sorted(collectives(sca, params, batch)) == ["all-gather"] * 5 + ["all-reduce"] * 3
    sca = scax.SCA(problem, parallel=scax.Parallel(DEVICES), metric=None)
    assert sorted(collectives(sca, params, batch)) == ["all-gather"] * 4 + ["all-reduce"] * 3
    sca = scax.SCA(problem, parallel=scax.Parallel(DEVICES), acceptance=False, damping=0.1)
    assert sorted(collectives(sca, params, batch)) == ["all-gather"] * 3 + ["all-reduce"] * 2


@pytest.mark.parametrize("scheme", ["exact", "data"])
@pytest.mark.parametrize(("loss", "n"), [("squared", 8), ("softmax", 7), ("squared", 80)])
def test_rows_remembered_are_those_of_one_device(scheme, loss, n, x64):
    problem, params, batch = setting(loss, dtype=np.float64, n=n)
    ends = []
    for parallel in (None, scax.Parallel(DEVICES, scheme=scheme)):
        sca = scax.SCA(problem, parallel=parallel)
        state = sca.init(params)
        for _ in range(4):
            state, info = sca.step(state, batch)
            assert info.accepted
        ends.append(state)
    close(ends[1].w, ends[0].w, np.float64)
    close(ends[1].rules.memory.squares, ends[0].rules.memory.squares, np.float64)


BLOCKS = [
    ("softmax", "l2", scax.Blocks(5, by="neuron")),
    ("squared", "group", scax.Blocks(8, by="random", active=6, redraw=True)),
    ("squared", "l1", scax.Blocks(4, own_batch=True)),
]


@pytest.mark.parametrize(("loss", "regularizer", "blocks"), BLOCKS, ids=["padded", "redrawn", "own batch"])
def test_blocks_over_devices_are_blocks(loss, regularizer, blocks, x64):
    n = 8 if not blocks.own_batch else 12
    problem, params, batch = setting(loss, regularizer, np.float64, n=n)
    spread = scax.SCA(problem, blocks=blocks, damping=0.1, parallel=scax.Parallel(DEVICES, scheme="blocks"))
    moved, info = after(spread, params, batch)
    alone, told = after(scax.SCA(problem, blocks=blocks, damping=0.1), params, batch)
    close(moved, alone, np.float64)
    assert info.iterations == told.iterations
    if loss == "softmax":
        assert collectives(spread, params, batch) == ["all-gather"]


@pytest.mark.parametrize("regularizer", ["l2", "l1"])
def test_rows_over_devices(regularizer, x64):
    problem, params, batch = setting(regularizer=regularizer, dtype=np.float64)
    spread = scax.SCA(problem, damping=0.1, parallel=scax.Parallel(DEVICES, scheme="data"))
    moved, _ = after(spread, params, batch)
    close(moved, after(scax.SCA(problem, damping=0.1), params, batch)[0], np.float64)
    assert collectives(spread, params, batch)  # the work is indeed shared
    seven = (batch[0][:7], batch[1][:7])  # rows without weight fill them up
    close(after(spread, params, seven)[0], after(scax.SCA(problem, damping=0.1), params, seven)[0], np.float64)


def test_training_over_devices():
    problem, params, batch = setting(n=32)
    sca = scax.SCA(problem, parallel=scax.Parallel(DEVICES))
    result = scax.train(sca, params, batch, steps=30, batch_size=8, records=2)
    alone = scax.train(scax.SCA(problem, solver="structured"), params, batch, steps=30, batch_size=8, records=2)
    np.testing.assert_allclose(result.history["objective"], alone.history["objective"], rtol=1e-3)


def test_refusals():
    problem, _, _ = setting()
    nonsmooth = setting(regularizer="l1")[0]
    four = scax.Parallel(DEVICES)
    with pytest.raises(ValueError, match="scheme='rows' is not known"):
        scax.Parallel(scheme="rows")
    with pytest.raises(ValueError, match="mesh=99 devices, but there are"):
        scax.Parallel(99)
    with pytest.raises(TypeError, match="mesh must be a Mesh, a number of devices or None, got 'four'"):
        scax.Parallel("four")
    with pytest.raises(ValueError, match=r"scheme='blocks' needs blocks=scax.Blocks\(count\)"):
        scax.SCA(problem, parallel=scax.Parallel(DEVICES, scheme="blocks"))
    with pytest.raises(ValueError, match="scheme='exact' shares the Gram matrix of a smooth surrogate and got L1"):
        scax.SCA(nonsmooth, parallel=four)
    with pytest.raises(ValueError, match="solver 'cg' does not"):
        scax.SCA(problem, solver="cg", parallel=four)
    with pytest.raises(ValueError, match="leave blocks out"):
        scax.SCA(problem, blocks=scax.Blocks(2), parallel=four)

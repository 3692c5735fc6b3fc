"""The memory of curvature: what is remembered, and that the step it gives is the minimizer, found the long way."""

import concurrent.futures
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.linearize import Dense
from scax.linearize.network import NetworkFunction
from scax.surrogate import LinearizedBatch
from tests.cases import rows

LAM, TAU = 0.01, 0.003


def setting(loss=None, outputs=1, widths=(5, 4, 3), n=12, penalty=None):
    loss = loss or scax.Squared()
    net = scax.MLP((*widths, outputs), activation="tanh")
    params = jax.tree.map(lambda a: a.astype(float), net.init(jax.random.key(0)))
    x = rows(1, n, widths[0], float)
    y = x[:, :outputs] if isinstance(loss, scax.Squared) else np.arange(n) % max(outputs, 2)
    return scax.Problem(net.apply, loss, penalty or scax.L2(LAM)), params, (x, y)


def linearized(problem, state, batch):
    """J in its plain form, its rows, and the weights of those."""
    outputs, jacobian, weight = parts(problem, state, batch)
    lin = Dense(outputs, jacobian)
    return lin, np.asarray(jacobian).reshape(-1, lin.size), np.asarray(weight).reshape(-1)


@jax.jit
def parts(problem, state, batch):
    here = linearized_batch(problem, state, batch)
    return here.lin.outputs, here.lin.jacobian(), here.shares[:, None] * here._half_hessian()


def linearized_batch(problem, state, batch):
    batch = problem.ready(state.params, batch)
    network = NetworkFunction(problem, state.layout, state.frozen)
    lin = Dense.of(network, state.w, batch.x)
    return LinearizedBatch.of(problem, state.w, batch, None, lin, lambda w: network(w, batch.x))


def strength(sca, n, rows):
    """ς_n."""
    return sca.metric.share * min(1, 20 / rows) ** 1.5 * (1 + n / 25) ** 0.8


@pytest.mark.parametrize(("loss", "outputs"), [(scax.Squared(), 2), (scax.Softmax(), 3)], ids=str)
@pytest.mark.parametrize("n", [12, 30])
def test_the_step_minimizes_the_surrogate_with_rows_remembered(loss, outputs, n, x64):
    """There ρ/L Σ l(f + Jδ) + (1−ρ)dᵀδ + λ/2‖w + δ‖² + τ‖δ − c‖² + ς‖B(δ − c)‖², c = βδ_prev, has gradient zero."""
    problem, params, batch = setting(loss, outputs, n=n)
    sca = scax.SCA(problem, metric="low-rank", step_size=0.5, averaging=0.6, carry=0.5, mean_power=None)
    state = sca.init(params)
    for step in range(4):
        before, (state, info) = state, sca.step(state, batch)
        assert info.accepted
        lin, _, _ = linearized(problem, before, batch)
        δ, off, B = state.carried, state.carried - 0.5 * before.carried, state.rules.memory.rows
        y = problem.loss.targets(problem.ready(params, batch).y, outputs)
        slope = lin.vjp(problem.loss.gradient(lin.outputs + lin.jvp(δ), y) / len(batch[0]))
        remembered = strength(sca, step, n) * float(info.multiplier) * B.T @ (B @ off)
        gradient = (
            0.6 * slope + 0.4 * before.memory + LAM * (before.w + δ) + 2 * (float(info.damping) * off + remembered)
        )
        assert np.linalg.norm(gradient) <= 1e-7 * np.linalg.norm(slope)
        assert np.linalg.norm(remembered) > 1e-3 * np.linalg.norm(slope)


def test_with_room_for_all_it_is_the_average_of_all_batches(x64):
    """rank ≥ Q: BᵀB is the average of JᵀWJ, weights growing like n."""
    problem, params, (x, y) = setting(widths=(5, 3))
    sca = scax.SCA(problem, metric=scax.LowRank(rank=50, recent=1.0))
    state, total = sca.init(params), 0.0
    for n in range(5):
        part = np.arange(n, n + 6)
        _, J, w = linearized(problem, state, (x[part], y[part]))
        total = total + (n + 1) * (J.T * w) @ J
        state, _ = sca.step(state, (x[part], y[part]))
    B = state.rules.memory.rows
    np.testing.assert_allclose(B.T @ B, total / 15, atol=1e-12)
    np.testing.assert_allclose(B @ B.T, np.diag(state.rules.memory.squares), atol=1e-12)


def test_a_few_rows_are_the_best_that_few_can_say(x64):
    """After one batch: the largest eigenvalues of JᵀWJ and no other, in BᵀB."""
    problem, params, batch = setting()
    sca = scax.SCA(problem, metric=scax.LowRank(rank=4))
    before = sca.init(params)
    state, _ = sca.step(before, batch)
    _, J, w = linearized(problem, before, batch)
    expected = np.linalg.eigvalsh((J.T * w) @ J)[-4:]
    np.testing.assert_allclose(state.rules.memory.squares, expected, rtol=1e-10)
    np.testing.assert_allclose(np.linalg.svd(state.rules.memory.rows)[1][::-1] ** 2, expected, rtol=1e-10)


def test_of_many_rows_the_directions_that_matter_are_found(x64):
    """Beyond 64 rows RᵀR ⪯ JᵀWJ, their largest eigenvalues agree, and the order of the rows is all the same."""
    problem, params, (x, y) = setting(n=100)
    state = scax.SCA(problem, metric=None).init(params)
    few = jax.jit(lambda x, y: linearized_batch(problem, state, (x, y)).weighted_rows(16, jnp.asarray(3)))
    found = []
    for order in (np.arange(100), np.arange(100)[::-1]):
        lin, J, w = linearized(problem, state, (x[order], y[order]))
        R = np.asarray(few(x[order], y[order]))
        assert R.shape == (16, lin.size)
        found.append(R.T @ R)
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)
    whole = (J.T * w) @ J
    assert np.linalg.eigvalsh(whole - found[0]).min() > -1e-12
    np.testing.assert_allclose(np.linalg.eigvalsh(found[0])[-4:], np.linalg.eigvalsh(whole)[-4:], rtol=0.05)


@pytest.mark.parametrize("solver", ["weight-space", "sample-space", "structured", "cg", "newton"])
@pytest.mark.parametrize(("loss", "outputs"), [(scax.Squared(), 2), (scax.Softmax(), 3)], ids=str)
def test_every_solver_serves_it(solver, loss, outputs, x64):
    """With 2 and 3 outputs: 16 rows do not fill the last of 6 rows of three."""
    problem, params, batch = setting(loss, outputs)
    ends = []
    for name in ("auto", solver):
        sca = scax.SCA(problem, metric="low-rank", damping=TAU, solver=name)
        state = sca.init(params)
        for _ in range(3):
            state, info = sca.step(state, batch)
            assert info.accepted
        ends.append(state.w)
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("penalty", [scax.L1(0.01), scax.L1(0.01) + scax.L2(0.01)], ids=str)
def test_sparse_penalties_can_have_it(penalty, x64):
    problem, params, batch = setting(penalty=penalty)
    ends = []
    for solver in (
        scax.solvers.Semismooth(tolerance=1e-13),
        scax.solvers.Fista(tolerance=1e-13, max_iterations=50_000),
    ):
        sca = scax.SCA(problem, metric="low-rank", damping=TAU, solver=solver)
        state = sca.init(params)
        for _ in range(2):
            state, info = sca.step(state, batch)
            assert info.accepted
        ends.append(state.carried)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-5)  # a gap of 1e-13 is a distance of 1e-6 and more
    plain = scax.SCA(problem, metric=None, damping=TAU)
    assert np.linalg.norm(plain.step(plain.init(params), batch)[0].carried - ends[0]) > 1e-3


def test_beside_neighbor_pairs(x64):
    """The rows of a manifold penalty stand between the batch's and those remembered."""
    problem, params, (x, y) = setting()
    graph = scax.knn_graph(x, 2)
    problem = dataclasses.replace(problem, manifold=scax.Manifold(0.1, graph))
    batch = scax.Batch(x, y, None, graph.pairs(x, jnp.arange(len(x))))
    ends = []
    for solver in ("structured", "weight-space"):
        sca = scax.SCA(problem, metric="low-rank", damping=TAU, solver=solver)
        state = sca.init(params)
        for _ in range(3):
            state, info = sca.step(state, batch)
            assert info.accepted
        ends.append(state.w)
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-7, atol=1e-9)


def test_the_default_has_it_for_small_networks_with_smooth_penalties():
    problem, params, _ = setting()
    has = lambda sca, params=params: sca.init(params).rules.memory is not None
    assert has(scax.SCA(problem))
    assert has(scax.SCA(problem, metric="auto", damping=scax.Relative(share=0.01)))
    assert has(scax.SCA(problem, parallel=scax.Parallel(1)))
    assert not has(scax.SCA(problem, metric=None))
    assert not has(scax.SCA(problem, damping=TAU))
    assert not has(scax.SCA(problem, surrogate="full"))
    assert not has(scax.SCA(problem, blocks=scax.Blocks(2)))
    assert not has(scax.SCA(dataclasses.replace(problem, regularizer=scax.L1(0.1))))
    copied = jax.tree.map(lambda leaf: leaf, scax.SCA(problem))
    assert has(copied)
    assert not has(dataclasses.replace(copied, damping=TAU))
    assert not has(dataclasses.replace(copied, blocks=scax.Blocks(2)))
    assert has(dataclasses.replace(scax.SCA(problem, damping=TAU), damping=scax.Relative()))
    wide, large, _ = setting(widths=(5, 200))
    assert not has(scax.SCA(wide), large)
    assert has(scax.SCA(wide, metric="low-rank"), large)


def test_what_it_does_not_go_with():
    problem, params, batch = setting()
    with pytest.raises(ValueError, match="metric: surrogate='full' has no rows"):
        scax.SCA(problem, metric="low-rank", surrogate="full")
    with pytest.raises(ValueError, match=r"metric: blocks are solved apart.* leave metric= out"):
        scax.SCA(problem, metric="low-rank", blocks=scax.Blocks(2))
    with pytest.raises(ValueError, match="metric='diagonal' is not known"):
        scax.SCA(problem, metric="diagonal")
    with pytest.raises(ValueError, match="state remembers no rows of past batches, and this SCA 16"):
        scax.SCA(problem).step(scax.SCA(problem, metric=None).init(params), batch)
    with pytest.raises(ValueError, match="state remembers 3 rows of past batches, and this SCA 16"):
        scax.SCA(problem).step(scax.SCA(problem, metric=scax.LowRank(rank=3)).init(params), batch)
    with pytest.raises(ValueError, match="share must be"):
        scax.LowRank(share=-1.0)
    for rank in (0, True):
        with pytest.raises(ValueError, match="rank must be a whole number"):
            scax.LowRank(rank=rank)
    with pytest.raises(TypeError, match=r"metric must be 'auto', None, 'low-rank' or a scax.LowRank"):
        scax.SCA(problem, metric=3)


def test_explain_says_so():
    problem, params, (x, _) = setting()
    assert "metric: 16 rows remembered" in scax.SCA(problem).explain(params, x)
    assert "remembered" not in scax.SCA(problem, metric=None).explain(params, x)


def test_a_batch_that_is_not_finite_leaves_no_trace():
    problem, params, (x, y) = setting()
    sca = scax.SCA(problem)
    step = jax.jit(lambda s, x: sca.step(s, scax.Batch(x, y)), donate_argnums=0)
    state = sca.init(jax.tree.map(jnp.array, params))
    taken = []
    for i in range(12):
        state, info = step(state, jnp.asarray(x).at[0, 0].set(jnp.nan if i == 3 else 0.0))
        taken.append(bool(info.accepted))
    assert taken == [i != 3 for i in range(12)]
    assert state.rules.memory.updates == 11


def test_it_looks_at_every_batch_first_and_then_at_some():
    problem, params, batch = setting()
    sca = scax.SCA(problem)
    at = lambda n: dataclasses.replace(sca.init(params), count=jnp.asarray(n, jnp.int32))
    some = (0, 15, 16, 17, 31, 32, 240, 255, 256, 272, 288, 576, 577)
    seen = {n: int(sca.step(at(n), batch)[0].rules.memory.updates) for n in some}
    assert [n for n, count in seen.items() if count] == [0, 15, 16, 32, 240, 256, 288, 576]


def test_many_runs_at_once_are_those_one_by_one(x64):
    problem, params, (x, y) = setting()
    sca = scax.SCA(problem)
    both = jax.tree.map(lambda a: jnp.stack([a, 0.5 * a]), params)
    steps = lambda p: jax.lax.fori_loop(0, 3, lambda _, s: sca.step(s, scax.Batch(jnp.asarray(x), y))[0], sca.init(p)).w
    together = jax.jit(jax.vmap(steps))(both)
    for i in range(2):
        np.testing.assert_allclose(together[i], steps(jax.tree.map(lambda a, i=i: a[i], both)), rtol=1e-9)


def test_vmapped_runs_in_several_threads_end():
    """Batched factorizations of two programs at once must not wait for each other for ever."""
    problem, params, (x, y) = setting(n=20)
    sca, batch = scax.SCA(problem), scax.Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
    start = jax.tree.map(lambda a: jnp.stack([(1 + i / 20) * a.astype(jnp.float32) for i in range(20)]), params)
    run = jax.jit(jax.vmap(lambda p: jax.lax.fori_loop(0, 100, lambda _, s: sca.step(s, batch)[0], sca.init(p)).w))
    once = np.asarray(run(start))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for again in pool.map(lambda _: np.asarray(run(start)), range(40)):
            np.testing.assert_array_equal(again, once)

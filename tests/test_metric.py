"""The Kronecker-factored proximal term: the step it gives is the minimizer in weight space, found the long way."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.iteration import Iteration
from scax.linearize import Structured

from .cases import rows

LAM, TAU = 0.01, 0.003


def setting(loss, outputs=1, widths=(5, 4, 3), n=12):
    net = scax.MLP((*widths, outputs), activation="tanh")
    params = jax.tree.map(lambda a: a.astype(float), net.init(jax.random.key(0)))
    x = rows(1, n, widths[0], float)
    y = {
        "squared": x[:, :outputs],
        "softmax": np.arange(n) % max(outputs, 2),
    }[type(loss).__name__.lower()]
    return scax.Problem(net.apply, loss, scax.L2(LAM)), params, (x, y)


def expected(sca, before, after, batch):
    """The linearized network at `before`, and T from its definition, moments being those that `after` remembers."""
    problem = sca.problem
    now = Iteration(problem, before, problem.ready(before.params, batch))
    lin = Structured(now.network, before.w, now.rows, layered=True)
    blocks = []
    n, τ = float(before.count), float(after.metric.total) - LAM / 2
    rows, share = len(batch[0]), sca.metric.share
    ς = share * problem.loss.caution * (20 / rows) ** 1.5 * (1 + n / 25) ** 0.5
    ε = np.sqrt((τ + LAM / 2) / ς)
    for sides in after.metric.sides:
        moments = [np.asarray(m) for m in sides.moments]
        if len(moments) == 1:
            blocks.append(np.diag(τ + ς * moments[0]))
            continue
        a, g = moments
        π = np.sqrt((np.trace(a) / len(a)) / (np.trace(g) / len(g)))
        k = ς * np.kron(a + π * ε * np.eye(len(a)), g + ε / π * np.eye(len(g)))
        blocks.append(k - LAM / 2 * np.eye(len(k)))
    return lin, jax.scipy.linalg.block_diag(*blocks)


@pytest.mark.parametrize(("loss", "outputs"), [(scax.Squared(), 2), (scax.Softmax(), 3)], ids=str)
def test_the_step_minimizes_the_surrogate_with_that_shape(loss, outputs, x64):
    """At ŵ the gradient of ρ/L Σ l(f + Jδ) + (1−ρ)dᵀδ + λ/2‖w + δ‖² + (δ − βδ_prev)ᵀT(δ − βδ_prev) vanishes; T ⪰ τI."""
    problem, params, batch = setting(loss, outputs)
    sca = scax.SCA(problem, metric="kronecker", step_size=0.5, averaging=0.6, carry=0.5, mean_power=None)
    state = sca.init(params)
    for _ in range(3):
        before, (state, info) = state, sca.step(state, batch)
        assert info.accepted
        lin, shape = expected(sca, before, state, batch)
        δ, center = state.carried, 0.5 * before.carried
        y = problem.loss.targets(problem.ready(params, batch).y, outputs)
        slope = lin.vjp(problem.loss.gradient(lin.outputs + lin.jvp(δ), y) / len(batch[0]))
        gradient = 0.6 * slope + 0.4 * before.memory + LAM * (before.w + δ) + 2 * shape @ (δ - center)
        assert np.linalg.norm(gradient) <= 1e-7 * np.linalg.norm(slope)
        assert np.linalg.eigvalsh(shape).min() >= (float(state.metric.total) - LAM / 2) * (1 - 1e-9)


def test_moments_are_those_of_inputs_and_sensitivities(x64):
    """After one step: A = Σ s aaᵀ of the first layer's inputs, G of the last layer, which is linear, is 1."""
    problem, params, (x, y) = setting(scax.Squared())
    sca = scax.SCA(problem, metric="kronecker")
    state, _ = sca.step(sca.init(params), (x, y))
    shapes = [tuple(m.shape[0] for m in sides.moments) for sides in state.metric.sides]
    assert shapes == [leaf.shape for leaf in jax.tree.leaves(params)]
    weights = [sides.moments for sides in state.metric.sides if len(sides.moments) == 2]
    np.testing.assert_allclose(weights[0][0], x.T @ x / len(x), rtol=1e-12)
    np.testing.assert_allclose(weights[-1][1], 1.0, rtol=1e-12)


def test_weights_kept_the_other_way_round_give_the_same_step(x64):
    problem, params, batch = setting(scax.Squared())
    turned = lambda p: [{"bias": layer["bias"], "weight": layer["weight"].T} for layer in p]
    other = scax.Problem(lambda p, x: problem.outputs(turned(p), x), scax.Squared(), scax.L2(LAM))
    ends = []
    for which, start in ((problem, params), (other, turned(params))):
        sca = scax.SCA(which, metric="kronecker")
        state = sca.init(start)
        for _ in range(3):
            state, _ = sca.step(state, batch)
        ends.append(state.params)
    for a, b in zip(jax.tree.leaves(ends[0]), jax.tree.leaves(turned(ends[1])), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_parameters_without_layers_keep_tau(x64):
    """A scale that multiplies data has columns of its own: its part of T is τI, and the step is still a minimizer."""
    x = rows(1, 12, 4, float)
    params = {"scale": jnp.linspace(0.5, 1.5, 4), "weight": jnp.linspace(-1, 1, 8).reshape(4, 2), "out": jnp.ones(2)}
    network = lambda p, x: jnp.tanh((x * jnp.exp(p["scale"])) @ p["weight"]) @ p["out"][:, None]
    problem = scax.Problem(network, scax.Squared(), scax.L2(LAM))
    sca = scax.SCA(problem, metric="kronecker", damping=TAU, step_size=1.0, carry=0.0, mean_power=None)
    before = sca.init(params)
    state, info = sca.step(before, (x, x[:, :1]))
    assert info.accepted
    δ = state.w - before.w
    now = Iteration(problem, before, problem.ready(params, (x, x[:, :1])))
    lin = Structured(now.network, before.w, now.rows, layered=True)
    slope = lin.vjp(2 * (lin.outputs + lin.jvp(δ) - x[:, :1]) / len(x)) + LAM * (before.w + δ)
    at = [leaf for leaf, shape in enumerate(before.layout.trained_shapes) if not lin.plan.uses.get(leaf)]
    assert at
    for leaf in at:  # ∇ + 2τδ = 0 there
        g, d = (np.ravel(before.layout.leaves(v)[leaf]) for v in (slope, δ))
        np.testing.assert_allclose(g, -2 * TAU * d, atol=1e-9)


def test_what_it_does_not_go_with():
    problem, params, batch = setting(scax.Squared())
    sparse = scax.Problem(problem.apply, scax.Squared(), scax.L1(0.1))
    with pytest.raises(ValueError, match=r"metric: needs a penalty without a prox .* got L1"):
        scax.SCA(sparse, metric="kronecker")
    with pytest.raises(ValueError, match=r"metric: .* leave out blocks= or metric="):
        scax.SCA(problem, metric="kronecker", blocks=scax.Blocks(2))
    with pytest.raises(ValueError, match="metric: works on layers, and solver 'cg' does not"):
        scax.SCA(problem, metric="kronecker", solver="cg")
    with pytest.raises(ValueError, match="metric='diagonal' is not known"):
        scax.SCA(problem, metric="diagonal")
    plain = scax.SCA(problem)
    with pytest.raises(ValueError, match="state was made without a metric"):
        scax.SCA(problem, metric="kronecker").step(plain.init(params), batch)
    with pytest.raises(ValueError, match="share must be"):
        scax.Kronecker(share=-1.0)
    with pytest.raises(TypeError, match=r"metric must be None, 'kronecker' or a scax.Kronecker"):
        scax.SCA(problem, metric=3)


def test_explain_says_so():
    problem, params, (x, _) = setting(scax.Squared())
    said = scax.SCA(problem, metric="kronecker").explain(params, x)
    assert "metric (Kronecker)" in said
    assert "layer 5→4" in said


def test_a_batch_that_is_not_finite_leaves_no_trace():
    """Moments are running averages: a NaN in one of them would stay."""
    problem, params, (x, y) = setting(scax.Squared())
    sca = scax.SCA(problem, metric="kronecker")
    step = jax.jit(lambda s, x: sca.step(s, scax.Batch(x, y)), donate_argnums=0)
    state = sca.init(jax.tree.map(jnp.array, params))
    taken = []
    for i in range(12):
        state, info = step(state, jnp.asarray(x).at[0, 0].set(jnp.nan if i == 3 else 0.0))
        taken.append(bool(info.accepted))
    assert taken == [i != 3 for i in range(12)]


def test_it_follows_the_ridge(x64):
    """K has the ridge in it: with another strength it is found anew, between looks as well."""
    problem, params, batch = setting(scax.Squared())
    state = scax.SCA(problem, metric="kronecker").init(params)
    for _ in range(10):
        state, _ = scax.SCA(problem, metric="kronecker").step(state, batch)
    other = scax.Problem(problem.apply, problem.loss, scax.L2(10 * LAM))
    after, _ = scax.SCA(other, metric="kronecker").step(state, batch)
    np.testing.assert_allclose(after.metric.total - state.metric.total, 9 * LAM / 2, rtol=0.2)


def test_many_runs_at_once_are_those_one_by_one(x64):
    problem, params, (x, y) = setting(scax.Squared())
    sca = scax.SCA(problem, metric="kronecker")
    both = jax.tree.map(lambda a: jnp.stack([a, 0.5 * a]), params)
    steps = lambda p: jax.lax.fori_loop(0, 3, lambda _, s: sca.step(s, scax.Batch(jnp.asarray(x), y))[0], sca.init(p)).w
    together = jax.jit(jax.vmap(steps))(both)
    for i in range(2):
        np.testing.assert_allclose(together[i], steps(jax.tree.map(lambda a, i=i: a[i], both)), rtol=1e-9)


def test_leaving_the_metric_out_again_brings_the_damping_back():
    problem, _, _ = setting(scax.Squared())
    assert dataclasses.replace(scax.SCA(problem, metric="kronecker"), metric=None).damping is scax.SCA(problem).damping


def test_the_solver_keeps_its_limits():
    problem, params, batch = setting(scax.Softmax(), 3)
    sca = scax.SCA(problem, metric="kronecker", solver=scax.solvers.Newton(max_iterations=1), acceptance=False)
    assert sca.step(sca.init(params), batch)[1].iterations == 1

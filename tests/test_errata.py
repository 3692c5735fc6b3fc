"""The paper's slips: each formula as it should be printed, against the definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from jax.flatten_util import ravel_pytree

import scax
from tests.cases import rows
from tests.test_sca import EXACT, setting, vector


def full(regularizer, dtype=np.float64, memory=None):
    """One step of the full linearization; (ŵ, w_n, gradient of the loss, problem)."""
    problem, params, batch = setting(dtype=dtype)
    problem = scax.Problem(problem.apply, problem.loss, regularizer)
    sca = scax.SCA(problem, surrogate="full", averaging=None if memory is None else 0.6, **EXACT)
    state = sca.init(params)
    if memory is not None:
        import dataclasses

        state = dataclasses.replace(state, memory=jnp.asarray(memory))
    gradient = jax.grad(lambda p: jnp.mean(problem.loss.value(problem.apply(p, batch[0]), batch[1])))(params)
    after, info = sca.step(state, batch)
    assert info.accepted
    return np.asarray(after.w), vector(params), vector(gradient)


def test_full_linearization_with_ridge_has_a_minus(x64):
    """ŵ = −(ρ g + (1−ρ) d − 2τ w_n)/(λ + 2τ)."""
    lam, tau, rho = 0.3, EXACT["damping"], 0.6
    d = np.random.default_rng(0).normal(size=21)
    best, w, g = full(scax.L2(lam), memory=d)
    np.testing.assert_allclose(best, -(rho * g + (1 - rho) * d - 2 * tau * w) / (lam + 2 * tau), rtol=1e-10)


def test_full_linearization_with_lasso_is_a_soft_threshold(x64):
    lam, tau = 0.1, EXACT["damping"]
    best, w, g = full(scax.L1(lam))
    free = w - g / (2 * tau)
    np.testing.assert_allclose(best, np.sign(free) * np.maximum(np.abs(free) - lam / (2 * tau), 0), atol=1e-12)
    assert np.any(best == 0)


@pytest.mark.parametrize("regularizer", [scax.L2(0.3), scax.L1(0.1), scax.Box(0.45), scax.ElasticNet(0.2, 0.5)])
def test_full_linearization_against_a_generic_convex_solver(regularizer, x64):
    """min gᵀδ + R(w+δ) + τ‖δ‖² by L-BFGS-B over w = p − q, p, q ≥ 0, where |w| = p + q."""
    tau = EXACT["damping"]
    best, w, g = full(regularizer)
    n = w.size
    l1, ridge = float(getattr(regularizer, "l1", 0.0)), float(regularizer.ridge)
    bound = float(getattr(regularizer, "bound", 10.0))

    def cost(pq):
        v = pq[:n] - pq[n:]
        slope = g + ridge * v + 2 * tau * (v - w)
        value = g @ v + ridge / 2 * v @ v + tau * (v - w) @ (v - w) + l1 * pq.sum()
        return value, np.concatenate([slope + l1, -slope + l1])

    start = np.concatenate([np.maximum(w, 0), np.maximum(-w, 0)])
    found = scipy.optimize.minimize(
        cost, start, jac=True, method="L-BFGS-B", bounds=[(0, bound)] * 2 * n, options={"ftol": 1e-16, "gtol": 1e-11}
    )
    np.testing.assert_allclose(best, found.x[:n] - found.x[n:], atol=1e-6)


def test_ridge_adds_half_its_strength_to_the_matrix(x64):
    """r = ½‖w‖² with the squared loss: A + (λ/2)I, not A + λI; λ is as it stands in U."""
    problem, params, (x, y) = setting(dtype=np.float64)
    lam, tau = 0.5, EXACT["damping"]
    sca = scax.SCA(scax.Problem(problem.apply, problem.loss, scax.L2(lam)), **EXACT)
    best = np.asarray(sca.step(sca.init(params), (x, y))[0].w)
    w, unravel = ravel_pytree(params)
    j = np.asarray(jax.jacrev(lambda w: problem.apply(unravel(w), x)[:, 0])(w))
    z = np.asarray(problem.apply(params, x))[:, 0]
    right = j.T @ (y[:, 0] - z + j @ w) / len(y) + tau * w
    np.testing.assert_allclose(best, np.linalg.solve(j.T @ j / len(y) + (lam / 2 + tau) * np.eye(w.size), right))
    printed = np.linalg.solve(j.T @ j / len(y) + (lam + tau) * np.eye(w.size), right)
    assert not np.allclose(best, printed, rtol=1e-2)
    expected = np.mean((z - y[:, 0]) ** 2) + lam / 2 * w @ w
    np.testing.assert_allclose(sca.problem.objective(params, x, y), expected, rtol=1e-12)


def test_cross_entropy_has_a_minus(x64):
    z, y = jnp.linspace(-4, 4, 9)[:, None], jnp.asarray([0.0, 1, 0, 1, 1, 0, 1, 0, 0.3])[:, None]
    b = 1 / (1 + np.exp(-np.asarray(z)))
    expected = -(y * np.log(b) + (1 - y) * np.log(1 - b))
    np.testing.assert_allclose(scax.Logistic().value(z, y), expected[:, 0], rtol=1e-10)


def test_manifold_rows_have_a_plus(x64):
    """Δ + J(w): the linearized penalty's gradient at w_n is the penalty's own gradient."""
    x = rows(0, 10)
    graph = scax.knn_graph(x, 3)
    problem, params, _ = setting(dtype=np.float64)
    lam, tau = 0.7, EXACT["damping"]
    y = np.zeros((10, 1))
    penalty = scax.Problem(problem.apply, problem.loss, scax.L2(0.0), manifold=scax.Manifold(lam, graph))
    w, unravel = ravel_pytree(params)

    def explicit(v, linear):
        """The sum over the graph, with outputs linearized at w or not."""
        f = problem.apply(unravel(w), x) + jax.jvp(lambda v: problem.apply(unravel(v), x), (w,), (v - w,))[1]
        f = f if linear else problem.apply(unravel(v), x)
        i, j, q = np.repeat(np.arange(10), 3), np.ravel(graph.neighbors), np.ravel(graph.closeness)
        return lam * jnp.sum(q / 3 * jnp.sum((f[i] - f[j]) ** 2, axis=1)) + jnp.mean(jnp.sum((f - y) ** 2, axis=1))

    np.testing.assert_allclose(penalty.objective(params, x, y), explicit(w, False), rtol=1e-10)
    cost = jax.jit(jax.value_and_grad(lambda v: explicit(v, True) + tau * jnp.sum((v - w) ** 2)))
    sca = scax.SCA(penalty, **EXACT)
    best = sca.step(sca.init(params), (x, y))[0].w
    assert np.linalg.norm(cost(best)[1]) < 1e-9
    assert np.linalg.norm(best - w) > 0.1


def test_quadratic_forms_are_in_w_alone(x64):
    """wᵀ(…)w: the surrogate of a squared loss is one quadratic in all of w, so blocks couple."""
    problem, params, batch = setting(dtype=np.float64)
    whole = scax.SCA(problem, **EXACT)
    halves = scax.SCA(problem, blocks=scax.Blocks(2), **EXACT)
    a, b = (np.asarray(s.step(s.init(params), batch)[0].w) for s in (whole, halves))
    assert not np.allclose(a, b, rtol=1e-2)


def test_no_damping_with_decaying_memory_runs_away_where_damping_does_not(x64):
    """In directions the batch does not see ŵ = −(1−ρ)/λ · d: the published settings explode, τ > 0 holds them."""
    net = scax.MLP((3, 4, 1), activation="tanh", output="tanh")
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    x = rows(0, 200)
    y = np.tanh(x[:, :1] + 0.5 * np.random.default_rng(1).normal(size=(200, 1)))
    params = net.init(jax.random.key(0))

    def cost(damping):
        with pytest.warns(UserWarning, match="averaging"):
            sca = scax.SCA(
                problem,
                step_size=scax.QuadraticDecay(0.5, 0.01),
                averaging=scax.QuadraticDecay(0.9, 0.01),
                damping=damping,
                carry=0.0,
                mean_power=None,
                acceptance=False,
                solver="weight-space",
            )
        return scax.train(sca, params, (x, y), steps=60, batch_size=10, records=60).history["objective"]

    published, held = cost(0.0), cost(0.1)
    assert held[-1] < held[0]
    assert published.max() > 2 * held.max()

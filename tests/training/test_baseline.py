"""Optax's optimizers as methods: the same objective, its gradient, its box, the same averaging."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import scax
from tests.cases import mlp, rows, start
from tests.test_sca import vector


def setting(regularizer=scax.L2(1e-3), n=30):
    net = mlp(1)
    x = rows(0, n, dtype=np.float32)
    y = np.sin(2 * x[:, 0]).astype(np.float32)
    return scax.Problem(net.apply, scax.Squared(), regularizer), start(net, 0, np.float32), (x, y)


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

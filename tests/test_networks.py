"""Any pure function of (params, x) trains: a convolution, a recurrent cell, outputs of any shape allowed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from tests.cases import convolution, convolution_params, recurrent, recurrent_params


def fell(problem, params, data, solver, steps=25):
    """U before and after training."""
    sca = scax.SCA(problem, solver=solver)
    result = scax.train(sca, params, data, steps=steps, batch_size=12, records=1)
    return float(problem.objective(params, *data)), float(result.history["objective"][-1])


@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_a_convolution_trains(solver):
    """Bright spots in noise: is the spot in the left half?"""
    rng = np.random.default_rng(0)
    place = rng.integers(0, 6, (60, 2))
    x = 0.1 * rng.normal(size=(60, 6, 6, 1))
    x[np.arange(60), place[:, 0], place[:, 1], 0] += 2
    y = (place[:, 1] < 3).astype(np.float32)
    problem = scax.Problem(convolution, scax.Logistic(), scax.L2(1e-3))
    before, after = fell(problem, convolution_params(1), (x.astype(np.float32), y), solver)
    assert after < 0.5 * before


@pytest.mark.parametrize(("solver", "regularizer"), [("auto", scax.L2(1e-3)), ("fista", scax.L1(1e-3))])
def test_a_recurrent_cell_trains(solver, regularizer):
    """The sign of a running sum, read after the last of seven inputs; the network gives [n]."""
    x = np.random.default_rng(0).normal(size=(60, 7, 2)).astype(np.float32)
    y = np.tanh(x[:, :, 0].sum(axis=1)).astype(np.float32)
    problem = scax.Problem(recurrent, scax.Squared(), regularizer)
    before, after = fell(problem, recurrent_params(1), (x, y), solver)
    assert after < 0.5 * before


def test_mlp():
    net = scax.MLP((9, 10, 6, 2), activation="relu", output="sigmoid")
    params = net.init(jax.random.key(0))
    assert [p["weight"].shape for p in params] == [(9, 10), (10, 6), (6, 2)]
    for layer, (n_in, n_out) in zip(params, [(9, 10), (10, 6), (6, 2)], strict=True):
        bound = np.sqrt(6 / (n_in + n_out))
        assert np.abs(layer["weight"]).max() <= bound
        assert np.abs(layer["weight"]).max() > 0.5 * bound
        assert np.all(layer["bias"] == 0)
    x = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    hidden = x
    for layer in params[:-1]:
        hidden = np.maximum(hidden @ np.asarray(layer["weight"]), 0)
    expected = 1 / (1 + np.exp(-hidden @ np.asarray(params[-1]["weight"])))
    np.testing.assert_allclose(net.apply(params, x), expected, rtol=1e-5, atol=1e-6)
    assert not np.array_equal(net.init(jax.random.key(1))[0]["weight"], params[0]["weight"])


@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu", "silu", "elu", "softplus", "sigmoid", "linear"])
def test_every_activation_is_a_network(activation):
    net = scax.MLP((2, 3, 1), activation=activation)
    z = net.apply(net.init(jax.random.key(0)), jnp.ones((4, 2)))
    assert z.shape == (4, 1)
    assert np.all(np.isfinite(z))

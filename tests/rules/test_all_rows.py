"""All rows in every batch: Levenberg–Marquardt, with an end of its own."""

import jax
import numpy as np
import pytest
import scipy.optimize
from jax.flatten_util import ravel_pytree

import scax
from scax import Status


def problem(noise=0.0, rows=60, penalty=0.0):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, 1))
    y = np.sin(3 * x[:, 0]) + noise * rng.standard_normal(rows)
    net = scax.MLP((1, 6, 1))
    return scax.Problem(net.apply, scax.Squared(), scax.L2(penalty)), net, (x, y)


def run(problem, net, data, steps, **options):
    sca = scax.SCA(problem, all_rows=True, **options)
    state = sca.init(jax.tree.map(lambda leaf: leaf.astype(data[0].dtype), net.init(jax.random.key(0))))
    _, infos = jax.jit(lambda state: jax.lax.scan(lambda s, _: sca.step(s, data), state, None, length=steps))(state)
    return infos


def test_it_reaches_what_levenberg_marquardt_reaches(x64):
    problem_, net, (x, y) = problem(noise=0.1)
    infos = run(problem_, net, (x, y), 200)
    w, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf.astype(np.float64), net.init(jax.random.key(0))))
    residual = jax.jit(lambda w: net.apply(unravel(w), x)[:, 0] - y)
    peer = scipy.optimize.least_squares(residual, w, method="lm", jac=jax.jit(jax.jacfwd(residual)), max_nfev=200)
    assert infos.objective[-1] < 1.01 * 2 * peer.cost / len(y)


def test_without_noise_it_goes_down_to_rounding(x64):
    infos = run(*problem(), 400)
    assert infos.objective[-1] < 1e-9
    assert np.all(np.diff(infos.objective) <= 0)
    np.testing.assert_array_equal(infos.step_size, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("carry", [0.0, 0.5, 0.9, 0.99])
def test_it_says_when_there_is_nothing_left_to_gain(dtype, carry, x64):
    """Not earlier either where a carried step keeps the network from promising what there is to gain."""
    problem_, net, data = problem(noise=0.1, penalty=1e-2)
    infos = run(problem_, net, tuple(a.astype(dtype) for a in data), 300, carry=carry)
    ends = [n for n, code in enumerate(infos.status) if Status(int(code)).is_end]
    assert ends
    assert ends[0] < 250
    after = np.asarray(infos.objective)[ends[0] :]
    assert after[0] - after[-1] <= 100 * np.finfo(dtype).eps * after[0]


def test_a_penalty_with_a_prox_works_too(x64):
    _, net, data = problem(noise=0.1)
    lasso = scax.Problem(net.apply, scax.Squared(), scax.L1(1e-3))
    infos = run(lasso, net, data, 100)
    assert np.all(np.diff(infos.objective) <= 0)
    assert infos.objective[-1] < infos.objective[5]


def test_where_steps_are_random_all_the_same_the_rules_stay():
    problem_, _, _ = problem()
    assert scax.SCA(problem_).on_all_rows().all_rows
    assert scax.SCA(problem_, blocks=scax.Blocks(2)).on_all_rows().all_rows
    for options in ({"blocks": scax.Blocks(4, active=2)}, {"averaging": 0.5}, {"surrogate": "full"}):
        assert not scax.SCA(problem_, **options).on_all_rows().all_rows

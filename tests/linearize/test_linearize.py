"""Every form of J says the same, and what JAX derives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import scax
from scax.batch import Pairs
from scax.linearize import FORMS, Paired, linearize
from scax.linearize.base import spectral_norm
from tests.cases import mlp, rows, start

N, K = 5, 2


def setting():
    net = mlp(K)
    w, unravel = ravel_pytree(start(net, 0))
    return lambda w, x: net.apply(unravel(w), x), w, jnp.asarray(rows(1, N))


def pairs():
    return Pairs(jnp.zeros((0, 3)), jnp.asarray([0, 1, 4]), jnp.asarray([2, 0, 3]), jnp.ones(3))


def wrapped(lin, paired):
    return Paired(lin, pairs(), 4) if paired else lin


@pytest.mark.parametrize("paired", [False, True], ids=["rows", "pairs"])
@pytest.mark.parametrize("form", ["dense", "matrix-free"])
def test_forms_agree_with_the_jacobian(form, paired, x64):
    network, w, x = setting()
    jacobian = jax.jacrev(lambda w: network(w, x))(w)
    z = network(w, x)
    if paired:  # the first four rows, then three differences
        p = pairs()
        stack = lambda a: jnp.concatenate([a[:4], a[p.left] - a[p.right]])
        jacobian, z = stack(jacobian), stack(z)
    m = z.shape[0]
    lin = wrapped(linearize(network, w, x, form), paired)
    rng = np.random.default_rng(2)
    delta, v, scale = jnp.asarray(rng.normal(size=w.size)), jnp.asarray(rng.normal(size=z.shape)), jnp.ones(z.shape)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert lin.size == w.size
    close(lin.outputs, z)
    close(lin.jvp(delta), jacobian @ delta)
    close(lin.vjp(v), jnp.einsum("nkq,nk->q", jacobian, v))
    close(lin.jacobian(), jacobian)
    flat = jacobian.reshape(m * K, -1)
    close(lin.gram().reshape(m * K, m * K), flat @ flat.T)
    close(lin.row_squares(), jnp.sum(jacobian**2, axis=2))
    close(lin.column_squares(scale * v), jnp.einsum("nkq,nk->q", jacobian**2, v**2))
    index, mask = jnp.asarray([3, 0, 5]), jnp.asarray([1.0, 1.0, 0.0])
    close(lin.take(index, mask).jacobian(), jacobian[..., index] * mask)
    norm = spectral_norm(lin, jnp.float64, rounds=200)
    close(norm, jnp.linalg.norm(flat, 2) ** 2)


def test_a_vector_of_outputs_is_one_column(x64):
    problem = scax.Problem(lambda p, x: x @ p, scax.Squared())
    assert problem.outputs(jnp.ones(3), jnp.ones((4, 3))).shape == (4, 1)


def test_every_form_is_known_here():
    assert {"dense", "matrix-free"} <= set(FORMS)

"""Every form of J says the same, and what JAX derives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.batch import Pairs
from scax.layout import Layout
from scax.linearize import FORMS, WithPairs, linearize
from scax.linearize.base import LARGE_PRODUCT, _by_library, side_by_side, spectral_norm, symmetric_product
from scax.linearize.network import NetworkFunction
from tests.cases import convolution, convolution_params, mlp, recurrent, recurrent_params, rows, start

N = 5


@pytest.mark.parametrize("before", [(), (2,), (2, 3)])
def test_side_by_side_is_a_concatenation(before):
    parts = [jax.random.normal(jax.random.key(i), (*before, i + 1)) for i in range(4)]
    np.testing.assert_array_equal(side_by_side(parts), np.concatenate(parts, axis=-1))
    if before:
        np.testing.assert_array_equal(jax.vmap(lambda *parts: side_by_side(parts))(*parts), side_by_side(parts))


@pytest.mark.parametrize(("m", "q"), [(7, 3), (LARGE_PRODUCT, 600), (LARGE_PRODUCT + 1, 3), (2 * LARGE_PRODUCT + 3, 5)])
def test_a_matrix_times_its_transpose(m, q, x64):
    """Whole, in two and in four parts, rows that do not divide, fewer rows than columns and more."""
    rows = np.random.default_rng(0).normal(size=(m, q))
    np.testing.assert_allclose(symmetric_product(jnp.asarray(rows)), rows @ rows.T, rtol=1e-12, atol=1e-12)
    both = jnp.asarray(np.stack([rows, 2 * rows]))
    np.testing.assert_allclose(jax.vmap(symmetric_product)(both)[1], 4 * rows @ rows.T, rtol=1e-12, atol=1e-12)


def test_the_librarys_routine_for_it_is_the_same(x64):
    rows = jax.random.normal(jax.random.key(0), (9, 12))
    np.testing.assert_allclose(_by_library(rows), rows @ rows.T, rtol=1e-12)


def tied(params, x):
    """One matrix used forwards and backwards, and a scale: layers, transposed layers and columns together."""
    return params["scale"] * (jnp.tanh(x @ params["w"]) @ params["w"].T) @ params["out"]


def tied_params():
    rng = np.random.default_rng(0)
    return {
        "w": jnp.asarray(rng.normal(size=(3, 30))),
        "scale": jnp.ones(()),
        "out": jnp.asarray(rng.normal(size=(3, 2))),
    }


NETWORKS = {
    "small": lambda: (mlp(2).apply, start(mlp(2), 0), rows(1, N)),
    "wide": lambda: (mlp(2, (3, 30, 20)).apply, start(mlp(2, (3, 30, 20)), 0), rows(1, N)),
    "convolution": lambda: (convolution, convolution_params(0, 2), rows(1, N, 36).reshape(N, 6, 6, 1)),
    "recurrent": lambda: (recurrent, recurrent_params(0), rows(1, N, 14).reshape(N, 7, 2)),
    "tied": lambda: (tied, tied_params(), rows(1, N)),
}


def pairs():
    return Pairs(jnp.zeros((0, 3)), jnp.asarray([0, 1, 4]), jnp.asarray([2, 0, 3]), jnp.ones(3))


@pytest.mark.parametrize(
    ("name", "paired"),
    [("small", False), ("small", True), ("wide", False), ("convolution", False), ("recurrent", False), ("tied", False)],
)
@pytest.mark.parametrize("form", FORMS)
def test_forms_agree_with_the_jacobian(form, name, paired, x64):
    apply, params, x = NETWORKS[name]()
    x, layout = jnp.asarray(x), Layout.of(params)
    w = layout.flatten(params)
    network = NetworkFunction(scax.Problem(apply, scax.Squared()), layout, ())
    z, jacobian = network(w, x), jax.jacrev(lambda w: network(w, x))(w)
    if paired:  # the first four rows, then three differences
        p = pairs()
        stack = lambda a: jnp.concatenate([a[:4], a[p.left] - a[p.right]])
        jacobian, z = stack(jacobian), stack(z)
    m, k = z.shape
    rng = np.random.default_rng(2)
    delta, v = jnp.asarray(rng.normal(size=w.size)), jnp.asarray(rng.normal(size=z.shape))
    index, mask = jnp.asarray([3, 0, 5]), jnp.asarray([1.0, 1.0, 0.0])

    @jax.jit
    def said(w, x, delta, v):
        lin = linearize(network, w, x, form)
        lin = WithPairs(lin, pairs(), 4) if paired else lin
        assert lin.size == w.size
        return {
            "outputs": lin.outputs,
            "jvp": lin.jvp(delta),
            "vjp": lin.vjp(v),
            "jacobian": lin.jacobian(),
            "gram": lin.gram().reshape(m * k, m * k),
            "row_squares": lin.row_squares(),
            "column_squares": lin.column_squares(v),
            "take": lin.take(index, mask).jacobian(),
            "norm": spectral_norm(lin, jnp.float64, rounds=300),
        }

    flat = jacobian.reshape(m * k, -1)
    expected = {
        "outputs": z,
        "jvp": jacobian @ delta,
        "vjp": jnp.einsum("nkq,nk->q", jacobian, v),
        "jacobian": jacobian,
        "gram": flat @ flat.T,
        "row_squares": jnp.sum(jacobian**2, axis=2),
        "column_squares": jnp.einsum("nkq,nk->q", jacobian**2, v**2),
        "take": jacobian[..., index] * mask,
        "norm": jnp.linalg.norm(flat, 2) ** 2,
    }
    found = said(w, x, delta, v)
    for part in expected:
        np.testing.assert_allclose(found[part], expected[part], rtol=1e-8, atol=1e-10, err_msg=part)


def test_a_vector_of_outputs_is_one_column(x64):
    problem = scax.Problem(lambda p, x: x @ p, scax.Squared())
    assert problem.outputs(jnp.ones(3), jnp.ones((4, 3))).shape == (4, 1)

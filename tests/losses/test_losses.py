"""Derivatives, the factored Hessian, and what each loss refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scax
from tests.cases import LOSS_OUTPUTS, LOSSES

N = 5
seeds = st.integers(0, 2**31)
scales = st.sampled_from([0.1, 1.0, 6.0])


def drawn(loss, k, seed, scale):
    """Outputs z and targets as the formulas want them."""
    case = LOSSES[loss]
    z = jnp.asarray(scale * np.random.default_rng(seed).normal(size=(N, k)))
    return case.loss, z, case.loss.targets(jnp.asarray(case.draw(seed + 1, N, k)), k)


def single(loss, z, y):
    return loss.value(z[None], y[None])[0]


@jax.jit
def derivatives(loss, z, y):
    """Everything the loss says, and what JAX derives from its value."""
    claimed = (loss.gradient(z, y), loss.factor(z, y), loss.whitened(z, y), loss.remainder(z, y))
    left = loss.curvature_left(z), loss.curvature_left(0 * z)
    grad = jax.vmap(jax.grad(single, argnums=1), (None, 0, 0))(loss, z, y)
    hess = jax.vmap(jax.hessian(single, argnums=1), (None, 0, 0))(loss, z, y)
    return claimed, left, grad, hess


@pytest.mark.parametrize(("loss", "k"), LOSS_OUTPUTS)
@given(seed=seeds, scale=scales)
def test_derivatives(loss, k, seed, scale, x64):
    part, z, y = drawn(loss, k, seed, scale)
    (g, f, a, r), (left, most), grad, hess = derivatives(part, z, y)
    f = jax.vmap(jnp.diag)(f) if f.ndim == 2 else f
    np.testing.assert_allclose(g, grad, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(jnp.einsum("nab,nac->nbc", f, f), hess, rtol=1e-9, atol=1e-9)  # FᵀF = ∇²l
    whole = jnp.einsum("nab,na->nb", f, a) + (0 if r is None else r)
    np.testing.assert_allclose(whole, grad, rtol=1e-9, atol=1e-9)  # Fᵀa + r = g
    if left is not None:  # what is left of the trace, which is largest where all outputs are 0
        start = jax.vmap(jax.hessian(single, argnums=1), (None, 0, 0))(part, 0 * z, y)
        np.testing.assert_allclose(left, jnp.einsum("nkk->n", hess) / jnp.einsum("nkk->n", start), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(most, 1)


@pytest.mark.parametrize(("loss", "k"), LOSS_OUTPUTS)
@given(seed=seeds, scale=scales, t=st.floats(0, 1))
def test_convex_in_the_outputs(loss, k, seed, scale, t, x64):
    part, z, y = drawn(loss, k, seed, scale)
    other = z[::-1]
    mixed = part.value((1 - t) * z + t * other, y)
    chord = (1 - t) * part.value(z, y) + t * part.value(other, y)
    assert jnp.all(mixed <= chord + 1e-9 * (1 + jnp.abs(chord)))


@pytest.mark.parametrize(("loss", "k"), LOSS_OUTPUTS)
def test_one_value_per_sample(loss, k, dtype):
    part, z, y = drawn(loss, k, 0, 1.0)
    z, y = z.astype(dtype), y.astype(dtype)
    value = part.value(z, y)
    assert value.shape == (N,)
    assert value.dtype == part.gradient(z, y).dtype == part.factor(z, y).dtype == part.whitened(z, y).dtype == dtype


@pytest.mark.parametrize("loss", ["logistic", "softmax", "huber", "squared"])
def test_finite_for_outputs_far_away(loss):
    """A network that is very sure, right or wrong, gives large numbers and no NaN, in float32."""
    case = LOSSES[loss]
    k = case.outputs[-1]
    z = jnp.asarray(np.random.default_rng(0).choice([-300.0, 0.0, 300.0], (40, k)), jnp.float32)
    y = case.loss.targets(jnp.asarray(case.draw(1, 40, k, np.float32)), k)
    for part in (case.loss.value, case.loss.gradient, case.loss.factor, case.loss.whitened):
        assert jnp.all(jnp.isfinite(part(z, y)))
    left = case.loss.curvature_left(z)
    assert left is None or jnp.all((left >= 0) & (left <= 1))


def test_known_values():
    one = jnp.ones((1, 1))
    assert scax.Squared().value(3 * one, one)[0] == 4  # no ½
    assert scax.Huber(1.0).value(3 * one, one)[0] == 1.5
    np.testing.assert_allclose(scax.Logistic().value(0 * one, one)[0], np.log(2), rtol=1e-6)
    np.testing.assert_allclose(scax.Softmax().value(jnp.zeros((1, 4)), jnp.eye(4)[:1])[0], np.log(4), rtol=1e-6)
    np.testing.assert_allclose(scax.Poisson().value(one, 2 * one)[0], np.e - 2, rtol=1e-6)


def test_a_large_huber_is_half_of_squared(x64):
    z, y = jnp.linspace(-3, 3, 12).reshape(4, 3), jnp.ones((4, 3))
    np.testing.assert_allclose(2 * scax.Huber(100.0).value(z, y), scax.Squared().value(z, y))


@pytest.mark.parametrize(
    ("loss", "k", "y", "words"),
    [
        (scax.Squared(), 1, np.zeros((4, 2)), ["y has shape (4, 2)", "1 output", "(4, 1)", "(4,)"]),
        (scax.Squared(), 3, np.zeros(4), ["y has shape (4,)", "3 output", "(4, 3)"]),
        (scax.Squared(), 1, np.array([0, np.nan, 1]), ["y has 1 value(s) that are not finite", "(1,)", "weight 0"]),
        (scax.Logistic(), 1, np.array([-1.0, 1.0]), ["y has values from -1.0 to 1.0", "labels 0 and 1", "Map"]),
        (scax.Poisson(), 1, np.array([2.0, -1.0]), ["negative", "-1.0", "counts"]),
        (scax.Softmax(), 1, np.array([0, 1]), ["at least 2 outputs", "got 1", "Logistic"]),
        (scax.Softmax(), 3, np.array([0, 3]), ["from 0 to 3", "3 outputs", "0 … 2"]),
        (scax.Softmax(), 3, np.array([-1, 2]), ["from -1 to 2"]),
        (scax.Softmax(), 3, np.full((4, 3), 0.5), ["not probabilities", "sum to 1"]),
        (scax.Softmax(), 3, np.full((4, 2), 0.5), ["y has shape (4, 2)", "3 output"]),
    ],
)
def test_refuses_targets(loss, k, y, words):
    with pytest.raises(ValueError, match=r"y|Softmax") as refusal:
        loss.check(y, k)
    for word in words:
        assert word in str(refusal.value)


def test_softmax_wants_integer_classes():
    with pytest.raises(TypeError, match="y has dtype float64: Softmax wants integer class indices"):
        scax.Softmax().check(np.array([0.0, 1.0]), 3)


def test_softmax_probabilities_and_classes_agree(x64):
    z = jnp.asarray(np.random.default_rng(0).normal(size=(6, 3)))
    y = np.array([0, 1, 2, 2, 1, 0])
    part = scax.Softmax()
    np.testing.assert_array_equal(part.targets(jnp.asarray(y), 3), np.eye(3)[y])
    np.testing.assert_allclose(part.value(z, part.targets(jnp.asarray(y), 3)), part.value(z, jnp.eye(3)[y]))


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_huber_wants_a_positive_delta(value):
    with pytest.raises(ValueError, match="delta must be a finite number > 0, got"):
        scax.Huber(value)

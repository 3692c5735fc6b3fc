"""What every bridge is held to."""

import re

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

import scax

LAMBDA, TAU = 1e-3, 0.1


def rows(*shape, seed=0):
    return jnp.asarray(0.7 * np.random.default_rng(seed).normal(size=shape))


def double(tree):
    """Weights in float64: agreement is then a matter of formulas, not of rounding."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, float), tree)


def weight_space_step(apply, params, x, y):
    """δ of (JᵀJ/L + (λ/2 + τ)I) δ = Jᵀe/L − ½λw, in NumPy, J materialized: the plainest form of the step."""
    w, shaped = jax.flatten_util.ravel_pytree(params)

    @jax.jit
    def both(w):
        outputs = lambda w: jnp.reshape(apply(shaped(w), x), -1)
        return outputs(w), jax.jacrev(outputs)(w)

    z, j = map(np.asarray, both(w))
    left = j.T @ j / len(x) + (LAMBDA / 2 + TAU) * np.eye(w.size)
    return np.linalg.solve(left, j.T @ (np.ravel(y) - z) / len(x) - LAMBDA / 2 * np.asarray(w)), z


def assert_structured_is_the_judge(bridge, params, x, z, held, rtol=1e-7, atol=1e-9):
    """The bridge gives the framework's own outputs z, one structured step lands on the weight-space judge's, and the
    parameters named in `held` are held by layers: it maps a part of a parameter's name to the layer expected, "3→4"."""
    y = np.sin(3 * np.asarray(x).reshape(len(x), -1)[:, :1] + np.arange(z.shape[1]))
    expected, outputs = weight_space_step(bridge.apply, params, x, y)
    np.testing.assert_allclose(outputs.reshape(z.shape), z, rtol=1e-9, atol=1e-12)
    problem = scax.Problem(bridge.apply, scax.Squared(), scax.L2(LAMBDA))
    sca = scax.SCA(
        problem, solver="structured", step_size=1.0, damping=TAU, carry=0.0, mean_power=None, acceptance=False
    )
    start = sca.init(params)
    after, _ = sca.step(start, (x, y))
    assert np.linalg.norm(expected) > 1e-2
    np.testing.assert_allclose(after.w - start.w, expected, rtol=rtol, atol=atol)
    told = sca.explain(params, x).partition("network:\n")[2]
    found = dict(line.strip().rsplit(": ", 1) for line in told.splitlines())
    for name, layer in held.items():
        how = [kept for full, kept in found.items() if re.search(name, full)]
        assert how, (name, found)
        assert all(f"layer {layer}" in kept for kept in how), (name, found)

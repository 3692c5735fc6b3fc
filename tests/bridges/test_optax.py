"""SCA in optax's shape takes SCA's own steps."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scax

NET = scax.MLP((3, 4, 1))
SCA = scax.SCA(scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-3)))
METHOD = scax.as_optax(SCA)


def batches(count=5):
    rng = np.random.default_rng(0)
    for _ in range(count):
        x = rng.normal(size=(8, 3)).astype(np.float32)
        yield x, np.sin(x[:, 0])


def test_the_updates_are_the_steps():
    params = NET.init(jax.random.key(0))
    own, state = SCA.init(params), METHOD.init(params)
    step = jax.jit(lambda params, state, batch: METHOD.update(None, state, params, batch=batch))
    for batch in batches():
        own, _ = SCA.step(own, batch)
        updates, state = step(params, state, batch)
        params = optax.apply_updates(params, updates)
        for mine, theirs in zip(jax.tree.leaves(own.params), jax.tree.leaves(params), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert int(state.count) == 5
    solution = SCA.solution(state)
    assert jax.tree.structure(solution) == jax.tree.structure(params)


def test_what_follows_in_a_chain_acts_on_the_update():
    params, batch = NET.init(jax.random.key(0)), next(batches())
    half = optax.chain(METHOD, optax.scale(0.5))
    whole, _ = METHOD.update(None, METHOD.init(params), params, batch=batch)
    updates, _ = half.update(None, half.init(params), params, batch=batch)
    for a, b in zip(jax.tree.leaves(updates), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a, 0.5 * b, rtol=1e-6)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(updates)) > 1e-3


def test_it_says_that_it_needs_the_batch():
    params = NET.init(jax.random.key(0))
    gradients = jax.tree.map(jnp.ones_like, params)
    with pytest.raises(ValueError, match="batch is missing: SCA linearizes the network on the batch"):
        METHOD.update(gradients, METHOD.init(params), params)

"""A network that becomes sparse: the target depends on two of six inputs. Trained once for all tests of a process."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import scax

NET = scax.MLP((6, 8, 5, 1))


@functools.cache
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 6)).astype("f")
    return x, np.tanh(x[:, 0] - x[:, 3]) + 0.05 * rng.normal(size=120).astype("f")


@functools.cache
def trained():
    """(problem, result) with a group penalty."""
    params = NET.init(jax.random.key(0))
    problem = scax.Problem(NET.apply, scax.Squared(), scax.GroupLasso(4e-3, scax.neuron_groups(params)))
    return problem, scax.train(scax.SCA(problem), params, data(), steps=150, batch_size=30, records=1)


def flat(params):
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(params)])

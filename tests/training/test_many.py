"""Runs side by side are the runs one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from tests.cases import mlp, rows

NET = mlp(1)
X = rows(1, 40, dtype=np.float32)
Y = np.sin(X[:, :1])
KEYS = jax.random.split(jax.random.key(3), 3)


def method(strength):
    return scax.SCA(scax.Problem(NET.apply, scax.Squared(), scax.L2(strength)))


def test_seeds_and_strengths_side_by_side():
    strengths = [1e-4, 1e-2, 1.0]
    many = scax.train_many(
        [method(s) for s in strengths], NET.init, (X, Y), keys=KEYS, steps=7, batch_size=5, records=2, validation=(X, Y)
    )
    assert many.history["objective"].shape == (2, 3)
    assert many.history["step"].tolist() == [4, 7]
    for i, strength in enumerate(strengths):
        start, order = jax.random.split(KEYS[i])
        options = {"steps": 7, "batch_size": 5, "key": order, "records": 2, "validation": (X, Y)}
        alone = scax.train(method(strength), NET.init(start), (X, Y), **options)
        for name in ("objective", "validation_loss", "batch_loss", "accepted"):
            np.testing.assert_allclose(many.history[name][:, i], alone.history[name], rtol=2e-3, err_msg=name)
        mine = jax.tree.map(lambda leaf, i=i: leaf[i], many.params)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0.01, atol=1e-3), mine, alone.params)


def test_one_method_and_one_start_for_all():
    params = NET.init(jax.random.key(0))
    many = scax.train_many(method(1e-3), lambda key: params, (X, Y), keys=KEYS, steps=2, batch_size=4)
    assert many.params[0]["weight"].shape == (3, 3, 4)
    assert not np.allclose(many.params[0]["weight"][0], many.params[0]["weight"][1])  # other batches


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": jax.random.key(0)}, "one random key per run"),
        ({"keys": jnp.arange(3)}, "one random key per run"),
        ({"method": [method(1e-3)]}, "a list of 3, one per key"),
        ({"method": [method(1e-3), method(1e-2), scax.SCA(method(1e-3).problem, carry=0.0)]}, "differ in numbers only"),
        ({"init": NET.init(jax.random.key(0))}, "a function of a key"),
        ({"steps": 0}, "steps must be"),
    ],
)
def test_bad_input(change, message):
    arguments = {"method": method(1e-3), "init": NET.init, "data": (X, Y), "keys": KEYS, "steps": 2} | change
    with pytest.raises((TypeError, ValueError), match=message):
        scax.train_many(**arguments)

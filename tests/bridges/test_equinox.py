"""Equinox models: the structured step is found, agrees with the judge, and the weights find their way back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from tests.bridges.judge import assert_structured_is_the_judge, double, rows

eqx = pytest.importorskip("equinox", reason="needs the extra: pip install 'scax[equinox]'")
KEY = jax.random.key(0)


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    out: eqx.nn.Linear

    def __call__(self, x):
        start = jnp.zeros(self.cell.hidden_size, x.dtype)
        last, _ = jax.lax.scan(lambda h, row: (self.cell(row, h), None), start, x)
        return self.out(last)


class Encoder(eqx.Module):
    enter: eqx.nn.Linear
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    out: eqx.nn.Linear

    def __call__(self, x):
        h = jax.vmap(self.enter)(x)
        h = jax.vmap(self.norm)(h + self.attention(h, h, h))
        return self.out(h.mean(axis=0))


def dense():
    return eqx.nn.MLP(5, 2, 4, 1, key=KEY), rows(6, 5), {r"layers\[0\].weight": "5→4", r"layers\[1\].weight": "4→2"}


def convolutional():
    parts = [eqx.nn.Conv2d(1, 2, 3, key=KEY), eqx.nn.Lambda(jax.nn.relu), eqx.nn.MaxPool2d(2, 2)]
    net = eqx.nn.Sequential([*parts, eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(8, 3, key=KEY)])
    return net, rows(6, 1, 6, 6), {r"layers\[4\].weight": "8→3"}


def recurrent():
    net = Recurrent(eqx.nn.GRUCell(2, 3, key=KEY), eqx.nn.Linear(3, 1, key=KEY))
    return net, rows(6, 5, 2), {"out.weight": "3→1"}


def transformer():
    one, two, three = jax.random.split(KEY, 3)
    attention = eqx.nn.MultiheadAttention(2, 4, key=two)
    net = Encoder(eqx.nn.Linear(3, 4, key=one), attention, eqx.nn.LayerNorm(4), eqx.nn.Linear(4, 2, key=three))
    return net, rows(6, 5, 3), {"out.weight": "4→2"}


@pytest.mark.parametrize("network", [dense, convolutional, recurrent, transformer], ids=lambda f: f.__name__)
def test_structured_step(network, x64):
    model, x, held = network()
    bridge = scax.from_equinox(model)
    params = double(bridge.params)
    assert_structured_is_the_judge(bridge, params, x, jax.jit(jax.vmap(bridge.load(params)))(x), held)


def test_weights_go_back():
    model, x, _ = dense()
    bridge = scax.from_equinox(model)
    changed = jax.tree.map(lambda leaf: leaf + 1, bridge.params)
    back = bridge.load(changed)
    assert isinstance(back, eqx.nn.MLP)
    np.testing.assert_array_equal(back.layers[0].weight, model.layers[0].weight + 1)
    np.testing.assert_allclose(jax.vmap(back)(x), bridge.apply(changed, x), rtol=1e-6)


def normalized(p=0.5):
    def build(key):
        parts = [eqx.nn.Linear(3, 4, key=key), eqx.nn.BatchNorm(4, "rows", mode="batch"), eqx.nn.Dropout(p)]
        return eqx.nn.Sequential([*parts, eqx.nn.Linear(4, 1, key=key)])

    return eqx.nn.make_with_state(build)(KEY)


def test_running_statistics_are_used():
    model, state = normalized()
    x = rows(6, 3).astype(jnp.float32)
    trained = jax.vmap(eqx.nn.Sequential(model.layers[:2]), in_axes=(0, None), out_axes=(0, None), axis_name="rows")
    _, state = trained(x, state)  # one batch of statistics
    model = eqx.nn.inference_mode(model)
    bridge = scax.from_equinox(model, state)
    z, _ = jax.vmap(model, in_axes=(0, None), out_axes=(0, None), axis_name="rows")(x, state)
    np.testing.assert_allclose(bridge.apply(bridge.params, x), z, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(bridge.apply(bridge.params, x[:2]), z[:2], rtol=1e-5, atol=1e-6)  # row by row


def test_training_mode_is_refused():
    model, state = normalized()
    with pytest.raises(ValueError, match=r"BatchNorm at model\.layers\[1\] is in training mode.*inference_mode"):
        scax.from_equinox(model, state)
    with pytest.raises(ValueError, match=r"Dropout.*draws random numbers"):
        scax.from_equinox(eqx.nn.Sequential([eqx.nn.Linear(3, 1, key=KEY), eqx.nn.Dropout(0.5)]))
    scax.from_equinox(eqx.nn.Sequential([eqx.nn.Linear(3, 1, key=KEY), eqx.nn.Dropout(0.0)]))  # p = 0 does nothing
    with pytest.raises(TypeError, match="model must be a callable"):
        scax.from_equinox(3)

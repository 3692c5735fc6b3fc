"""Flax modules, NNX and Linen: the structured step is found, agrees with the judge, and the weights go back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from tests.bridges.judge import assert_structured_is_the_judge, double, rows

pytest.importorskip("flax", reason="needs the extra: pip install 'scax[flax]'")
from flax import linen as nn
from flax import nnx

KEY = jax.random.key(0)


class NnxDense(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(5, 4, rngs=rngs), nnx.Linear(4, 2, rngs=rngs)])

    def __call__(self, x):
        return self.layers[1](jnp.tanh(self.layers[0](x)))


class NnxConvolutional(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(1, 2, (3, 3), padding="VALID", rngs=rngs)
        self.out = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        h = nnx.max_pool(nnx.relu(self.conv(x)), (2, 2), (2, 2))
        return self.out(h.reshape(h.shape[0], -1))


class NnxRecurrent(nnx.Module):
    def __init__(self, rngs):
        self.rnn = nnx.RNN(nnx.GRUCell(2, 3, param_dtype=jnp.float64, rngs=rngs))
        self.out = nnx.Linear(3, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(self.rnn(x)[:, -1])


class NnxEncoder(nnx.Module):
    def __init__(self, rngs):
        self.enter = nnx.Linear(3, 4, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 4, decode=False, rngs=rngs)
        self.norm = nnx.LayerNorm(4, rngs=rngs)
        self.out = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        h = self.enter(x)
        return self.out(self.norm(h + self.attention(h)).mean(axis=1))


class Dense(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(jnp.tanh(nn.Dense(4)(x)))


class Recurrent(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.RNN(nn.LSTMCell(2, param_dtype=jnp.float64))(x)[:, -1])


@pytest.mark.parametrize(
    ("kind", "shape", "held"),
    [
        (NnxDense, (5,), {r"\[0\]\['kernel'\]": "5→4", r"\[1\]\['kernel'\]": "4→2"}),
        (NnxConvolutional, (6, 6, 1), {r"'out'.*'kernel'": "8→3"}),
        (NnxRecurrent, (5, 2), {r"'out'.*'kernel'": "3→1"}),
        (NnxEncoder, (5, 3), {r"^\['out'\]\['kernel'": "4→2"}),
    ],
)
def test_nnx_structured_step(kind, shape, held, x64):
    model, x = kind(nnx.Rngs(0)), rows(6, *shape)
    bridge = scax.from_flax(model)
    params = double(bridge.params)
    # Flax computes an attention's softmax in float32, whatever the weights are
    tolerance = {"rtol": 1e-6, "atol": 1e-7} if kind is NnxEncoder else {}
    assert_structured_is_the_judge(bridge, params, x, bridge.load(params)(x), held, **tolerance)


@pytest.mark.parametrize(
    ("kind", "shape", "held"),
    [
        (Dense, (5,), {"'Dense_1'.*'kernel'": "5→4", "'Dense_0'.*'kernel'": "4→2"}),
        (Recurrent, (5, 2), {"'Dense_0'.*'kernel'": "2→1"}),
    ],
)
def test_linen_structured_step(kind, shape, held, x64):
    module, x = kind(), rows(6, *shape)
    bridge = scax.from_flax(module, module.init(KEY, x))
    params = double(bridge.params)
    assert_structured_is_the_judge(bridge, params, x, jax.jit(module.apply)(bridge.load(params), x), held)


def test_nnx_weights_go_back_into_the_same_model():
    model = NnxDense(nnx.Rngs(0))
    before = model.layers[0].kernel[...]
    bridge = scax.from_flax(model)
    assert bridge.load(jax.tree.map(lambda leaf: leaf + 1, bridge.params)) is model
    np.testing.assert_array_equal(model.layers[0].kernel[...], before + 1)


class NnxNormalized(nnx.Module):
    def __init__(self, rngs, rate=0.5):
        self.dense = nnx.Linear(3, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.drop = nnx.Dropout(rate, rngs=rngs)

    def __call__(self, x):
        return self.drop(self.norm(self.dense(x)))


def test_nnx_eval_mode_works_and_training_mode_is_refused():
    model, x = NnxNormalized(nnx.Rngs(0)), rows(6, 3).astype(jnp.float32)
    model(x)  # one batch of statistics
    mean = model.norm.mean[...]
    assert np.any(mean != 0)
    bridge = scax.from_flax(model)
    with pytest.raises(
        ValueError, match=r"norm\.mean is in training mode and changes with every batch.*model\.eval\(\)"
    ):
        bridge.apply(bridge.params, x)
    model.norm.use_running_average = True
    bridge = scax.from_flax(model)
    with pytest.raises(ValueError, match=r"drop.* draws random numbers"):
        bridge.apply(bridge.params, x)
    model.eval()
    bridge = scax.from_flax(model)
    np.testing.assert_allclose(jax.jit(bridge.apply)(bridge.params, x), model(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(model.norm.mean[...], mean)


class Normalized(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool):
        h = nn.BatchNorm(use_running_average=not train)(nn.Dense(4)(x))
        return nn.Dropout(0.5, deterministic=not train)(h)


def test_linen_eval_mode_works_and_training_mode_is_refused():
    module, x = Normalized(), rows(6, 3).astype(jnp.float32)
    variables = module.init(KEY, x, train=False)
    _, seen = module.apply(variables, x, train=True, mutable=["batch_stats"], rngs={"dropout": KEY})
    variables = {**variables, **seen}
    bridge = scax.from_flax(module, variables, train=False)
    np.testing.assert_allclose(
        bridge.apply(bridge.params, x), module.apply(variables, x, train=False), rtol=1e-5, atol=1e-6
    )
    assert set(bridge.load(bridge.params)) == {"params", "batch_stats"}
    training = scax.from_flax(module, variables, train=True)
    with pytest.raises(ValueError, match=r"Normalized is in training mode and changes its state.*train=False"):
        training.apply(training.params, x)


def test_linen_dropout_is_refused():
    module = nn.Sequential([nn.Dense(2), nn.Dropout(0.5, deterministic=False)])
    x = rows(6, 3).astype(jnp.float32)
    bridge = scax.from_flax(module, module.init({"params": KEY, "dropout": KEY}, x))
    with pytest.raises(ValueError, match="draws random numbers"):
        bridge.apply(bridge.params, x)


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"variables is missing.*module\.init\(key, x\)"):
        scax.from_flax(Dense())
    with pytest.raises(TypeError, match="variables belongs to Linen"):
        scax.from_flax(NnxDense(nnx.Rngs(0)), {})
    with pytest.raises(TypeError, match="module must be a flax"):
        scax.from_flax(3)

"""Flat weights and back, and parameters that are not trained."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.layout import Layout, Mask
from tests.cases import rows


def tree():
    return {"a": jnp.arange(6.0).reshape(2, 3), "b": [jnp.ones(2), {"c": jnp.asarray(5.0)}]}


def test_there_and_back():
    params = tree()
    layout = Layout.of(params)
    w = layout.flatten(params)
    assert w.shape == (layout.size,) == (9,)
    assert layout.sizes == (6, 2, 1)
    assert layout.dtype(params) == w.dtype
    jax.tree.map(np.testing.assert_array_equal, layout.unflatten(w), params)
    jax.tree.map(np.testing.assert_array_equal, layout.merge(*layout.split(params)), params)


def test_leading_axes_stay_in_front():
    layout = Layout.of(tree())
    many = layout.unflatten(jnp.zeros((4, 9)))
    assert many["a"].shape == (4, 2, 3)
    assert many["b"][1]["c"].shape == (4,)


def test_layout_is_hashable_structure():
    assert hash(Layout.of(tree())) == hash(Layout.of(tree()))
    assert Layout.of(tree()) == Layout.of(tree())


def test_masks_may_name_whole_subtrees():
    mask = Mask.of({"a": False, "b": True})
    layout = Layout.of(tree(), mask)
    assert layout.trained == (False, True, True)
    assert layout.size == 3


@pytest.mark.parametrize(
    ("trainable", "kind", "words"),
    [
        ({"a": 1, "b": True}, TypeError, "trainable must be a pytree of True and False, found 1"),
        ({"z": True}, ValueError, "trainable does not have the structure of params"),
        ({"a": False, "b": False}, ValueError, "at least one leaf of params must be True"),
    ],
)
def test_refuses_masks(trainable, kind, words):
    with pytest.raises(kind, match=words):
        Layout.of(tree(), Mask.of(trainable))


@pytest.mark.parametrize(
    ("params", "kind", "words"),
    [
        ({"a": jnp.arange(3)}, TypeError, r"params\['a'\] is int32; trained weights must be floating"),
        ({"a": 1.0}, TypeError, r"params\['a'\] is float; trained weights must be floating"),
        ({"a": jnp.array([1.0, jnp.nan])}, ValueError, r"params\['a'\] has 1 value\(s\) that are not finite"),
        ({"a": jnp.ones(1), "b": jnp.ones(1, jnp.bfloat16)}, TypeError, r"params\['b'\] is bfloat16: .* float32"),
        ({}, ValueError, "params has no leaves"),
    ],
)
def test_refuses_params(params, kind, words):
    with pytest.raises(kind, match=words):
        Layout.of(params)


def test_refuses_several_precisions(x64):
    with pytest.raises(TypeError, match=r"several dtypes .*: convert them to one"):
        Layout.of({"a": jnp.ones(1), "b": jnp.ones(1, jnp.float32)})


def test_refuses_another_structure():
    with pytest.raises(ValueError, match="params has the structure"):
        Layout.of(tree()).split({"a": jnp.ones(1)})


def network(params, x):
    hidden = jnp.tanh(x @ params["in"] + params["shift"])
    return hidden[:, params["order"]] @ params["out"]


def parts():
    rng = np.random.default_rng(0)
    return {
        "in": jnp.asarray(rng.normal(size=(3, 4)), jnp.float32),
        "shift": jnp.asarray(rng.normal(size=4), jnp.float32),
        "order": jnp.asarray([2, 0, 1, 3]),
        "out": jnp.asarray(rng.normal(size=4), jnp.float32),
    }


MASK = {"in": False, "shift": True, "order": False, "out": True}


@pytest.mark.parametrize("regularizer", [scax.L2(1e-2), scax.L1(1e-2)])
def test_frozen_leaves_stay_bit_for_bit_and_act_as_constants(regularizer):
    """Integer leaves too; and the trained ones move as if the frozen were written into the network."""
    params = parts()
    x = rows(1, 8, dtype=np.float32)
    y = np.sin(x[:, 0])
    frozen = {k: params[k] for k in ("in", "order")}

    def smaller(trained, x):
        return network({**frozen, **trained}, x)

    masked = scax.SCA(scax.Problem(network, scax.Squared(), regularizer, trainable=MASK))
    plain = scax.SCA(scax.Problem(smaller, scax.Squared(), regularizer))
    a = masked.init(params)
    b = plain.init({k: params[k] for k in ("shift", "out")})
    for _ in range(3):
        a, _ = masked.step(a, (x, y))
        b, _ = plain.step(b, (x, y))
    for name in frozen:
        np.testing.assert_array_equal(a.params[name], params[name])
        np.testing.assert_array_equal(masked.solution(a)[name], params[name])
        assert a.params[name].dtype == params[name].dtype
    for name in ("shift", "out"):
        # a sparse step is solved to a relative duality gap of 1e-6: ‖δ − δ*‖ ≤ √(gap · F/μ), about 1e-3
        atol = 1e-6 if regularizer.is_smooth else 1e-3
        np.testing.assert_allclose(a.params[name], b.params[name], rtol=1e-4, atol=atol)
        assert not np.array_equal(a.params[name], params[name])


def test_frozen_leaves_in_a_baseline():
    import optax

    params = parts()
    x = rows(1, 8, dtype=np.float32)
    method = scax.baseline(optax.adam(1e-2), scax.Problem(network, scax.Squared(), scax.L2(1e-2), trainable=MASK))
    state, _ = method.step(method.init(params), (x, x[:, 0]))
    for name in ("in", "order"):
        np.testing.assert_array_equal(state.params[name], params[name])
    assert not np.array_equal(state.params["out"], params["out"])

"""Exactly sparse networks: the smaller network, weights held at zero, the example."""

import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from tests.sparse import NET, data, flat, trained


def test_compact_gives_the_same_outputs_with_less():
    _, result = trained()
    small = scax.compact(NET, result.params)
    assert small.net.widths[0] == len(small.inputs) < 6
    assert small.after.stored < small.before.stored
    assert small.after.multiply_adds < small.before.multiply_adds
    np.testing.assert_allclose(small.apply(data()[0]), NET.apply(result.params, data()[0]), atol=1e-6)
    assert "multiply-adds" in str(small)
    assert all(t > 0 for t in small.seconds(rows=8, repeats=1))


@pytest.mark.parametrize("activation", ["tanh", "softplus", "sigmoid"])
@pytest.mark.parametrize("seed", range(4))
def test_compact_on_random_zeros(seed, activation, x64):
    """Dead ends, constants and what follows from them, in any pattern."""
    net = scax.MLP((4, 6, 5, 2), activation)
    rng = np.random.default_rng(seed)
    params = [
        {"weight": rng.normal(size=(a, b)) * (rng.uniform(size=(a, b)) < 0.25), "bias": rng.normal(size=b)}
        for a, b in ((4, 6), (6, 5), (5, 2))
    ]
    x = rng.normal(size=(7, 4))
    small = scax.compact(net, params)
    np.testing.assert_allclose(small.apply(x), net.apply(params, x), rtol=1e-12, atol=1e-12)
    for before, after in zip(small.params[:-1], small.params[1:], strict=True):
        if all(np.any(layer["weight"]) for layer in small.params):  # not a constant network
            assert np.all(np.any(before["weight"] != 0, axis=0))
            assert np.all(np.any(after["weight"] != 0, axis=1))


def test_compact_of_a_constant_network(x64):
    params = [{"weight": np.zeros((3, 4)), "bias": np.ones(4)}, {"weight": np.ones((4, 1)), "bias": np.zeros(1)}]
    net = scax.MLP((3, 4, 1))
    small = scax.compact(net, params)
    assert small.net.widths == (1, 1, 1)
    np.testing.assert_allclose(small.apply(np.zeros((2, 3))), net.apply(params, np.zeros((2, 3))), rtol=1e-14)


def test_compact_refuses_what_it_cannot_read():
    with pytest.raises(ValueError, match="are those of a network of widths"):
        scax.compact(NET, NET.init(jax.random.key(0))[:1])


def test_the_example_ends_with_a_network_a_fifth_of_the_size(tmp_path, capsys):
    file = Path(__file__).parents[1] / "examples" / "sparse_from_csv.py"
    spec = importlib.util.spec_from_file_location("sparse_from_csv", file)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    small = example.main(*example.made_up(tmp_path), steps=100)
    assert small.before.stored >= 5 * small.after.stored
    told = re.search(r"inputs used, and the size of their weights: (.*)", capsys.readouterr().out)
    assert told
    used = {name: float(size) for name, size in (word.split() for word in told[1].split(", "))}
    assert len(used) == len(small.inputs)
    assert set(list(used)[:3]) == {"c1", "c4", "c9"}  # the columns that decide the target, largest first
    assert min(list(used.values())[:3]) > 10 * max([*list(used.values())[3:], 0.0])


def test_support_holds_weights_at_zero():
    free = jnp.asarray([True, False, True])
    part, w = scax.Support(free), jnp.asarray([1.0, 2.0, -3.0])
    np.testing.assert_array_equal(part.prox(w, 0.5), [1, 0, -3])
    assert part.value(w) == np.inf
    assert part.value(part.prox(w, 1.0)) == 0
    np.testing.assert_array_equal(part.take(jnp.asarray([1, 2])).free, [False, True])
    with pytest.raises(ValueError, match="which of 3 weights may move but the network trains"):
        scax.SCA(scax.Problem(NET.apply, scax.Squared(), scax.L2(1.0) + part)).init(NET.init(jax.random.key(0)))
    params = NET.init(jax.random.key(0))
    held = scax.L2(1.0) + scax.Support(jnp.arange(flat(params).size) != flat(params).size - 1)
    sca = scax.SCA(scax.Problem(NET.apply, scax.Squared(), held))
    with pytest.raises(ValueError, match=r"params has 1 of the weights that Support holds at zero: set them to 0\.0"):
        sca.init(params)
    assert jax.jit(sca.init)(params).w[-1] == 0

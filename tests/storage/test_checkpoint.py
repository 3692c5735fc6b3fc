"""Checkpoints: restored to the bit, and only into the run that wrote them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scax
from scax.storage import FileError, load_checkpoint, read_info, save_checkpoint
from scax.tables import Shuffle


def _same(a, b):
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        x_, y_ = np.asarray(x), np.asarray(y)
        if (x_.dtype, x_.shape, x_.tobytes()) != (y_.dtype, y_.shape, y_.tobytes()):
            return False
        if getattr(x, "weak_type", False) != getattr(y, "weak_type", False):
            return False
    return True


def _problem():
    net = scax.MLP((3, 4, 1))
    return net, scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))


def _data():
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    return x, np.sin(x.sum(axis=1))


@pytest.mark.parametrize("method", ["sca", "adam"])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, method):
    net, problem = _problem()
    run = scax.SCA(problem) if method == "sca" else scax.baseline(optax.adam(1e-2), problem)
    params, (x, y) = net.init(jax.random.key(0)), _data()
    step = jax.jit(run.step)

    def go(state, stream, count):
        for _ in range(count):
            stream, rows = stream.draw(8)
            state, _ = step(state, (x[rows], y[rows]))
        return state, stream

    start = run.init(params), Shuffle.start(jax.random.key(3), 40)
    straight = go(*start, 12)
    half = go(*start, 5)
    save_checkpoint(tmp_path / "c", {"state": half[0], "stream": half[1], "key": jax.random.key(7)}, {"step": 5})
    template = {"state": run.init(params), "stream": Shuffle.start(jax.random.key(0), 40), "key": jax.random.key(0)}
    back, info = load_checkpoint(tmp_path / "c", template)
    assert info == {"step": 5} == read_info(tmp_path / "c")
    assert _same(back, {"state": half[0], "stream": half[1], "key": jax.random.key(7)})
    assert _same(go(back["state"], back["stream"], 7), straight)


def test_leaves_of_every_kind(tmp_path):
    tree = {
        "weak": jnp.asarray(1.5), "bf": jnp.ones(3, jnp.bfloat16), "numpy": np.arange(3)[::-1], "int": 3, "float": 0.1,
        "flag": True, "none": None, "keys": jax.random.split(jax.random.key(1), 4), "old": jax.random.PRNGKey(2),
        "nan": jnp.array([jnp.nan, -0.0, jnp.inf]), "empty": jnp.zeros((0, 3)), "rbg": jax.random.key(1, impl="rbg"),
    }  # fmt: skip
    save_checkpoint(tmp_path / "c", tree)
    back, _ = load_checkpoint(tmp_path / "c", tree)
    assert _same(back, tree)
    assert isinstance(back["numpy"], np.ndarray)
    assert (type(back["int"]), type(back["float"]), type(back["flag"])) == (int, float, bool)


def test_shapes_alone_are_template_enough(tmp_path):
    net, problem = _problem()
    state = scax.SCA(problem).init(net.init(jax.random.key(5)))
    save_checkpoint(tmp_path / "c", state)
    shapes = jax.eval_shape(lambda k: scax.SCA(problem).init(net.init(k)), jax.random.key(0))
    assert _same(load_checkpoint(tmp_path / "c", shapes)[0], state)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({"a": jnp.zeros(3), "b": jnp.zeros(())}, r"state\['a'\] is float32\[2\] and should be float32\[3\]"),
        ({"a": jnp.zeros(2, jnp.int32), "b": jnp.zeros(())}, "should be int32"),
        ({"a": jnp.zeros(2)}, r"holds state\['b'\]"),
        ({"a": jnp.zeros(2), "b": jnp.zeros(()), "c": 1}, r"lacks state\['c'\]"),
        ({"a": jnp.zeros(2), "b": jax.random.key(0)}, "random key"),
        ({"a": 1.0, "b": jnp.zeros(())}, "single number"),
    ],
)
def test_another_run_is_refused(tmp_path, template, message):
    save_checkpoint(tmp_path / "c", {"a": jnp.zeros(2), "b": jnp.zeros(())})
    with pytest.raises(FileError, match=message):
        load_checkpoint(tmp_path / "c", template)


def test_a_model_is_no_checkpoint(tmp_path):
    net, _ = _problem()
    scax.save(tmp_path / "m", net, net.init(jax.random.key(0)))
    with pytest.raises(FileError, match="holds a model, not a checkpoint"):
        load_checkpoint(tmp_path / "m", {})

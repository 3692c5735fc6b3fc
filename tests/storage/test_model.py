"""Model files: the network JAX trained is the one NumPy predicts with, on a machine without JAX too."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from benchmarks import fuzz_files
from scax.models import mlp
from scax.storage import FileError, container, error_bars, model, network
from scax.storage.network import ACTIVATIONS, SLOPES, jacobian
from scax.tables import Preprocess, TableError, Tally


def test_numpy_knows_every_activation_of_the_network():
    assert set(ACTIVATIONS) == set(mlp.ACTIVATIONS)


def test_outputs_agree_with_jax(tmp_path, dtype):
    rng = np.random.default_rng(0)
    params = [
        {"weight": rng.normal(size=shape).astype(dtype), "bias": rng.normal(size=shape[1]).astype(dtype)}
        for shape in ((3, 5), (5, 4), (4, 2))
    ]
    x = rng.normal(size=(20, 3)).astype(dtype)
    for activation in ACTIVATIONS:
        net = scax.MLP((3, 5, 4, 2), activation=activation, output=activation)
        scax.save(tmp_path / "m", net, params)
        found = scax.load(tmp_path / "m").predict(x)
        assert found.dtype == dtype
        wanted = jax.jit(net.apply)(jax.tree.map(jnp.asarray, params), jnp.asarray(x))
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(found, wanted, rtol=100 * eps, atol=100 * eps, err_msg=activation)


def test_the_jacobian_in_numpy_is_that_of_jax(x64):
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=shape), rng.normal(size=shape[1])) for shape in ((3, 5), (5, 4), (4, 2))]
    params = [{"weight": jnp.asarray(w), "bias": jnp.asarray(b)} for w, b in layers]
    x = rng.normal(size=(6, 3))
    net = scax.MLP((3, 5, 4, 2), output="sigmoid")
    _, found = jacobian(layers, "tanh", "sigmoid", x)
    tree = jax.jit(jax.jacobian(net.apply))(params, x)
    wanted = np.concatenate([np.reshape(leaf, (6, 2, -1)) for leaf in jax.tree.leaves(tree)], axis=2)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(jacobian(layers, "tanh", "sigmoid", x, last=True)[1], found[:, :, -10:])
    at = np.linspace(-3, 3, 8)
    slopes = jax.jit(lambda a: {name: jax.vmap(jax.grad(f))(a) for name, f in mlp.ACTIVATIONS.items()})(at)
    for name, wanted in slopes.items():
        np.testing.assert_allclose(SLOPES[name](at), wanted, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("rows", [30, 8])
def test_error_bars_are_saved_with_the_model(tmp_path, rows):
    rng = np.random.default_rng(0)
    net = scax.MLP((2, 4, 1))
    x, y = rng.normal(size=(rows, 2)), rng.normal(size=rows)
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(0.1))
    params = scax.train(scax.SCA(problem), net.init(jax.random.key(0)), (x, y), steps=60, batch_size=None).params
    post = scax.posterior(problem, params, (x, y))
    scax.save(tmp_path / "m", net, params, posterior=post)
    back = scax.load(tmp_path / "m")
    np.testing.assert_allclose(back.predict_interval(x, 0.8), post.predict_interval(x, 0.8), rtol=1e-4)
    np.testing.assert_allclose(back.predict_std(x), post.predict(x, noise=True)[1][:, 0], rtol=1e-5)
    model.write_model(tmp_path / "n", back)
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()
    other = scax.MLP((2, 3, 1))
    with pytest.raises(ValueError, match="of a 2/4/1 network, and the model is a 2/3/1"):
        scax.save(tmp_path / "p", other, other.init(jax.random.key(0)), posterior=post)
    with pytest.raises(FileError, match="error bars of another network"):  # of the same widths
        scax.save(tmp_path / "p", net, net.init(jax.random.key(1)), posterior=post)
    scax.save(tmp_path / "p", net, params)
    with pytest.raises(ValueError, match="no error bars"):
        scax.load(tmp_path / "p").predict_interval(x)


@pytest.mark.filterwarnings("ignore:the weights are not at a minimum")
@pytest.mark.parametrize("rows", [60, 12])
@pytest.mark.parametrize("frozen", [False, True])
def test_error_bars_of_inputs_with_strengths_of_their_own_are_saved(tmp_path, rows, frozen):
    rng = np.random.default_rng(0)
    net = scax.MLP((3, 4, 1))
    x = rng.normal(size=(rows, 3))
    y = x[:, 0] + 0.1 * rng.normal(size=rows)
    trainable = [{"weight": True, "bias": not frozen}, {"weight": True, "bias": True}]
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-2), trainable=trainable)
    start = net.init(jax.random.key(0))
    params, _, post = scax.train_by_evidence(problem, start, (x, y), groups="inputs", steps=60, stretches=3)
    assert np.ptp(params["scale"][0]["weight"]) > 0.1
    own = jax.tree.map(np.multiply, params["scale"], params["weights"])
    scax.save(tmp_path / "m", net, own, posterior=post)
    back = scax.load(tmp_path / "m")
    new = 2 * rng.normal(size=(20, 3))
    np.testing.assert_allclose(back.predict_std(new), post.predict(new, noise=True)[1][:, 0], rtol=1e-4)
    np.testing.assert_allclose(back.predict_interval(new, 0.8), post.predict_interval(new, 0.8), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bars.noise", np.array([np.nan])),
        ("bars.noise", np.array([-1.0])),
        ("bars.noise", np.array([1j], np.complex64)),
        ("bars.temperature", np.array([-1.0])),
        ("bars.temperature", np.array([[1.0]])),
        ("bars.studentized", np.zeros((0, 1))),
        ("bars.0.offset", np.array([np.inf])),
        ("bars.0.scale", np.full(17, -1.0)),
        ("bars.0.support", np.arange(17)[::-1].copy()),
        ("bars.0.support", np.arange(1, 18)),
        ("bars.0.factor", np.zeros((5, 17), np.complex64)),
        ("bars.0.1.weight", np.zeros((3, 1))),
        ("bars.spread.0", np.zeros((3, 6))),
    ],
)
def test_error_bars_that_cannot_be_are_refused(tmp_path, name, value):
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(2, 4)), np.zeros(4)), (rng.normal(size=(4, 1)), np.zeros(1))]
    bars = fuzz_files.error_bars(layers, "identity", 1, rng)
    whole = model.Model(tuple(layers), "tanh", "linear", "identity", error_bars=bars)
    whole.save(tmp_path / "m")
    found = scax.load(tmp_path / "m")
    np.testing.assert_allclose(found.predict_std(np.zeros((1, 2))), whole.predict_std(np.zeros((1, 2))), rtol=1e-5)
    contents = container.read(tmp_path / "m")
    container.write(tmp_path / "m", "model", contents.description, contents.arrays | {name: value})
    with pytest.raises(FileError, match="does not fit its arrays"):
        scax.load(tmp_path / "m")


def test_weights_come_back_to_the_bit_and_train_on(tmp_path):
    net = scax.MLP((3, 4, 1), output="tanh")
    params = net.init(jax.random.key(0))
    scax.save(tmp_path / "m", net, params, info={"steps": 7})
    back = scax.load(tmp_path / "m")
    assert scax.MLP(back.widths, back.activation, back.output) == net
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), params, back.params))
    assert back.info == {"steps": 7}
    model.write_model(tmp_path / "n", back)
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


def test_links(tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 3))
    for loss, k in ((scax.Logistic(), 1), (scax.Softmax(), 3), (scax.Poisson(), 1), (scax.Huber(1.0), 2)):
        net = scax.MLP((3, 4, k))
        scax.save(tmp_path / "m", net, net.init(jax.random.key(2)), loss=loss)
        found = scax.load(tmp_path / "m")
        z = found.outputs(x)
        if isinstance(loss, scax.Logistic | scax.Softmax):
            p = found.predict_proba(x)
            assert p.shape == (6, max(k, 2))
            np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)
            np.testing.assert_array_equal(found.predict(x), p.argmax(axis=1))
        else:
            np.testing.assert_allclose(found.predict(x), np.exp(z[:, 0]) if k == 1 else z, rtol=1e-6)
            with pytest.raises(ValueError, match="numbers, not classes"):
                found.predict_proba(x)


TABLE = {
    "size": np.array([1.0, 2, np.nan, 4, 5, 6, 7, 8]),
    "color": np.array(["r", "g", "b", "r", "g", "b", "r", "r"], object),
    "price": np.array([10.5, 20, 30, 40, 50, 60, 70, 80]),
}


def test_tables_in_and_units_out(tmp_path, monkeypatch):
    pre = Preprocess.fit(TABLE, "price")
    net = scax.MLP((pre.schema.width, 1))
    params = net.init(jax.random.key(0))
    scax.save(tmp_path / "m", net, params, preprocess=pre)
    found = scax.load(tmp_path / "m")
    expected = (
        np.asarray(net.apply(params, jnp.asarray(pre.transform(TABLE))))[:, 0] * pre.target_scale + pre.target_mean
    )
    np.testing.assert_allclose(found.predict(TABLE), expected, rtol=1e-6)
    monkeypatch.setattr("scax.tables.table.ROWS", 3)
    blocks = list(found.blocks(TABLE))
    assert [len(b) for b in blocks] == [3, 3, 2]
    np.testing.assert_allclose(np.concatenate(blocks), expected, rtol=1e-6)
    swapped = {"more": TABLE["size"], "color": TABLE["color"], "size": TABLE["size"]}
    tally = Tally()
    np.testing.assert_array_equal(found.predict(swapped, tally), found.predict(TABLE))
    assert tally.extra == ("more",)
    with pytest.raises(TableError, match="no column 'size'"):
        found.predict({"color": TABLE["color"]})


def test_refused(tmp_path):
    net = scax.MLP((3, 1))
    params = net.init(jax.random.key(0))
    with pytest.raises(FileError, match=r"scax\.MLP, got function"):
        scax.save(tmp_path / "m", net.apply.__func__, params)
    with pytest.raises(FileError, match="weights"):
        scax.save(tmp_path / "m", scax.MLP((4, 1)), params)
    with pytest.raises(FileError, match="not finite"):
        scax.save(tmp_path / "m", net, [{"weight": np.full((3, 1), np.nan), "bias": np.zeros(1)}])
    with pytest.raises(FileError, match="loss=Hinge"):
        scax.save(tmp_path / "m", net, params, loss="Hinge")
    with pytest.raises(FileError, match=r"3 inputs .* 5 encoded features"):
        scax.save(tmp_path / "m", net, params, preprocess=Preprocess.fit(TABLE, "price"))
    assert not list(tmp_path.iterdir())
    scax.save(tmp_path / "m", net, params)
    with pytest.raises(ValueError, match=r"shape \(n, 3\)"):
        scax.load(tmp_path / "m").predict(np.zeros((2, 4)))


def test_memory_of_a_wide_network_is_bounded(monkeypatch):
    """A small file may hold a layer of millions of neurons: fewer rows go through it at a time."""
    rng, sizes = np.random.default_rng(0), []
    layers = [(rng.normal(size=(2, 300)), np.zeros(300)), (rng.normal(size=(300, 1)), np.zeros(1))]
    x = rng.normal(size=(50, 2))
    wanted = network.forward(layers, "tanh", "linear", x)
    monkeypatch.setattr(network, "NUMBERS", 3000)
    monkeypatch.setitem(network.ACTIVATIONS, "tanh", lambda a: sizes.append(a.size) or np.tanh(a))
    np.testing.assert_allclose(network.forward(layers, "tanh", "linear", x), wanted, rtol=1e-12)
    assert sizes == 5 * [3000]


def test_memory_of_error_bars_is_bounded(monkeypatch):
    rng, k = np.random.default_rng(0), 3
    layers = [(rng.normal(size=(2, 4)), np.zeros(4)), (rng.normal(size=(4, k)), np.zeros(k))]
    bars = fuzz_files.error_bars(layers, "softmax", 1, rng)
    whole = model.Model(tuple(layers), "tanh", "linear", "softmax", error_bars=bars)
    x = rng.normal(size=(50, 2))
    wanted = whole.predict_proba(x, calibrated=True)
    monkeypatch.setattr(error_bars, "CHUNK", 10 * (2 * k**2 + 6))
    assert [len(part) for part in bars.pieces(x)] == 5 * [10]
    np.testing.assert_allclose(whole.predict_proba(x, calibrated=True), wanted, rtol=1e-12)
    assert whole.predict_proba(x[:0], calibrated=True).shape == (0, k)


def test_predicts_where_only_numpy_is_installed(tmp_path):
    pre = Preprocess.fit(TABLE, "price")
    net = scax.MLP((pre.schema.width, 3, 1))
    scax.save(tmp_path / "m", net, net.init(jax.random.key(0)), preprocess=pre)
    code = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in "jax jaxlib jaxtyping ml_dtypes optax polars pandas safetensors sklearn".split():
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
import scax
model = scax.load(sys.argv[1])
table = {"size": [1.0, 2.0, None], "color": ["r", "g", "purple"]}
print(*model.predict(table).tolist())
"""
    run = subprocess.run([sys.executable, "-c", code, tmp_path / "m"], check=True, capture_output=True, text=True)
    expected = scax.load(tmp_path / "m").predict({"size": [1.0, 2.0, None], "color": ["r", "g", "purple"]})
    assert [float(v) for v in run.stdout.split()] == expected.tolist()


def test_a_model_prints_as_a_line():
    layers = tuple((np.ones((a, b)), np.ones(b)) for a, b in ((2, 3), (3, 1)))
    assert repr(model.Model(layers, "tanh", "linear", "identity")) == "Model(2/3/1, tanh, identity, 13 weights)"

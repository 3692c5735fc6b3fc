"""The exported network gives in onnxruntime what the model gives in NumPy, preprocessing included."""

import jax
import numpy as np
import pytest

import scax
from scax.storage.network import ACTIVATIONS
from scax.tables import Preprocess

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra: pip install 'scax[onnx]'")
pytest.importorskip("onnx", reason="needs the extra: pip install 'scax[onnx]'")


def _run(path, feeds):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert {i.name for i in session.get_inputs()} == set(feeds)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def _table(rng, n=60):
    size = np.where(rng.random(n) < 0.2, np.nan, 1e6 + rng.normal(size=n))
    color = np.where(rng.random(n) < 0.2, "", rng.choice(["red", "green", "blue"], n)).astype(object)
    return {
        "size": size,
        "color": color,
        "new": rng.random(n) < 0.5,
        "shape": rng.choice(["round", "flat"], n).astype(object),
        "price": rng.normal(size=n),
    }


def _model(tmp_path, table):
    pre = Preprocess.fit(table, "price")
    net = scax.MLP((pre.schema.width, 5, pre.schema.outputs))
    scax.save(tmp_path / "m.scax", net, net.init(jax.random.key(1)), preprocess=pre)
    return scax.load(tmp_path / "m.scax")


def _feeds(table):
    feeds = {"numbers": np.stack([table["size"], table["new"].astype(float)], axis=1)}
    for name in ("color", "shape"):
        feeds[name] = table[name].reshape(-1, 1)
    return feeds


def test_regression_with_missing_values_and_unseen_levels(tmp_path):
    rng = np.random.default_rng(0)
    model = _model(tmp_path, _table(rng))
    model.to_onnx(tmp_path / "m.onnx")
    new = _table(rng)
    new["shape"][:5] = "square"
    found = _run(tmp_path / "m.onnx", _feeds(new))
    np.testing.assert_allclose(found["prediction"], model.predict(new), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 7, 12], [False, True], ["a", "b", "c"]])
def test_classes(tmp_path, labels):
    rng = np.random.default_rng(0)
    table = _table(rng) | {"price": np.array(labels)[rng.integers(0, len(labels), 60)]}
    model = _model(tmp_path, table)
    model.to_onnx(tmp_path / "m.onnx")
    found = _run(tmp_path / "m.onnx", _feeds(table))
    assert model.classes == tuple(labels)
    assert found["label"].tolist() == model.predict(table).tolist()
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_without_preprocessing(tmp_path, activation):
    net = scax.MLP((3, 4, 2), activation=activation, output=activation)
    scax.save(tmp_path / "m.scax", net, net.init(jax.random.key(0)))
    model = scax.load(tmp_path / "m.scax")
    model.to_onnx(tmp_path / "m.onnx")
    x = 3 * np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    np.testing.assert_allclose(_run(tmp_path / "m.onnx", {"x": x})["prediction"], model.predict(x), atol=2e-6)


def test_poisson_and_a_single_output(tmp_path):
    net = scax.MLP((3, 4, 1))
    scax.save(tmp_path / "m.scax", net, net.init(jax.random.key(0)), loss=scax.Poisson())
    model = scax.load(tmp_path / "m.scax")
    model.to_onnx(tmp_path / "m.onnx")
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(_run(tmp_path / "m.onnx", {"x": x})["prediction"], model.predict(x), rtol=1e-5)
    assert (model.predict(x) > 0).all()

"""The structured form agrees with the materialized Jacobian whatever the network, and says what it read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.linearize import linearize, structured
from scax.linearize.network import NetworkFunction
from scax.linearize.walk import find_uses


def draw(rng, *shape):
    return jnp.asarray(0.5 * rng.normal(size=shape))


def mlp(rng):
    net = scax.MLP((5, 4, 3, 2))
    return net.apply, net.init(jax.random.key(0)), draw(rng, 7, 5)


def vmapped(rng):
    """Kernels stored [outputs, inputs] and applied to one row at a time, as Equinox does."""

    def apply(p, x):
        return jax.vmap(lambda v: p["v"] @ jnp.tanh(p["w"] @ v + p["b"]))(x)

    return apply, {"w": draw(rng, 4, 5), "v": draw(rng, 2, 4), "b": draw(rng, 4)}, draw(rng, 7, 5)


def recurrent(rng):
    def apply(p, x):
        def cell(h, row):
            return jnp.tanh(row @ p["in"] + h @ p["hidden"] + p["bias"]), None

        h, _ = jax.lax.scan(cell, jnp.zeros((x.shape[0], 3)), x.transpose(1, 0, 2))
        return h @ p["out"]

    shapes = {"in": (2, 3), "hidden": (3, 3), "bias": (3,), "out": (3, 2)}
    return apply, {name: draw(rng, *shape) for name, shape in shapes.items()}, draw(rng, 6, 5, 2)


def tied(rng):
    def apply(p, x):
        return jnp.tanh(jnp.tanh(x @ p["w"]) @ p["w"].T) @ p["v"]

    return apply, {"w": draw(rng, 5, 4), "v": draw(rng, 5, 2)}, draw(rng, 7, 5)


def twice(rng):
    def apply(p, x):
        return jnp.tanh(jnp.tanh(x @ p["w"]) @ p["w"]) @ p["v"] + p["c"]

    return apply, {"w": draw(rng, 5, 5), "v": draw(rng, 5, 2), "c": draw(rng, 2)}, draw(rng, 7, 5)


def convolutional(rng):
    def apply(p, x):
        h = jax.lax.conv_general_dilated(x, p["k"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(h + p["b"]).reshape(x.shape[0], -1) @ p["w"]

    return apply, {"k": draw(rng, 3, 3, 1, 2), "b": draw(rng, 2), "w": draw(rng, 32, 3)}, draw(rng, 5, 4, 4, 1)


def residual(rng):
    """Residual blocks with a normalization and its scale, and an output without a second axis."""

    def apply(p, x):
        h = x @ p["in"]
        for block in p["blocks"]:
            normal = h * jax.lax.rsqrt(jnp.mean(h**2, axis=-1, keepdims=True) + 1e-5) * block["scale"]
            h = h + jax.nn.gelu(normal @ block["w"] + block["b"]) @ block["v"]
        return (h @ p["out"])[:, 0]

    block = {"scale": (4,), "w": (4, 6), "b": (6,), "v": (6, 4)}
    blocks = [{name: draw(rng, *shape) for name, shape in block.items()} for _ in range(2)]
    return apply, {"in": draw(rng, 5, 4), "blocks": blocks, "out": draw(rng, 4, 1)}, draw(rng, 7, 5)


def normalized_weights(rng):
    """A weight that is used otherwise than by a product with data."""

    def apply(p, x):
        return jnp.tanh(x @ (p["w"] / jnp.linalg.norm(p["w"]))) @ p["v"]

    return apply, {"w": draw(rng, 5, 4), "v": draw(rng, 4, 2)}, draw(rng, 7, 5)


def attention(rng):
    def apply(p, x):
        q, k, v = (jnp.einsum("btd,dhe->bthe", x, p[name]) for name in "qkv")
        share = jax.nn.softmax(jnp.einsum("bthe,bshe->bhts", q, k), axis=-1)
        return jnp.einsum("bhts,bshe,hed->btd", share, v, p["o"]).mean(axis=1)

    shapes = {"q": (4, 2, 3), "k": (4, 2, 3), "v": (4, 2, 3), "o": (2, 3, 3)}
    return apply, {name: draw(rng, *shape) for name, shape in shapes.items()}, draw(rng, 5, 6, 4)


NETWORKS = [mlp, vmapped, recurrent, tied, twice, convolutional, residual, normalized_weights, attention]


@pytest.mark.parametrize("by_layers", [False, True], ids=["cheapest", "layers"])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.__name__)
def test_structured_is_the_jacobian(network, by_layers, x64, monkeypatch):
    """Outputs, Jδ, Jᵀv, JJᵀ and diagonals, each parameter held the cheapest way, and by layers where possible."""
    if by_layers:
        monkeypatch.setattr(structured, "_layer_cost", lambda *_: 0)
    rng = np.random.default_rng(0)
    apply, params, x = network(rng)
    problem = scax.Problem(apply, scax.Squared())
    layout = problem.layout(params)
    net, w = NetworkFunction(problem, layout, ()), layout.flatten(params)
    delta, v = draw(rng, w.size), draw(rng, *problem.outputs(params, x).shape)

    def everything(form, w):
        lin = linearize(net, w, x, form)
        squares = lin.row_squares(), lin.column_squares(jnp.abs(v))
        return lin.outputs, lin.jvp(delta), lin.vjp(v), lin.gram(), lin.jacobian(), *squares

    compiled = jax.jit(everything, static_argnums=0)
    for one, two in zip(compiled("dense", w), compiled("structured", w), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-10, atol=1e-12)


def test_it_says_what_it_read():
    rng = np.random.default_rng(0)
    told = {}
    for network in (tied, convolutional, residual, recurrent):
        apply, params, x = network(rng)
        problem = scax.Problem(apply, scax.Squared(), scax.L2(1e-3))
        told[network.__name__] = scax.SCA(problem, metric=None).explain(params, x)
    assert "layer 5→4, layer 4→5 (tied)" in told["tied"]
    assert "['k']: 18 weights, own columns" in told["convolutional"]
    assert "['b']: 6 weights, bias" in told["residual"]
    assert "['scale']: 4 weights, own columns" in told["residual"]
    assert "['out']: 6 weights, layer 3→2" in told["recurrent"]


def test_weights_count_as_often_as_they_are_met():
    """Multiply-adds of one pass, by hand: a convolution at every pixel, a cell at every step of a scan."""
    layers = {"kernel": jnp.zeros((3, 3, 2, 5)), "cell": jnp.zeros((4, 4)), "dense": jnp.zeros((4, 3))}

    def apply(params, x):
        same = ("NHWC", "HWIO", "NHWC")
        image = jax.lax.conv_general_dilated(x, params["kernel"], (1, 1), "SAME", dimension_numbers=same)
        start = jnp.sum(image, axis=(1, 2, 3))[:, None] * jnp.ones(4)
        state, _ = jax.lax.scan(lambda h, _: (jnp.tanh(h @ params["cell"]), None), start, None, length=7)
        return state @ params["dense"]

    net = scax.Problem(apply, scax.Squared())
    layout = net.layout(layers)
    network = NetworkFunction(net, layout, layout.split(layers)[1])
    row = jax.ShapeDtypeStruct((6, 6, 2), jnp.float32)
    plan = structured.Plan.of(network, network.split(layout.flatten(layers)), row, 8)
    assert plan.one_pass == 6 * 6 * 5 * (3 * 3 * 2) + 7 * 4 * 4 + 4 * 3


def test_frozen_parameters_are_not_read():
    apply, params, x = mlp(np.random.default_rng(0))
    mask = [{"weight": False, "bias": True}, {"weight": True, "bias": True}, {"weight": True, "bias": False}]
    problem = scax.Problem(apply, scax.Squared(), scax.L2(1e-3), trainable=mask)
    y = jnp.zeros((7, 2))
    steps = {}
    for solver in ("weight-space", "structured"):
        sca = scax.SCA(problem, solver=solver, step_size=1.0, damping=0.1, carry=0.0, acceptance=False)
        steps[solver] = sca.step(sca.init(params), (x.astype(jnp.float32), y))[0].w
    assert steps["structured"].shape == (4 + 12 + 3 + 6,)
    np.testing.assert_allclose(steps["structured"], steps["weight-space"], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("layout", [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NHWC")])
def test_patches_make_a_convolution(layout):
    """Patches times the kernel as a matrix, whatever the strides, dilations and the order of axes."""
    rng = np.random.default_rng(0)
    x, k = draw(rng, *((1, 7, 6, 2) if layout[0] == "NHWC" else (1, 2, 7, 6))), draw(rng, 3, 2, 2, 5)
    k = k if layout[1] == "HWIO" else k.transpose(3, 2, 0, 1)
    options = {"window_strides": (2, 1), "padding": ((2, 1), (0, -1)), "lhs_dilation": (1, 2), "rhs_dilation": (2, 1)}
    apply = lambda k, x: jax.lax.conv_general_dilated(x, k, dimension_numbers=layout, **options)
    (use,) = find_uses(jax.make_jaxpr(apply)(k, x).jaxpr, 1)[0]
    whole = use.arrange_data(x[None])[0] @ use.arrange(k)
    np.testing.assert_allclose(whole, use.arrange_sensitivity(apply(k, x)[None])[0], rtol=1e-5, atol=1e-6)
    assert (use.positions, use.outputs) == whole.shape

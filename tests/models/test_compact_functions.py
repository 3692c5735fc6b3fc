"""Networks that are any function, made smaller: the outputs stay, and what can go does."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.flatten_util import ravel_pytree

import scax
from scax.models.program import Leaves

SEED = st.integers(0, 10**6)


def normal(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))).astype(jnp.zeros(0).dtype) for shape in shapes]


def rows(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(jnp.zeros(0).dtype)


def convolution(x, kernel, padding="SAME", **options):
    """Channels last, one or two axes of places."""
    numbers = {3: ("NWC", "WIO", "NWC"), 4: ("NHWC", "HWIO", "NHWC")}[x.ndim]
    return lax.conv_general_dilated(x, kernel, (1,) * (x.ndim - 2), padding, dimension_numbers=numbers, **options)


def pooled(x):
    size = (1, *(2,) * (x.ndim - 2), 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, size, size, "VALID")


def same(small, net, params, x, compiled=True):
    """Both as compiled functions, where all that they take is arrays: operation by operation, each would be compiled by
    itself."""
    net, apply = (jax.jit(net), jax.jit(small.apply)) if compiled else (net, small.apply)
    expected, given = np.asarray(net(params, x)), apply(x)
    tolerance = 50 * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(given, expected, rtol=tolerance, atol=tolerance * (1 + np.abs(expected).max()))


def shapes(params):
    return [np.shape(leaf) for leaf in Leaves.of(params).arrays]


# -- agreement with the one for MLPs -----------------------------------------------------------------


def dense(activation):
    def apply(params, x):
        *hidden, last = params
        for layer in hidden:
            x = activation(x @ layer["weight"] + layer["bias"])
        return x @ last["weight"] + last["bias"]

    return apply


@pytest.mark.parametrize("seed", range(8))
def test_a_function_gets_as_small_as_an_mlp_that_has_nothing_to_fold(seed, x64):
    """Without hidden biases tanh(0) = 0 is the only constant."""
    rng = np.random.default_rng(seed)
    widths, share = (5, 6, 4, 2), rng.uniform(0.05, 0.6)
    params = [
        {"weight": rng.normal(size=pair) * (rng.uniform(size=pair) < share), "bias": np.zeros(pair[1])}
        for pair in itertools.pairwise(widths)
    ]
    params[-1]["bias"] += 1
    x, apply = rng.normal(size=(4, 5)), dense(jnp.tanh)
    mlp, small = scax.compact(scax.MLP(widths), params), scax.compact(apply, params, x)
    assert shapes(mlp.params) == shapes(small.params)
    assert (mlp.before, mlp.after) == (small.before, small.after)
    np.testing.assert_array_equal(mlp.inputs, small.inputs)
    same(small, apply, params, x)


def test_a_function_that_refuses_fewer_inputs_keeps_them(dtype):
    net = scax.MLP((3, 4, 1))
    params = net.init(jax.random.key(0))
    params[0]["weight"] = params[0]["weight"].at[1].set(0)
    params[1]["weight"] = params[1]["weight"].at[2].set(0)
    small = scax.compact(net.apply, params, rows(2, 3))
    assert shapes(small.params) == [(3,), (3, 3), (1,), (3, 1)]
    same(small, net.apply, params, rows(5, 3))


# -- convolutions ------------------------------------------------------------------------------------


def stack(params, x):
    """Two convolutions with pooling, flattened, two dense layers."""
    for name in ("first", "second"):
        x = pooled(jax.nn.relu(convolution(x, params[name]["kernel"]) + params[name]["bias"]))
    x = jnp.tanh(x.reshape(len(x), -1) @ params["third"]["kernel"] + params["third"]["bias"])
    return x @ params["last"]["kernel"] + params["last"]["bias"]


def stack_params(places, seed=0):
    """Rows of 8 (or 8 × 8) places with two channels."""
    size = (3,) * places
    kernels = normal(seed, (*size, 2, 6), (*size, 6, 5), (2**places * 5, 7), (7, 2))
    biases = [
        np.abs(bias) for bias in normal(seed + 1, (6,), (5,), (7,), (2,))
    ]  # what the row does not reach is above 0
    names = ("first", "second", "third", "last")
    return {n: {"kernel": k, "bias": b} for n, k, b in zip(names, kernels, biases, strict=True)}


@pytest.mark.parametrize("places", [1, 2])
def test_channels_that_nothing_leaves_go(places, dtype):
    params = stack_params(places)
    params["first"]["kernel"][..., 1, :] = 0  # an input channel
    params["second"]["kernel"][..., [0, 3], :] = 0
    params["third"]["kernel"].reshape(-1, 5, 7)[:, 2] = 0  # a channel is many rows once flattened
    params["last"]["kernel"][4] = 0
    x = rows(3, *(8,) * places, 2)
    small = scax.compact(stack, params, x)
    size = (3,) * places
    assert shapes(small.params) == shapes(
        {
            "first": {"kernel": np.empty((*size, 1, 4)), "bias": np.empty(4)},
            "second": {"kernel": np.empty((*size, 4, 4)), "bias": np.empty(4)},
            "third": {"kernel": np.empty((2**places * 4, 6)), "bias": np.empty(6)},
            "last": {"kernel": np.empty((6, 2)), "bias": np.empty(2)},
        }
    )
    assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(small.params))
    assert (small.before.neurons, small.after.neurons) == (6 + 5 + 7, 4 + 4 + 6)
    assert (small.before.inputs, small.after.inputs) == (2 * 8**places, 8**places)
    taps = 3**places
    pixels, quarter = 8**places, 4**places
    assert small.after.multiply_adds == pixels * taps * 4 + quarter * taps * 16 + 2**places * 4 * 6 + 12
    assert (small.inputs.tolist(), small.axis) == ([0], places + 1)
    same(small, stack, params, x)
    assert all(t > 0 for t in small.seconds(rows=4, repeats=1))
    assert "params['first']['kernel']" in str(small)
    assert shapes(scax.compact(stack, small.params, x[..., :1]).params) == shapes(small.params)


@pytest.mark.parametrize("bias", [0.0, -1.0, 1.0])
def test_channels_that_nothing_enters_go_if_they_are_zero(bias, dtype):
    """relu of a bias that is not positive is zero; a constant that is not zero stays, for padding cuts it off."""
    params = stack_params(1)
    params["first"]["kernel"][..., [1, 2]] = 0
    params["first"]["bias"][[1, 2]] = bias
    small = scax.compact(stack, params, rows(2, 8, 2))
    assert small.params["first"]["kernel"].shape == (3, 2, 6 if bias > 0 else 4)
    same(small, stack, params, rows(5, 8, 2))


def test_output_channels_as_groups(dtype):
    """Groups of a channel's kernel and its bias, one of them gone."""
    params = stack_params(1)
    numbered = jax.tree.map(lambda leaf: np.zeros(leaf.shape, int), params)
    for name, start in {"first": 0, "second": 6, "third": 11, "last": 18}.items():
        for leaf in numbered[name].values():
            leaf += start + np.arange(leaf.shape[-1])
    ids = np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(numbered)])
    penalty = scax.GroupLasso(1.0, scax.Groups.of(ids))
    flat, unravel = ravel_pytree(params)
    sizes = penalty.groups.norms(flat) / np.sqrt(penalty.groups.sizes)
    gone = unravel(penalty.prox(flat, float(np.sort(sizes)[8])))  # the nine smallest groups
    small = scax.compact(stack, gone, rows(2, 8, 2))
    dead = [g for g in np.argsort(sizes)[:9] if g < 18]  # outputs stay
    assert dead
    assert small.after.neurons <= 18 - len(dead)
    same(small, stack, gone, rows(5, 8, 2))


def test_a_sigmoid_behind_a_dead_channel_is_a_half():
    def apply(params, x):
        x = jax.nn.sigmoid(convolution(x, params[0]))
        return x.mean(axis=1) @ params[1]

    params = normal(0, (3, 2, 4), (4, 2))
    params[0][..., 2] = 0
    small = scax.compact(apply, params, rows(2, 8, 2))
    assert shapes(small.params) == shapes(params)
    assert "nothing to leave out" in str(small)


def test_a_sum_joins_the_channels_of_two_layers(dtype):
    """A channel goes from both, when neither the next block nor the end reads it."""

    def apply(params, x):
        x = convolution(x, params["in"])
        for kernel, bias in params["blocks"]:
            x = x + jax.nn.relu(convolution(x, kernel) + bias)
        return x.mean(axis=(1, 2)) @ params["out"]

    first, *blocks, out = normal(0, (3, 3, 1, 6), (3, 3, 6, 6), (3, 3, 6, 6), (6, 2))
    params = {"in": first, "blocks": [(kernel, normal(3, (6,))[0]) for kernel in blocks], "out": out}
    blocks[0][:, :, 2] = blocks[1][:, :, 2] = 0
    blocks[0][:, :, 4] = 0  # the second block still reads it
    out[[2, 4]] = 0
    small = scax.compact(apply, params, rows(2, 6, 6, 1))
    assert [np.shape(kernel) for kernel, _ in small.params["blocks"]] == [(3, 3, 5, 5)] * 2
    same(small, apply, params, rows(3, 6, 6, 1))


# -- what stays --------------------------------------------------------------------------------------


def between(middle):
    """A convolution, something, a convolution, the mean over places and a dense layer."""

    def apply(params, x):
        x = middle(jax.nn.relu(convolution(x, params["a"])), params)
        return jax.nn.relu(convolution(x, params["b"])).mean(axis=1) @ params["c"]

    return apply


def layer_norm(x, params):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / jnp.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-3)


def group_norm(x, params):
    parts = x.reshape(*x.shape[:-1], 2, -1)
    return (parts / (1 + jnp.abs(parts).sum(axis=-1, keepdims=True))).reshape(x.shape)


FIXING = {
    "layer norm": layer_norm,
    "softmax": lambda x, params: jax.nn.softmax(x),
    "group norm": group_norm,
    "numbered": lambda x, params: x * jnp.arange(x.shape[-1]),
    "turned": lambda x, params: x[..., ::-1],
    "sorted": lambda x, params: jnp.sort(x),
    "summed up": lambda x, params: jnp.cumsum(x, axis=-1),
    "cut": lambda x, params: jnp.concatenate([x[..., 3:], x[..., :3]], axis=-1),
    "by channel": lambda x, params: convolution(x, params["k"], feature_group_count=x.shape[-1]),
    "scan": lambda x, params: lax.scan(lambda h, row: (jnp.tanh(h + row),) * 2, x[:, 0], x.swapaxes(0, 1))[1].swapaxes(
        0, 1
    ),
    "scrambled": lambda x, params: x.reshape(len(x), x.shape[2], -1).swapaxes(1, 2),
    "constant": lambda x, params: x + np.linspace(0, 1, 6, dtype=x.dtype),
}


@pytest.mark.parametrize("name", FIXING)
def test_channels_that_something_else_reads_stay(name):
    params = dict(zip("abck", normal(0, (3, 2, 6), (3, 6, 6), (6, 2), (3, 1, 6)), strict=True))
    params["b"][:, 2] = 0
    params["c"][1] = 0
    apply = between(FIXING[name])
    small = scax.compact(apply, params, rows(2, 8, 2))
    assert small.params["a"].shape == (3, 2, 6)
    assert small.params["c"].shape == (5, 2)  # behind the second convolution nothing else reads them
    same(small, apply, params, rows(4, 8, 2))


CARRYING = {
    "pad": lambda x, params: jnp.pad(x, ((0, 0), (1, 2), (0, 0))),
    "part": lambda x, params: jnp.concatenate([x[:, 2:], x[:, :5]], axis=1),
    "turned": lambda x, params: x[:, ::-1],
    "average": lambda x, params: lax.reduce_window(x, 0.0, lax.add, (1, 3, 1), (1, 1, 1), "SAME") / 3,
    "largest": lambda x, params: x.max(axis=1, keepdims=True) * x,
    "moved": lambda x, params: jnp.moveaxis(jnp.moveaxis(x, 1, 2), 1, 2),
    "stacked": lambda x, params: jnp.stack([x, -x], axis=1).sum(axis=1),
    "split": lambda x, params: sum(jnp.split(x[:, : x.shape[1] // 2 * 2], 2, axis=1)),
    "scaled": lambda x, params: (x - params["d"]) * params["e"] / jnp.sqrt(params["d"] ** 2 + 1),
    "leaky": lambda x, params: jnp.where(x > 0.1, x, 0.1 * x),
    "checkpoint": lambda x, params: jax.checkpoint(jax.nn.gelu)(x),
    "squared": lambda x, params: jax.jit(lambda x: jnp.clip(x, -1, 1) ** 2)(x),
    "merged": lambda x, params: (x.reshape(len(x), 2, -1) * 2).reshape(x.shape),
    "widened": lambda x, params: x[:, :, None] + jnp.zeros((1, 1, 1, params["b"].shape[1]), x.dtype),
}


@pytest.mark.parametrize("name", CARRYING)
def test_channels_are_followed_through(name):
    params = dict(zip("abcde", normal(0, (3, 2, 6), (3, 6, 6), (6, 2), (6,), (6,)), strict=True))
    params["b"][:, 2] = 0
    middle = CARRYING[name]
    apply = between(lambda x, params: middle(x, params).reshape(len(x), -1, params["b"].shape[1]))
    small = scax.compact(apply, params, rows(2, 8, 2))
    assert small.params["a"].shape == (3, 2, 5)
    same(small, apply, params, rows(4, 8, 2))


def test_a_scale_of_zero_ends_a_channel():
    """Batch normalization with its running statistics, scale and shift of a channel gone."""

    def apply(params, x):
        x = (convolution(x, params["a"]) - 0.3) / jnp.sqrt(params["var"] + 1e-3) * params["scale"] + params["shift"]
        return jax.nn.relu(x).mean(axis=1) @ params["c"]

    names = ("a", "c", "var", "scale", "shift")
    params = dict(zip(names, normal(0, (3, 2, 6), (6, 2), (6,), (6,), (6,)), strict=True))
    params["var"] = params["var"] ** 2
    params["scale"][3] = params["shift"][3] = 0
    small = scax.compact(apply, params, rows(2, 8, 2))
    assert small.params["a"].shape == (3, 2, 5)
    same(small, apply, params, rows(4, 8, 2))


def test_heads_of_attention_stay_and_what_they_hold_may_go(dtype):
    def apply(params, x):
        split = lambda name: (x @ params[name]).reshape(*x.shape[:2], 2, 3)
        queries, keys = split("q"), split("k")
        values = jnp.einsum("ntd,dhe->nthe", x, params["v"])
        weights = jax.nn.softmax(jnp.einsum("nthe,nshe->nhts", queries, keys))
        return jnp.einsum("nhts,nshe,heo->no", weights, values, params["o"])

    params = dict(zip("qkvo", normal(0, (4, 6), (4, 6), (4, 2, 3), (2, 3, 2)), strict=True))
    params["o"][:, 1] = 0  # nothing leaves the second of each head's three values
    small = scax.compact(apply, params, rows(2, 5, 4))
    assert {name: leaf.shape for name, leaf in small.params.items()} == {
        "q": (4, 6),
        "k": (4, 6),
        "v": (4, 2, 2),
        "o": (2, 2, 2),
    }
    same(small, apply, params, rows(3, 5, 4))


def test_weights_used_twice(dtype):
    """An autoencoder that decodes with the transpose: a unit goes if its weights are zero."""

    def apply(params, x):
        return jnp.tanh(x @ params["w"] + params["b"]) @ params["w"].T

    w, b = normal(0, (5, 4), (4,))
    w[:, 2] = 0
    small = scax.compact(apply, {"w": w, "b": b}, rows(2, 5))
    assert small.params["w"].shape == (5, 3)
    same(small, apply, {"w": w, "b": b}, rows(3, 5))


def test_products_of_all_pairs_of_units(dtype):
    """One axis of the last kernel is the units twice over: a unit goes if no pair with it is read."""

    def apply(params, x):
        x = jnp.tanh(x @ params["w"])
        return (x[:, :, None] * x[:, None, :]).reshape(len(x), -1) @ params["pairs"]

    w, pairs = normal(0, (3, 5), (25, 2))
    each = pairs.reshape(5, 5, 2)
    each[1] = each[:, 1] = 0  # in no pair
    each[2] = 0  # second of a pair alone
    small = scax.compact(apply, {"w": w, "pairs": pairs}, rows(2, 3))
    assert small.params["pairs"].shape == (16, 2)
    same(small, apply, {"w": w, "pairs": pairs}, rows(4, 3))


def test_units_that_zeros_would_wake_up_stay(x64):
    def apply(params, x):
        return (jnp.cos(x @ params["w"]) @ (params["b"] - 1))[:, None]

    params = {"w": normal(0, (3, 4))[0], "b": np.array([0.5, 1, 2, 3])}  # the second adds cos(…) · 0
    small = scax.compact(apply, params, rows(2, 3))
    assert shapes(small.params) == shapes(params)
    same(small, apply, params, rows(3, 3))


def test_of_a_layer_of_which_nothing_is_left_one_unit_stays():
    params = stack_params(1)
    params["second"]["kernel"][:] = 0
    params["second"]["bias"][:] = 0
    small = scax.compact(stack, params, rows(2, 8, 2))
    kernels = {name: layer["kernel"].shape for name, layer in small.params.items()}
    assert kernels == {"first": (3, 1, 1), "second": (3, 1, 1), "third": (2, 7), "last": (7, 2)}
    assert not np.any(small.params["first"]["kernel"])
    same(small, stack, params, rows(3, 8, 2))


def test_rows_of_integers():
    """What a table holds for each is read by place, and stays."""

    def apply(params, x):
        return jnp.tanh(params["table"][x].mean(axis=1) @ params["w"]) @ params["out"]

    params = dict(zip(("table", "w", "out"), normal(0, (7, 3), (3, 5), (5, 2)), strict=True))
    params["out"][1] = 0
    x = np.arange(12).reshape(4, 3) % 7
    small = scax.compact(apply, params, x)
    assert shapes(small.params) == [(4, 2), (7, 3), (3, 4)]
    same(small, apply, params, x, compiled=False)


def test_integers_and_functions_among_the_params_stay_as_they_are():
    def apply(params, x):
        return params["act"](x @ params["a"]) @ params["b"] * params["times"] + params["unread"].shape[0]

    a, b = normal(0, (3, 5), (5, 2))
    b[1] = 0
    params = {"a": a, "act": jnp.tanh, "b": b, "times": np.array(2), "unread": np.zeros(7, a.dtype)}
    small = scax.compact(apply, params, rows(2, 3))
    assert small.params["a"].shape == (3, 4)
    assert small.params["unread"].shape == (7,)
    assert small.params["act"] is jnp.tanh
    assert small.params["times"] is params["times"]
    assert isinstance(small.params["a"], np.ndarray)
    same(small, apply, params, rows(4, 3), compiled=False)


# -- random ones -------------------------------------------------------------------------------------

MIDDLES = [*FIXING.values(), *CARRYING.values()]
ACTIVATIONS = [jax.nn.relu, jnp.tanh, jax.nn.sigmoid, jax.nn.softplus, lambda x: x]


@settings(max_examples=20)
@given(SEED)
def test_random_networks_with_random_zeros(seed):
    """Whatever is done with channels on the way, whatever is zero: the outputs stay."""
    rng = np.random.default_rng(seed)
    act = [ACTIVATIONS[i] for i in rng.integers(0, len(ACTIVATIONS), 3)]
    middles = [MIDDLES[i] for i in rng.permutation(len(MIDDLES))[: rng.integers(0, 3)]]
    padding, flat, residual = rng.choice(["SAME", "VALID"]), rng.random() < 0.5, rng.random() < 0.5

    def apply(params, x):
        x = act[0](convolution(x, params["a"], padding) + params["a0"])
        for middle in middles:
            x = middle(x, params).reshape(len(x), -1, x.shape[-1])
        new = act[1](convolution(x, params["b"]) + params["b0"])
        x = x + new if residual else new
        x = x[:, :3].reshape(len(x), -1) if flat else x.mean(axis=1)
        return act[2](x @ params["f" if flat else "c"] + params["c0"]) @ params["o"]

    shape = {"a": (3, 2, 6), "b": (3, 6, 6), "c": (6, 5), "d": (6,), "e": (6,), "f": (18, 5), "o": (5, 2)}
    shape |= {"a0": (6,), "b0": (6,), "c0": (5,), "k": (3, 1, 6)}
    params = dict(zip(shape, normal(seed, *shape.values()), strict=True))
    for leaf in params.values():  # zero slices along each axis
        for axis in range(leaf.ndim):
            np.moveaxis(leaf, axis, 0)[rng.random(leaf.shape[axis]) < 0.3] = 0
    params["f"].reshape(3, 6, 5)[:, rng.random(6) < 0.3] = 0
    x = rng.normal(size=(3, 8, 2)).astype(params["a"].dtype)
    small = scax.compact(apply, params, x)
    same(small, apply, params, rows(5, 8, 2))
    assert small.after.stored <= small.before.stored


# -- other frameworks --------------------------------------------------------------------------------


def test_an_equinox_module(dtype):
    """Channels first, kernels [outputs, inputs, places], biases [outputs, 1]; as a bridge and as params themselves."""
    eqx = pytest.importorskip("equinox")
    keys = jax.random.split(jax.random.key(0), 3)
    layers = [
        eqx.nn.Conv1d(2, 6, 3, padding=1, key=keys[0]),
        eqx.nn.Lambda(jax.nn.relu),
        eqx.nn.MaxPool1d(2, 2),
        eqx.nn.Conv1d(6, 5, 3, key=keys[1]),
        eqx.nn.Lambda(jnp.tanh),
        eqx.nn.Lambda(jnp.ravel),
        eqx.nn.Linear(10, 3, key=keys[2]),
    ]
    zeros = lambda place, columns: (
        lambda model: eqx.tree_at(
            lambda m: m.layers[place].weight, model, model.layers[place].weight.at[:, columns].set(0)
        )
    )
    model = zeros(6, slice(2, 4))(zeros(3, 1)(eqx.nn.Sequential(layers)))  # the second channel of each
    x = rows(4, 2, 8)
    bridge = scax.from_equinox(model)
    small = scax.compact(bridge, bridge.params, x)
    assert shapes(small.params) == [(5, 2, 3), (5, 1), (4, 5, 3), (4, 1), (3, 8), (3,)]
    same(small, bridge.apply, bridge.params, x)
    np.testing.assert_array_equal(jax.vmap(bridge.load(small.params))(x), small.apply(x))
    apply = lambda model, x: jax.vmap(model)(x)
    other = scax.compact(apply, model, x)
    assert (other.before, other.after) == (small.before, small.after)
    assert min(other.seconds(rows=2, repeats=1)) > 0


def linen(channels=6):
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        channels: int

        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(self.channels, (3,), name="first")(x))
            x = nn.max_pool(nn.relu(nn.Conv(5, (3,), name="second")(x)), (2,), (2,))
            return nn.Dense(2)(x.reshape(len(x), -1))

    return Net(channels)


def test_a_network_that_declares_its_sizes_is_refused_or_built_anew(dtype):
    net, x = linen(), rows(3, 8, 2)
    variables = jax.tree.map(np.array, net.init(jax.random.key(0), x))
    variables["params"]["second"]["kernel"][:, [1, 4]] = 0
    with pytest.raises(ValueError, match=r"does not take params of other shapes \(ScopeParamShapeError: ") as caught:
        scax.compact(net, variables, x)
    assert "params['params']['first']['kernel'] (3, 2, 6) → (3, 2, 4)" in str(caught.value)
    small = scax.compact(net, variables, x, build=lambda small: linen(small["params"]["first"]["bias"].shape[0]))
    assert small.net.channels == 4
    same(small, net.apply, variables, x)


def test_flax_nnx_takes_its_sizes_from_the_arrays():
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first, self.second = nnx.Conv(2, 6, (3,), rngs=rngs), nnx.Conv(6, 5, (3,), rngs=rngs)
            self.last = nnx.Linear(40, 2, rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.relu(self.second(nnx.relu(self.first(x)))).reshape(len(x), -1))

    bridge, x = scax.from_flax(Net(nnx.Rngs(0))), rows(3, 8, 2)
    params = jax.tree.map(np.array, bridge.params)
    params["second"]["kernel"][:, 2] = 0
    small = scax.compact(bridge, params, x)
    assert small.params["first"]["kernel"].shape == (3, 2, 5)
    same(small, bridge.apply, params, x)


# -- refusals ----------------------------------------------------------------------------------------


def test_a_number_that_depends_on_a_size_is_noticed():
    """Also on rows of zeros, as given for shapes."""

    def apply(params, x):
        return jnp.tanh(x @ params[0]) @ params[1] / np.sqrt(params[1].shape[0])

    params = normal(0, (3, 5), (5, 2))
    params[1][2] = 0
    with pytest.raises(ValueError, match=r"has numbers that depend on a size: with params of other shapes also"):
        scax.compact(apply, params, np.zeros((1, 3), np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16])
def test_it_is_noticed_in_few_bits_and_on_rows_of_integers(dtype):
    def apply(params, x):
        scale = np.asarray(np.sqrt(params[1].shape[0])).astype(dtype)
        return jnp.tanh((x / 255).astype(dtype) @ params[0]) @ params[1] / scale

    params = [np.array(leaf, dtype) for leaf in normal(0, (5, 1000), (1000, 2))]
    params[1][:100] = 0
    with pytest.raises(ValueError, match="has numbers that depend on a size"):
        scax.compact(apply, params, np.zeros((4, 5), np.uint8))
    fine = lambda params, x: jnp.tanh((x / 255).astype(dtype) @ params[0]) @ params[1]
    assert scax.compact(fine, params, np.zeros((4, 5), np.uint8)).params[0].shape == (5, 900)


def test_outputs_that_are_not_finite_on_some_rows_say_nothing_about_the_others():
    apply = lambda params, x: jnp.tanh(jnp.tanh(jnp.log(x) @ params[0]) @ params[1]) @ params[2]
    params, x = normal(0, (3, 6), (6, 5), (5, 2)), np.abs(rows(4, 3)) + 0.1
    params[1][2:4] = 0
    small = scax.compact(apply, params, x)
    assert small.params[0].shape == (3, 4)
    np.testing.assert_allclose(small.apply(x), apply(params, x), rtol=1e-4, atol=1e-5)
    params[2][0, 0] = np.nan
    params[2][0, 1] = np.inf
    with pytest.raises(ValueError, match="gives no output that is finite: is a weight infinite or NaN"):
        scax.compact(apply, params, x)


def test_a_random_key_in_the_function_is_no_number():
    key = jax.random.key(0)
    apply = lambda params, x: (jnp.tanh(x @ params[0]) @ params[1]) * jax.random.bernoulli(key, 0.5, (2,))
    params, x = normal(0, (3, 4), (4, 2)), rows(4, 3)
    params[1][1] = 0
    small = scax.compact(apply, params, x)
    assert small.params[0].shape == (3, 3)
    same(small, apply, params, x)


def test_sizes_written_in_the_function_stay():
    apply = lambda params, x: jnp.tanh(jnp.repeat(jnp.tanh(x @ params[0]), 2, -1) @ params[1]) @ params[2]
    params, x = normal(0, (3, 4), (8, 5), (5, 2)), rows(4, 3)
    params[1][1::2] = 0
    params[2][1] = 0
    small = scax.compact(apply, params, x)
    assert small.params[1].shape == (8, 4)
    same(small, apply, params, x)


def test_products_of_few_bits_are_not_counted():
    apply = lambda params, x: jnp.tanh((x @ np.ones((256, 4), np.int8)).astype(jnp.float32) @ params[0]) @ params[1]
    params = normal(0, (4, 5), (5, 2))
    params[1][1] = 0
    small = scax.compact(apply, params, np.zeros((2, 256), np.int8))
    x = np.random.default_rng(0).integers(-3, 4, (4, 256)).astype(np.int8)
    np.testing.assert_allclose(small.apply(x), apply(params, x), rtol=1e-4, atol=1e-5)


def test_rows_of_another_width_are_refused():
    params = normal(0, (3, 4), (4, 2))
    params[0][1] = 0
    small = scax.compact(lambda params, x: jnp.tanh(x @ params[0]) @ params[1], params, rows(2, 3))
    assert small.inputs.tolist() == [0, 2]
    for width in (2, 9):
        with pytest.raises(ValueError, match=rf"x has rows of shape \({width},\); this network takes \(3,\)"):
            small.apply(rows(2, width))


def test_a_network_built_wrongly_is_noticed():
    params = normal(0, (3, 4), (4, 2))
    apply = lambda params, x: jnp.tanh(x @ params[0]) @ params[1]
    with pytest.raises(ValueError, match="outputs of another shape with params of other shapes"):
        scax.compact(apply, params, rows(2, 3), build=lambda small: lambda params, x: x)


def test_what_is_no_network_or_has_no_rows():
    params = normal(0, (3, 2))
    apply = lambda params, x: x @ params[0]
    for net, x, error, told in (
        (params, rows(2, 3), TypeError, "net must be an MLP, a function"),
        (apply, None, TypeError, "x is missing: give a few rows"),
        (apply, rows(0, 3), ValueError, r"x has shape \(0, 3\): give at least one row"),
        (apply, [1.0], TypeError, "x must be an array of rows, got a list"),
    ):
        with pytest.raises(error, match=told):
            scax.compact(net, params, x)


# -- from training to the smaller network ------------------------------------------------------------


def test_channels_die_in_training_and_go():
    """Is the tone high or low? It is heard at one of three sensors."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 160).astype(np.float32)
    tone = np.sin(np.where(y == 1, 1.8, 0.7)[:, None] * np.arange(16) + rng.uniform(0, 6, (160, 1)))
    x = 0.3 * rng.normal(size=(160, 16, 3))
    x[:, :, 1] += tone
    x = x.astype(np.float32)

    def apply(params, x):
        x = jax.nn.relu(convolution(x, params["first"]) + params["bias"])
        x = jax.nn.relu(convolution(x, params["second"]))
        return x.mean(axis=1) @ params["out"] + params["shift"]

    first, second, out = (jnp.asarray(leaf) for leaf in normal(1, (3, 3, 6), (3, 6, 6), (6, 1)))
    params = {"first": first, "bias": jnp.zeros(6), "second": second, "out": out, "shift": jnp.zeros(1)}
    penalty = scax.GroupLasso(6e-3, scax.neuron_groups(params))
    sca = scax.SCA(scax.Problem(apply, scax.Logistic(), penalty))
    params = scax.train(sca, params, (x, y), steps=60, batch_size=20).params
    small = scax.compact(apply, params, x[:4])
    assert np.mean((small.apply(x)[:, 0] > 0) == y) > 0.9
    assert 2 <= small.after.neurons < small.before.neurons
    assert small.inputs.tolist() == [1]
    same(small, apply, params, x)

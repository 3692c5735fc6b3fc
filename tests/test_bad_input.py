"""What is refused: the argument, what was given, what to do; before the network is asked for a number."""

import dataclasses
import json
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scax
from tests.cases import rows

X, Y = rows(0, 6, dtype=np.float32), rows(1, 6, 1, dtype=np.float32)


class Watched:
    """A network that fails if it is evaluated or traced for more than its output shape."""

    def __init__(self):
        self.net = scax.MLP((3, 2, 1))
        self.calls = 0

    def apply(self, params, x):
        self.calls += 1
        return self.net.apply(params, x)


def with_(array, place, value):
    array = np.array(array)
    array[place] = value
    return array


BATCHES = {
    "too few targets": ((X, Y[:4]), ["y has shape (4, 1)", "x has 6 rows", "must match"]),
    "targets of another width": ((X, np.zeros((6, 2), np.float32)), ["y has shape (6, 2)", "1 output", "(6, 1)"]),
    "NaN in x": ((with_(X, (2, 1), np.nan), Y), ["x has 1 value(s) that are not finite", "(2, 1)", "Impute or drop"]),
    "inf in y": ((X, with_(Y, (3, 0), np.inf)), ["y has 1 value(s) that are not finite", "(3, 0)", "weight 0"]),
    "complex features": ((X.astype(complex), Y), ["x has dtype complex", "must be floating", "x.astype('float32')"]),
    "boolean features": ((X > 0, Y), ["x has dtype bool", "must be floating"]),
    "no rows": ((X[:0], Y[:0]), ["x has shape (0, 3)", "at least one row"]),
    "a scalar": ((np.float32(1.0), Y), ["x has shape ()", "at least one row"]),
    "other features": ((X[:, :2], Y), ["x has shape (6, 2)", "3 features"]),
    "weights of another length": ((X, Y, np.ones(5)), ["weight has shape (5,), expected (6,)", "one sample weight"]),
    "a negative weight": ((X, Y, with_(np.ones(6), 2, -1)), ["weight has a negative entry (-1.0)", "≥ 0"]),
    "weights all zero": ((X, Y, np.zeros(6)), ["weight is all zero", "at least one row"]),
    "a weight that is NaN": ((X, Y, with_(np.ones(6), 1, np.nan)), ["weight has 1 value(s) that are not finite"]),
    "no batch": ((X,), ["a batch is (x, y), (x, y, weight) or scax.Batch", "got tuple"]),
    "a table": ({"x": X}, ["a batch is (x, y)", "got dict"]),
}


#: A step is arithmetic: it refuses shapes and dtypes while it is traced, and values only at the doors.
VALUES = {"NaN in x", "inf in y", "a negative weight", "weights all zero", "a weight that is NaN"}


@pytest.mark.parametrize("case", BATCHES)
@pytest.mark.parametrize("method", ["sca", "baseline", "objective", "train"])
def test_refuses_batches(case, method):
    batch, words = BATCHES[case]
    if method in ("sca", "baseline") and case in VALUES:
        pytest.skip("a step does not look at values")
    network = Watched()
    problem = scax.Problem(network.apply, scax.Squared(), scax.L2(1e-3))
    params = network.net.init(jax.random.key(0))
    sca = scax.SCA(problem) if method != "baseline" else scax.baseline(optax.sgd(0.1), problem)
    if method == "objective" and case in {"no batch", "a table"}:
        pytest.skip("takes x and y by name")
    use = {
        "objective": lambda: problem.objective(params, *batch),
        "train": lambda: scax.train(sca, params, batch, steps=3, batch_size=2),
    }.get(method, lambda: sca.step(sca.init(params), batch))
    with pytest.raises((ValueError, TypeError)) as refusal:
        use()
    for word in words:
        assert word in str(refusal.value), str(refusal.value)
    assert network.calls <= 1  # at most the shape check


def test_wider_data_than_weights_is_refused(x64):
    net = scax.MLP((3, 2, 1))
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared()))
    state = sca.init(net.init(jax.random.key(0), jnp.float32))
    with pytest.raises(TypeError, match=r"x is float64 while the weights are float32: convert x with .astype"):
        sca.step(state, (X.astype(float), Y))


@pytest.mark.parametrize(
    ("apply", "words"),
    [
        (lambda p, x: jnp.sum(x @ p), ["apply(params, x) gave shape ()", "(6, 3)", "one row per row of x"]),
        (lambda p, x: (x @ p)[:4], ["gave shape (4, 1)", "(6, 3)"]),
        (lambda p, x: (x @ p)[:, :, None], ["gave shape (6, 1, 1)"]),
        (lambda p, x: {"z": x @ p}, ["gave a dict"]),
    ],
)
def test_refuses_networks_of_the_wrong_shape(apply, words):
    sca = scax.SCA(scax.Problem(apply, scax.Squared()))
    with pytest.raises(ValueError, match="apply") as refusal:
        sca.step(sca.init(jnp.ones((3, 1))), (X, Y))
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step_size": 1.5}, "step_size must be between 0 and 1, got 1.5"),
        ({"step_size": -0.1}, "step_size must be between 0 and 1, got -0.1"),
        ({"averaging": 2.0}, "averaging must be between 0 and 1, got 2.0"),
        ({"damping": -1.0}, "damping must be a finite number ≥ 0, got -1.0"),
        ({"damping": np.nan}, "damping must be a finite number ≥ 0, got nan"),
        ({"carry": 1.0}, "carry must be at least 0 and below 1, got 1.0"),
        ({"mean_power": -1.0}, "mean_power must be a finite number ≥ 0, got -1.0"),
        ({"surrogate": "partail"}, "surrogate='partail' is not known: .* Did you mean 'partial'"),
        ({"solver": "sample_space"}, "solver='sample_space' is not known: .* Did you mean 'sample-space'"),
    ],
)
def test_refuses_options(options, words):
    net = scax.MLP((3, 2, 1))
    with pytest.raises(ValueError, match=words):
        scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)), **options)


def test_no_curvature_is_refused():
    net = scax.MLP((3, 2, 1))
    with pytest.raises(ValueError, match=r"damping is 0 and the regularizer has no ridge.*Give damping > 0, or add L2"):
        scax.SCA(scax.Problem(net.apply, scax.Squared()), damping=0.0)
    scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)), damping=0.0)


def test_weights_that_cannot_be_trained_are_refused():
    net = scax.MLP((3, 2, 1))
    params = net.init(jax.random.key(0))
    problem = scax.Problem(net.apply, scax.Squared(), scax.Box(0.01))
    for method in (scax.SCA(problem), scax.baseline(optax.sgd(0.1), problem)):
        with pytest.raises(
            ValueError, match=r"params has weights up to .* outside Box\(0.01\): start from weights inside"
        ):
            method.init(params)
        # inside a program nobody can look: the nearest weights in the box
        started = jax.jit(method.init)(params)
        assert max(float(jnp.max(jnp.abs(leaf))) for leaf in jax.tree.leaves(started.params)) <= 0.01
    tenth = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.Box(0.1)))  # float32's 0.1 is a little more than that
    tenth.init(jax.tree.map(lambda w: jnp.clip(10 * w, -0.1, 0.1), params))  # as the message says
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, params)
    with pytest.raises(ValueError, match=r"params\[0\]\['bias'\] has 2 value\(s\) that are not finite.*Start from"):
        scax.SCA(scax.Problem(net.apply, scax.Squared())).init(broken)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"steps": 0}, "steps must be a whole number ≥ 1, got 0"),
        ({"batch_size": 0}, "batch_size must be a whole number ≥ 1, got 0"),
        ({"records": True}, "records must be a whole number ≥ 1, got True"),
        ({"unlabeled": X}, "unlabeled rows only take part in a manifold penalty: give Problem"),
    ],
)
def test_train_refuses(arguments, words):
    net = scax.MLP((3, 2, 1))
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared()))
    with pytest.raises((ValueError, TypeError), match=words):
        scax.train(sca, net.init(jax.random.key(0)), (X, Y), **{"steps": 2, "batch_size": 2, **arguments})


def test_widths_and_activations():
    with pytest.raises(ValueError, match=r"widths must be at least two whole numbers ≥ 1, input first, got \(3,\)"):
        scax.MLP((3,))
    with pytest.raises(ValueError, match="widths must be"):
        scax.MLP((3, 0, 1))
    with pytest.raises(ValueError, match=r"activation='tahn' is not known: .* Did you mean 'tanh'"):
        scax.MLP((3, 1), activation="tahn")
    with pytest.raises(ValueError, match="output='softmax' is not known"):
        scax.MLP((3, 1), output="softmax")


# -- arguments of the wrong type: what a user sees, who has no annotations checked at run time ----------

SENTENCES = {
    'scax.Problem(f, "squared")': ["loss must be a Loss such as scax.Squared()", "got 'squared'"],
    "scax.Problem(f, scax.Squared)": ["loss must be a Loss"],
    "scax.Problem(f, scax.Squared(), 1e-3)": ["regularizer must be a Regularizer such as scax.L2(1e-3)", "0.001"],
    "scax.Problem(f, scax.Squared(), manifold=3)": ["manifold must be a Manifold", "got 3"],
    'scax.Problem("net", scax.Squared())': ["apply must be a function (params, x) -> outputs", "'net'"],
    "scax.SCA(f)": ["problem must be a scax.Problem"],
    'scax.SCA(p, damping="big")': ["damping must be a number, got 'big'"],
    'scax.SCA(p, step_size="fast")': ["step_size must be a number, got 'fast'"],
    "scax.SCA(p, solver=3)": ["solver must be a name or a scax.solvers.Solver, got 3"],
    "scax.SCA(p, blocks=2)": ["blocks must be None or scax.Blocks(count, by=...)", "got 2"],
    'scax.SCA(p, acceptance="yes")': ["acceptance must be True, False or a scax.Acceptance", "'yes'"],
    'scax.L2("a lot")': ["strength must be a number, got 'a lot'"],
    "scax.GroupLasso(1e-3, [0, 1])": ["groups must be a Groups, got list", "neuron_groups(params)"],
    "scax.Manifold(1e-3, [0, 1])": ["graph must be a Graph, got list", "knn_graph(x, k)"],
    "scax.Blocks(1.5)": ["count must be a whole number ≥ 1, got 1.5"],
    "scax.baseline(3, p)": ["optimizer must be an optax GradientTransformation, got 3"],
    "scax.train(3, None, None, steps=1)": ["method must be scax.SCA(...) or scax.baseline(...)", "got 3"],
    "scax.train(scax.SCA(p), w, (x, y), steps=2.5)": ["steps must be a whole number ≥ 1, got 2.5"],
    "scax.knn_graph(x, 9)": ["k=9 neighbors out of 6 rows", "between 1 and 5"],
    "scax.SCA(p).step(w, (x, y))": ["step takes a State and got", "state = sca.init(params)"],
    "scax.baseline(optax.adam(0.1), p).step(w, (x, y))": [
        "takes a BaselineState and got",
        "state = method.init(params)",
    ],
    "scax.as_optax(optax.adam(0.1))": ["sca must be a scax.SCA, got an optax optimizer: train with it by scax.train("],
    "scax.as_optax(3)": ["sca must be a scax.SCA, got 3"],
    "scax.train(optax.adam(0.1), w, (x, y), steps=1)": ["method is an optax optimizer", "scax.baseline(optimizer, pro"],
    "scax.knn_graph(x, 2, width=-1.0)": ["width must be a finite number > 0, got -1.0"],
    "scax.knn_graph(x > 0, 2)": ["x has dtype bool", "floating"],
}


@pytest.fixture(scope="module")
def sentences():
    """Every expression evaluated in one fresh interpreter; what it raised."""
    script = """
    import json, sys
    import numpy as np, jax, optax, scax
    net = scax.MLP((3, 2, 1)); f = net.apply; w = net.init(jax.random.key(0))
    x, y = np.ones((6, 3), np.float32), np.ones(6, np.float32)
    p = scax.Problem(f, scax.Squared(), scax.L2(1e-3))
    told = {}
    for expression in json.load(sys.stdin):
        try:
            eval(expression)
            told[expression] = "nothing was raised"
        except (ValueError, TypeError) as error:
            told[expression] = str(error)
        except Exception as error:
            told[expression] = f"{type(error).__name__}: {error}"
    json.dump(told, sys.stdout)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        input=json.dumps(list(SENTENCES)),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("expression", SENTENCES)
def test_wrong_types_get_a_sentence(expression, sentences):
    for word in SENTENCES[expression]:
        assert word in sentences[expression], sentences[expression]


# -- found by a newcomer: each was accepted, or failed with somebody else's message ----------------


def small(**options):
    net = scax.MLP((3, 4, 1))
    return scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)), **options), net.init(jax.random.key(0))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ones((6, 1)) + 1j, "y has dtype complex128"),
        (np.full((6, 1), "a"), "y has dtype <U1"),
    ],
)
def test_targets_that_are_no_numbers(y, message):
    sca, params = small()
    with pytest.raises((TypeError, ValueError), match=message):
        sca.step(sca.init(params), (rows(1, 6, dtype=np.float32), y))


def test_targets_that_would_be_corrupted():
    sca, params = small()
    with pytest.raises(ValueError, match="integers up to 1099511627776"):
        scax.train(sca, params, (rows(1, 6, dtype=np.float32), np.full((6, 1), 2**40)), steps=1)


@pytest.mark.parametrize("where", ["x", "y", "w"])
def test_a_step_without_jit_is_the_compiled_step_on_nan_too(where):
    sca, params = small()
    x = rows(1, 6, dtype=np.float32)
    y, state = x[:, :1].copy(), sca.init(params)
    if where == "w":
        state = dataclasses.replace(state, w=state.w.at[0].set(np.nan))
    else:
        (x if where == "x" else y)[2, 0] = np.nan
    eager, info = sca.step(state, (x, y))
    compiled, same = jax.jit(sca.step)(state, (x, y))
    assert info.status == same.status == scax.Status.NOT_FINITE
    assert not info.accepted
    jax.tree.map(np.testing.assert_array_equal, eager, compiled)


@pytest.mark.parametrize("weight", [3e38, 1e-37])
def test_extreme_sample_weights_are_shares_all_the_same(weight):
    sca, params = small()
    x = rows(1, 6, dtype=np.float32)
    for metric, atol in ((None, 0.0), ("auto", 1e-5)):  # the rows remembered are the batch's: their system is stiff
        sca = dataclasses.replace(sca, metric=metric)
        plain, _ = sca.step(sca.init(params), (x, x[:, :1]))
        scaled, info = sca.step(sca.init(params), (x, x[:, :1], np.full(6, weight)))
        assert info.loss > 0
        np.testing.assert_allclose(scaled.w, plain.w, rtol=1e-5, atol=atol)


def test_lists_are_rows_too():
    sca, params = small()
    x = rows(1, 6, dtype=np.float32)
    plain, _ = sca.step(sca.init(params), (x, x[:, :1]))
    np.testing.assert_array_equal(sca.step(sca.init(params), (x.tolist(), x[:, :1].tolist()))[0].w, plain.w)


def test_a_state_can_be_donated_and_the_start_stays():
    net = scax.MLP((3, 4, 1))
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3), trainable=[True, False])
    sca, params = scax.SCA(problem), net.init(jax.random.key(0))
    x = rows(1, 6, dtype=np.float32)
    jax.jit(sca.step, donate_argnums=0)(sca.init(params), (x, x[:, :1]))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(params))  # not deleted


def test_single_precision_weights_among_doubles(x64):
    net = scax.MLP((3, 4, 2))
    problem = scax.Problem(net.apply, scax.Softmax(), scax.L2(1e-3))
    params = net.init(jax.random.key(0), np.float32)
    result = scax.train(scax.SCA(problem), params, (rows(1, 8, dtype=np.float32), np.arange(8) % 2), steps=2)
    assert result.params[0]["weight"].dtype == np.float32


def test_a_function_may_give_a_plain_number():
    sca, params = small(step_size=lambda n: 0.5)
    x = rows(1, 6, dtype=np.float32)
    state, info = sca.step(sca.init(params), (x, x[:, :1]))
    assert info.step_size == 0.5
    assert state.count == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: small()[0].init({}), "params has no leaves"),
        (lambda: small()[0].init(jax.tree.map(lambda a: a.astype("bfloat16"), small()[1])), "takes float32 or float64"),
        (lambda: scax.Groups.of([0, -1]), "found -1"),
        (lambda: scax.neuron_groups(small()[1], input_axis=5), "input_axis is 5"),
        (lambda: scax.compact(scax.MLP((3, 5, 1)), small()[1]), "of widths \\(3, 4, 1\\)"),
        (lambda: small()[0].explain(small()[1], np.ones((2, 3), bool)), "features must be floating"),
        (lambda: scax.train(*small(), (np.ones((4, 3), "f"), np.ones(4, "f")), steps=1, key=0), "one random key"),
    ],
)
def test_the_message_is_ours(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_frozen_parameters_must_be_finite():
    net = scax.MLP((3, 4, 1))
    problem = scax.Problem(net.apply, scax.Squared(), trainable=[True, False])
    params = net.init(jax.random.key(0))
    params[1]["bias"] = params[1]["bias"] * np.nan
    with pytest.raises(ValueError, match="a frozen parameter"):
        scax.SCA(problem).init(params)

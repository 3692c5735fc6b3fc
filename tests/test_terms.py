"""Problems of several terms: the same method, on rows of several functions below each other."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.sca import convex_problem

NET = scax.MLP((2, 4, 1))
X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.sin(X[:, 0])
SMOOTH_SOLVERS = ("weight-space", "sample-space", "structured", "newton", "cg")
EXACT = {"step_size": 1.0, "carry": 0.0, "acceptance": False, "metric": None, "mean_power": None}


def start(dtype=np.float64):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), NET.init(jax.random.key(1)))


def slope(params, x):
    u = lambda point: NET.apply(params, point[None])[0, 0]
    return jax.vmap(scax.operators.grad(u))(x)


def logits(params, x):
    return NET.apply(params, x)[:, 0]


TWO = {"values": scax.Term(NET.apply), "slopes": scax.Term(slope, scax.Squared(), 0.3)}
THREE = TWO | {"classes": scax.Term(logits, scax.Logistic(), 2.0)}
BATCHES = {"values": (X, Y), "slopes": X[:7], "classes": (X[:5], (Y[:5] > 0).astype(float))}
PROBLEMS = {"two": TWO, "three": THREE}


def batch_of(terms):
    return {name: BATCHES[name] for name in terms}


def by_hand(terms, params, regularizer):
    """U written out."""
    total = regularizer.value(jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(params)]))
    for name, term in terms.items():
        rows = BATCHES[name]
        x, y = rows if isinstance(rows, tuple) else (rows, None)
        z = term.apply(params, jnp.asarray(x))
        z = z[:, None] if z.ndim == 1 else z
        y = jnp.zeros_like(z) if y is None else jnp.asarray(y)[:, None]
        total += term.weight * jnp.mean(term.loss.value(z, y))
    return total


@pytest.mark.parametrize("terms", PROBLEMS.values(), ids=PROBLEMS)
def test_the_objective_is_the_weighted_sum(x64, terms):
    problem, params = scax.Problem(terms, scax.L2(0.01)), start()
    assert np.isclose(problem.objective(params, batch_of(terms)), by_hand(terms, params, scax.L2(0.01)), rtol=1e-13)


@pytest.mark.parametrize("terms", PROBLEMS.values(), ids=PROBLEMS)
def test_the_surrogate_has_the_gradient_of_the_objective(x64, terms):
    """Assumption B: at w_n the surrogate has the gradient of U, and it is convex."""
    problem, params = scax.Problem(terms, scax.L2(0.01)), start()
    sca = scax.SCA(problem, damping=0.1, **EXACT)

    @jax.jit
    def slopes():
        state = sca.init(params)
        surrogate, _ = convex_problem(sca, state, batch_of(terms))
        gradient = jax.grad(lambda p: by_hand(terms, p, scax.L2(0.01)))(params)
        flat = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(gradient)])
        zero, away = jnp.zeros_like(state.w), jax.random.normal(jax.random.key(2), state.w.shape, state.w.dtype)
        bends = jax.vmap(jax.hessian(surrogate.value))(jnp.stack([zero, away, 10 * away]))
        return jax.grad(surrogate.value)(zero), flat, jnp.linalg.eigvalsh(bends)

    slope, expected, bends = slopes()
    np.testing.assert_allclose(slope, expected, atol=1e-12)
    assert np.min(bends) > 2 * 0.1  # at least the damping's


@pytest.mark.parametrize("terms", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("regularizer", [scax.L2(0.01), scax.L1(0.05)], ids=["l2", "l1"])
def test_all_solvers_agree(x64, terms, regularizer):
    problem, params = scax.Problem(terms, regularizer), start()
    steps = []
    exact = (scax.solvers.Fista(tolerance=1e-13, max_iterations=20000), scax.solvers.Semismooth(tolerance=1e-13))
    for solver in SMOOTH_SOLVERS if regularizer.is_smooth else exact:
        sca = scax.SCA(problem, damping=0.1, solver=solver, **EXACT)
        steps.append(sca.step(sca.init(params), batch_of(terms))[0].w)
    for other in steps[1:]:
        np.testing.assert_allclose(other, steps[0], atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"blocks": scax.Blocks(2, by="neuron")}, {"surrogate": "full"}])
def test_one_term_is_the_plain_problem_to_the_bit(options):
    params, data = start(np.float32), (X.astype("f"), Y.astype("f"))
    run = lambda problem, data: scax.train(scax.SCA(problem, **options), params, data, steps=20, batch_size=5)
    plain = run(scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-3)), data)
    named = run(scax.Problem({"only": scax.Term(NET.apply)}, scax.L2(1e-3)), {"only": data})
    np.testing.assert_array_equal(plain.state.w, named.state.w)
    np.testing.assert_array_equal(plain.history["objective"], named.history["objective"])
    assert "only" in named.history


def draw(key):
    return jax.random.uniform(key, (6, 2))


def sampled():
    return {"values": (X, Y), "slopes": draw}


@pytest.mark.parametrize("metric", ["auto", "full"])
def test_a_run_with_a_sampler_goes_on_to_the_bit(x64, metric):
    from scax.training import engine
    from scax.training.term_feed import term_feed

    sca, params = scax.SCA(scax.Problem(TWO, scax.L2(1e-3)), metric=metric), start()
    feed = term_feed(sca.problem, params, sampled(), {"values": 5})

    def drive(carry, *goals):
        for goal in goals:
            for part in engine.drive(engine.run(sca), carry, feed, [goal]):
                carry = part.carry
        return carry

    begin = lambda: engine.start(sca, params, feed, jax.random.key(3))
    whole, parts = drive(begin(), 30), drive(begin(), 11, 30)
    np.testing.assert_array_equal(whole.state.w, parts.state.w)
    other = drive(engine.start(sca, params, feed, jax.random.key(4)), 30)
    assert not np.array_equal(whole.state.w, other.state.w)


def steps_with_points_drawn(parallel=None):
    """The weights after a few steps, rows of both terms shared out."""
    sca = scax.SCA(scax.Problem(TWO, scax.L2(1e-3)), parallel=parallel, metric=None)
    result = scax.train(sca, start(), sampled(), steps=5, batch_size={"values": 4}, key=jax.random.key(3), records=1)
    return np.asarray(result.state.w)


def one_of_two_processes(number, port):
    from scax.cluster import hosts

    jax.config.update("jax_enable_x64", True)
    hosts.join(f"127.0.0.1:{port}", 2, int(number))
    w = steps_with_points_drawn(scax.Parallel(scheme="data"))
    sys.stderr.write(f"weights {w.tobytes().hex()}\n")
    hosts.leave(None)


def test_two_processes_agree(x64):
    """Both draw the same points, to the bit, and do what one process does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = Path(__file__).parent.parent
    path = os.pathsep.join([str(root), str(Path(scax.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    flags = {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    call = lambda i: f"from tests.test_terms import one_of_two_processes as run; run({i}, {port})"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", call(i)], env=os.environ | flags, stdout=-1, stderr=-1, text=True, cwd=root
        )
        for i in range(2)
    ]
    found = []
    for process in both:
        _, told = process.communicate(timeout=200)
        assert process.returncode == 0, told
        found.append(np.frombuffer(bytes.fromhex(told.split("weights ")[1].split()[0])))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], steps_with_points_drawn(), atol=1e-10)


def test_points_drawn_anew_get_the_matrix_of_past_curvature(x64):
    """The first steps are recursive least squares: both batches' linearized rows, weighed by s, decide together."""
    problem, params = scax.Problem(TWO, scax.L2(1e-3)), start()
    fresh = scax.SCA(problem).on_fresh_points(params, rows=16)
    assert isinstance(fresh.metric, scax.rules.FullMatrix)
    assert "past curvature is a matrix of 17×17 numbers" in fresh.explain(params, batch_of(TWO))
    state, _ = fresh.step(fresh.init(params), batch_of(TWO))
    other = {"values": (X[::-1] / 2, Y), "slopes": X[5:]}

    @jax.jit
    def solved(state):
        surrogate, solver = convex_problem(fresh, state, other)
        slope = jax.grad(surrogate.value)
        gradient = jax.grad(lambda p: problem.objective(p, other))(state.params)
        flat = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(gradient)])
        delta = solver.solve(surrogate).delta
        return surrogate.matrix, slope(delta), slope(jnp.zeros_like(delta)), flat

    matrix, at_solution, at_start, gradient = solved(state)
    np.testing.assert_allclose(at_solution, 0, atol=1e-9)
    np.testing.assert_allclose(at_start, gradient, atol=1e-12)

    @jax.jit
    def curvature(params, batch):  # JᵀWJ by hand, W the rows' shares
        batch, start = problem.ready(params, batch), fresh.init(params)
        outputs = lambda w: problem.outputs(start.layout.unflatten(w, ()), batch.x)
        rows = jax.jacobian(outputs)(start.w)
        return jnp.einsum("nkq,n,nkr->qr", rows, problem.shares(batch, float), rows)

    s = float(fresh.step(state, other)[1].reported["share"])
    assert s == 0.5
    expected = curvature(state.params, other) + (1 - s) / s * curvature(params, batch_of(TWO))
    np.testing.assert_allclose(matrix, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("size", "rows", "kept"), [(4096, 1, True), (4097, 1, False), (10_065, 3500, True), (16_385, 10_000, False)]
)
def test_a_large_matrix_of_past_curvature_needs_many_points(size, rows, kept):
    sca = scax.SCA(scax.Problem(lambda params, x: x @ params, scax.Squared()))
    fresh = sca.on_fresh_points(np.zeros(size), rows)
    assert isinstance(fresh.metric, scax.rules.FullMatrix) == kept


def test_a_feed_of_terms_counts_its_rows():
    from scax.training.term_feed import term_feed

    problem = scax.Problem(TWO, scax.L2(1e-3))
    assert term_feed(problem, start(), sampled(), None).rows == len(X) + 6


def test_a_sampler_beside_batches_of_a_table_keeps_the_clock(x64):
    sca, params = scax.SCA(scax.Problem(TWO, scax.L2(1e-3))), start()
    run = lambda size: scax.train(sca, params, sampled(), steps=3, batch_size=size, records=1).history
    assert "share" in run(None)
    assert "share" not in run(5)


def test_the_history_shows_each_term_and_they_add_up(x64):
    result = scax.train(
        scax.SCA(scax.Problem(TWO, scax.L2(0.0))), start(), sampled(), steps=20, records=4, batch_size=5
    )
    history = result.history
    np.testing.assert_allclose(history["objective"], history["values"] + 0.3 * history["slopes"], rtol=1e-10)


def test_all_rows_of_all_terms_end_by_themselves(x64):
    terms = {"values": scax.Term(NET.apply), "again": scax.Term(logits, weight=2.0)}
    result = scax.train(
        scax.SCA(scax.Problem(terms, scax.L2(1e-3))),
        start(),
        dict.fromkeys(terms, (X, Y)),
        steps=300,
        batch_size=None,
    )
    assert result.status in ("converged", "precision_reached")  # which of the two comes first, rounding decides
    assert result.steps < 300


def test_weights_by_schedule_and_by_balance(x64):
    terms = {
        "values": scax.Term(NET.apply, weight=lambda n: 1.0 + n),
        "slopes": scax.Term(lambda p, x: 100 * slope(p, x)),
        "again": scax.Term(NET.apply, weight="balance"),
    }
    sca, batch = scax.SCA(scax.Problem(terms, scax.L2(1e-3))), {"values": (X, Y), "slopes": X[:7], "again": (X, Y)}
    state, info = sca.step(sca.init(start()), batch)
    state, info = sca.step(state, batch)
    assert info.reported["values_weight"] == 2
    assert info.reported["again_weight"] > 100  # the slopes curve U ten thousand times as much


def test_an_optax_baseline_serves_terms(x64):
    import optax

    method = scax.baseline(optax.adam(1e-2), scax.Problem(THREE, scax.L2(1e-3)))
    result = scax.train(method, start(), batch_of(THREE), steps=50, batch_size=None, records=2)
    assert result.history["objective"][-1] < by_hand(THREE, start(), scax.L2(1e-3))


def test_integer_rows_are_rows(x64):
    """An embedding: a table of parameters, rows are indices."""
    problem = scax.Problem(lambda table, i: table[i], scax.Squared(), scax.L2(1e-9))
    index, y = np.arange(12) % 3, np.repeat([[1.0], [2.0], [3.0]], 4, axis=1).T.reshape(-1)
    result = scax.train(scax.SCA(problem), jnp.zeros(3), (index, y), steps=50, batch_size=None)
    np.testing.assert_allclose(result.params, [1, 2, 3], atol=1e-5)


def test_float64_residuals_fall_to_rounding(x64):
    """A model that is no network: y = a exp(−b x), two parameters."""
    model = lambda p, x: p["a"] * jnp.exp(-p["b"] * x[:, 0])
    x = np.linspace(0, 2, 30)[:, None]
    problem = scax.Problem({"data": scax.Term(model)}, scax.L2(0.0))
    start = {"a": jnp.asarray(1.0), "b": jnp.asarray(1.0)}
    data = {"data": (x, 2.5 * np.exp(-0.7 * x[:, 0]))}
    result = scax.train(scax.SCA(problem), start, data, steps=100, batch_size=None)
    assert result.history["data"][-1] < 1e-24  # squared: residuals of 1e-12


def mixing(params, x):
    return NET.apply(params, x) - jnp.mean(NET.apply(params, x))


def drawn_once(key):
    return np.random.default_rng().normal(size=(6, 2))


BAD = {
    "no rows": (TWO, {"values": (X, Y), "slopes": X[:0]}, "term 'slopes'.*at least one row"),
    "missing": (TWO, {"values": (X, Y)}, "no rows for term 'slopes'"),
    "unknown": (TWO, sampled() | {"slope": X}, "rows for 'slope', which is no term"),
    "no dictionary": (TWO, (X, Y), "data are a dictionary"),
    "mixes rows": ({"a": scax.Term(mixing)}, {"a": (X, Y)}, "term 'a'.*depend on that row alone"),
    "mixes later rows": (
        {"a": scax.Term(lambda p, x: jnp.cumsum(logits(p, x)))}, {"a": (X, Y)}, "term 'a'.*depend on that row alone",
    ),
    "negative sample weights": (TWO, {"values": (X, Y, -np.ones(12)), "slopes": X}, "term 'values'.*negative"),
    "a weight below zero": (
        {"a": scax.Term(logits, weight=lambda n: n - 1.0)}, {"a": X}, "weight of term 'a': its value at step 0.*-1.0",
    ),
    "a weight of two arguments": (
        {"a": scax.Term(logits, weight=lambda n, m: 1.0)}, {"a": X}, "weight of term 'a'.*argument",
    ),
    "complex": ({"a": scax.Term(lambda p, x: 1j * logits(p, x))}, {"a": X}, "term 'a'.*must be real"),
    "singular": (
        {"a": scax.Term(lambda p, x: logits(p, x) / (x[:, 0] - X[3, 0]))}, {"a": X}, "term 'a'.*not finite at row 3",
    ),
    "singular far down": (
        {"a": scax.Term(lambda p, x: logits(p, x) / x[:, 0])},
        {"a": np.concatenate([np.ones((2000, 2)), np.zeros((1, 2))])},
        "term 'a'.*not finite at row 2000",
    ),
    "no key used": (TWO, {"values": (X, Y), "slopes": drawn_once}, "term 'slopes'.*other rows for the same key"),
    "shape changes": (
        {"a": scax.Term(logits)},
        {"a": lambda key, sizes=iter(range(3, 99)): jax.random.normal(key, (next(sizes), 2))},
        "term 'a'.*one shape",
    ),
    "no key": ({"a": scax.Term(logits)}, {"a": lambda: X}, "term 'a'.*sampler failed.*positional"),
    "one output for all rows": ({"a": scax.Term(lambda p, x: jnp.sum(logits(p, x)))}, {"a": X}, "term 'a'.*each row"),
    "uncompilable": (
        {"a": scax.Term(logits)},
        {"a": lambda key: np.random.default_rng(int(jax.random.bits(key))).normal(size=(3, 2))},
        "term 'a'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_term(x64, case):
    terms, data, message = BAD[case]
    with pytest.raises((TypeError, ValueError), match=message):
        scax.train(scax.SCA(scax.Problem(terms, scax.L2(0.0))), start(), data, steps=2, batch_size=None)


def test_a_term_whose_derivative_is_singular_is_named(x64):
    """Its outputs are finite; √(u²) has no derivative where u is zero."""
    kink = lambda params, x: jnp.sqrt((x[:, 0] * logits(params, x)) ** 2)
    problem = scax.Problem({"a": scax.Term(logits), "b": scax.Term(kink)}, scax.L2(0.0))
    x = np.concatenate([X, np.zeros((1, 2))])
    with pytest.warns(RuntimeWarning, match="term 'b': its derivative by the parameters is not finite at row 12"):
        scax.train(scax.SCA(problem), start(), {"a": X, "b": x}, steps=3, batch_size=None)


def test_batch_sizes_are_of_terms(x64):
    with pytest.raises(ValueError, match="batch_size has 'value', which is no term: the terms are 'values', 'slopes'"):
        scax.train(scax.SCA(scax.Problem(TWO)), start(), sampled(), steps=2, batch_size={"value": 4})


def test_explain_says_how_terms_are_seen(x64):
    explain = lambda rows, **options: scax.SCA(scax.Problem(THREE), **options).explain(start(), rows)
    tables = explain(batch_of(THREE))
    assert "terms: values 12 rows, slopes 7 rows, classes 5 rows; J is materialized (48×17 numbers)" in tables
    assert "curvature exact: terms have outputs of their own" in tables
    assert "J is never formed" in explain(batch_of(THREE), solver="cg")
    drawn = explain({"values": (X, Y), "slopes": draw, "classes": BATCHES["classes"]})
    assert "slopes 6 rows" in drawn
    assert "past curvature is a matrix of 17×17 numbers" in drawn


def test_no_term_is_named_like_another_column(x64):
    from scax.terms import TAKEN

    history = scax.train(scax.SCA(scax.Problem(TWO)), start(), sampled(), steps=2, batch_size=None).history
    assert "share" in history
    assert history.keys() - TWO.keys() <= TAKEN


def test_what_takes_one_function_says_so():
    problem, rows = scax.Problem(TWO, scax.L1(1.0)), batch_of(TWO)
    with pytest.raises(ValueError, match="path takes the rows of one function, and the problem has terms 'values'"):
        scax.path(problem, [0.1], params=start(np.float32), data=rows, validation=rows)
    with pytest.raises(ValueError, match="train_many takes the rows of one function"):
        scax.train_many(scax.SCA(problem), NET.init, rows, keys=jax.random.split(jax.random.key(0)), steps=2)


def test_bad_terms_are_refused():
    for terms, message in (
        ({}, "at least one term"),
        ({"a": NET.apply}, "'a' must be a scax.Term"),
        ({"objective": scax.Term(NET.apply)}, "'objective'.*column"),
        ({"a": scax.Term(NET.apply, weight="even")}, "weight of term 'a'"),
        ({"a": scax.Term(NET.apply, weight=-1.0)}, "weight of term 'a'"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            scax.Problem(terms, scax.L2(0.0))


def test_operators_are_the_derivatives(x64):
    """Against central differences."""
    point, h = jnp.asarray([0.3, -0.5, 0.8]), 1e-4
    u = lambda x: jnp.sin(x[0]) * x[1] ** 2 + jnp.exp(x[2] * x[0])
    v = lambda x: jnp.stack([x[0] * x[1], jnp.cos(x[2]), x[2] ** 2 * x[0]])
    unit = h * jnp.eye(3)
    first = [(u(point + e) - u(point - e)) / (2 * h) for e in unit]
    second = [(u(point + e) - 2 * u(point) + u(point - e)) / h**2 for e in unit]
    ops = scax.operators
    np.testing.assert_allclose(ops.grad(u)(point), first, rtol=1e-6)
    np.testing.assert_allclose(ops.derivative(u, 2)(point), first[2], rtol=1e-6)
    np.testing.assert_allclose(ops.derivative(u, 0, 2)(point), second[0], rtol=1e-6)
    np.testing.assert_allclose(ops.laplacian(u)(point), sum(second), rtol=1e-6)
    np.testing.assert_allclose(ops.laplacian(u, (0, 2))(point), second[0] + second[2], rtol=1e-6)
    spread = sum((v(point + e)[i] - v(point - e)[i]) / (2 * h) for i, e in enumerate(unit))
    np.testing.assert_allclose(ops.divergence(v)(point), spread, rtol=1e-6)
    columns = [(v(point + e) - v(point - e)) / (2 * h) for e in unit]
    np.testing.assert_allclose(ops.grad(v)(point), jnp.stack(columns, axis=1), atol=1e-8)
    np.testing.assert_allclose(ops.derivative(v, 2)(point), columns[2], atol=1e-8)
    bent = sum(v(point + e) - 2 * v(point) + v(point - e) for e in unit) / h**2
    np.testing.assert_allclose(ops.laplacian(v)(point), bent, atol=1e-6)

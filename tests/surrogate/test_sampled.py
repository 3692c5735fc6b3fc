"""Sampled curvature: the mean is the Hessian, the gradient is exact, and every form of J takes the same step."""

import dataclasses
import itertools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax._struct import struct
from scax.rules import FullMatrix, LowRank
from scax.sca import _linearize, _observe, convex_problem

KEY = jax.random.key(0)
NET = scax.MLP((4, 5, 3))
PARAMS = NET.init(KEY)
X = jax.random.normal(KEY, (6, 4))
LABELS = jax.random.randint(KEY, (6,), 0, 3)
ONE_HOT = jax.nn.one_hot(LABELS, 3)
SIGNS = jnp.asarray(list(itertools.product((-1.0, 1.0), repeat=3)))  # all there are: means over them are exact
SOFTMAX = scax.Problem(NET.apply, scax.Softmax(), scax.L2(1e-2))
LOGISTIC = scax.SCA(scax.Problem(scax.MLP((4, 5, 1)).apply, scax.Logistic(), scax.L2(1e-2)), metric=None)


class NoFactor(scax.Loss):
    """A loss that knows its value and gradient alone."""

    def value(self, z, y):
        return jnp.sum((z - y) ** 2, axis=1)

    def gradient(self, z, y):
        return 2 * (z - y)


@pytest.mark.parametrize("loss", [scax.Squared(), scax.Logistic(), scax.Poisson(), scax.Huber(0.5), scax.Softmax()])
def test_signs_have_the_hessian_as_mean(loss):
    z = jax.random.normal(KEY, (6, 3))
    rows = loss.pull_factor(z, ONE_HOT, jnp.broadcast_to(SIGNS, (6, 8, 3)))
    hessian = jax.vmap(jax.hessian(lambda z, y: loss.value(z[None], y[None])[0]))(z, ONE_HOT)
    np.testing.assert_allclose(jnp.einsum("nek,nel->nkl", rows, rows) / 8, hessian, atol=1e-5)


def test_one_direction_is_drawn_from_them():
    z = jax.random.normal(KEY, (6, 3))
    drawn = scax.Poisson().directions(z, ONE_HOT, KEY, 1)
    np.testing.assert_allclose(jnp.abs(drawn[:, 0]), scax.Poisson().factor(z, ONE_HOT), rtol=1e-5)


@pytest.mark.parametrize("r", [2, 3])
@pytest.mark.parametrize("loss", [scax.Squared(), scax.Logistic(), scax.Poisson(), scax.Huber(0.5), scax.Softmax()])
def test_of_several_the_first_is_the_gradient_and_the_mean_is_the_hessian(loss, r, monkeypatch):
    """All draws of signs, one after the other: means over them are exact."""
    z = 2 * jax.random.normal(KEY, (6, 3))
    hessian = jax.vmap(jax.hessian(lambda z, y: loss.value(z[None], y[None])[0]))(z, ONE_HOT)
    draws = [np.reshape(signs, (1, r - 1, 3)) for signs in itertools.product((-1.0, 1.0), repeat=3 * (r - 1))]

    @jax.jit
    def directions(signs):
        monkeypatch.setattr(jax.random, "rademacher", lambda key, shape, dtype: jnp.broadcast_to(signs, shape))
        return loss.directions(z, ONE_HOT, KEY, r)

    mean = np.zeros((6, 3, 3))
    for signs in draws:
        rows = np.asarray(directions(signs))
        mean += np.einsum("nrk,nrl->nkl", rows, rows) / len(draws)
    np.testing.assert_allclose(mean, hessian, rtol=1e-5, atol=2e-5)
    slope = loss.gradient(z, ONE_HOT)
    slope = slope if (left := loss.remainder(z, ONE_HOT)) is None else slope - left
    size = jnp.linalg.norm(loss.whitened(z, ONE_HOT), axis=1, keepdims=True)
    np.testing.assert_allclose(size * rows[:, 0], slope, atol=1e-5)


def test_a_row_without_gradient_has_random_directions():
    z = jax.random.normal(KEY, (6, 3))
    rows = scax.Squared().directions(z, z, KEY, 3)
    assert bool(jnp.all(jnp.isfinite(rows)))
    np.testing.assert_allclose(jnp.abs(rows[:, 1:]), 1, rtol=1e-6)
    np.testing.assert_array_equal(rows[:, 0], 0)


def test_the_mean_surrogate_and_trace_are_the_exact_ones(monkeypatch):
    """One row, all eight draws of signs: the mean is the second-order model of the exact surrogate."""
    sca = scax.SCA(scax.Problem(NET.apply, scax.Logistic(), scax.L2(1e-2)), curvature=1, damping=0.1, metric=None)
    state, batch = sca.init(PARAMS), (X[:1], ONE_HOT[:1])
    delta = jax.random.normal(KEY, state.w.shape)

    @jax.jit
    def drawn(signs):
        fixed = lambda self, z, y, key, r: self.pull_factor(z, y, signs[None, None])
        monkeypatch.setattr(scax.Logistic, "directions", fixed)
        value = convex_problem(sca, state, batch)[0].value(delta)
        trace = _linearize(sca, state, sca.problem.ready(PARAMS, batch))[0].curvature(jnp.zeros((), int))
        return value, trace

    @jax.jit
    def expected():
        network = lambda w: sca.problem.outputs(state.layout.unflatten(w, state.frozen), X[:1])[0]
        z, jacobian = network(state.w), jax.jacobian(network)(state.w)
        loss = lambda z: scax.Logistic().value(z[None], ONE_HOT[:1])[0]
        hessian = jacobian.T @ jax.hessian(loss)(z) @ jacobian
        model = jax.grad(loss)(z) @ jacobian @ delta + delta @ hessian @ delta / 2
        return model + 0.1 * delta @ delta + 1e-2 * (state.w @ delta + delta @ delta / 2), jnp.trace(hessian) / 2

    means = np.mean([drawn(signs) for signs in SIGNS], axis=0)
    np.testing.assert_allclose(means, expected(), rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "y", "r", "solvers"),
    [
        (scax.Softmax(), LABELS, 1, ("sample-space", "weight-space", "cg")),
        (scax.Softmax(), LABELS, 2, ("sample-space", "weight-space")),
        (scax.Squared(), ONE_HOT, 2, ("sample-space",)),
        (scax.Huber(0.5), ONE_HOT, 2, ()),
    ],
)
def test_the_gradient_is_exact_and_forms_agree(loss, y, r, solvers):
    problem = scax.Problem(NET.apply, loss, scax.L2(1e-2))
    sca = scax.SCA(problem, solver="structured", curvature=r, damping=0.1, metric=None)
    state = sca.init(PARAMS)
    np.testing.assert_allclose(slope_of_next_step(sca, (X, y)), slope_of_objective(problem, y), atol=1e-5)
    w = sca.step(state, (X, y))[0].w
    for solver in solvers:
        other = scax.SCA(problem, solver=solver, curvature=r, damping=0.1, metric=None)
        np.testing.assert_allclose(other.step(state, (X, y))[0].w, w, atol=1e-5)
    exact = scax.SCA(problem, curvature="exact", damping=0.1, metric=None)
    assert not np.allclose(exact.step(state, (X, y))[0].w, w, atol=1e-4)


@struct
class Signs(scax.Softmax):
    """A loss with directions of its own: random signs alone, the row's gradient not among them."""

    def directions(self, z, y, key, r):
        signs = jax.random.rademacher(key, (z.shape[0], r, z.shape[1]), z.dtype)
        return self.pull_factor(z, y, signs) / r**0.5


@jax.jit
def slope_of_next_step(sca, batch):
    state = sca.init(PARAMS)
    surrogate, _ = convex_problem(sca, state, batch)
    return jax.grad(surrogate.value)(jnp.zeros_like(state.w))


@jax.jit
def slope_of_objective(problem, y):
    whole = jax.grad(lambda p: problem.objective(p, X, y))(PARAMS)
    return problem.layout(whole).flatten(whole)


def test_the_gradient_is_exact_with_directions_of_the_losss_own():
    problem = scax.Problem(NET.apply, Signs(), scax.L2(1e-2))
    sca = scax.SCA(problem, curvature=2, damping=0.1, metric=None)
    slope = slope_of_next_step(sca, (X, LABELS))
    np.testing.assert_allclose(slope, slope_of_objective(problem, LABELS), rtol=1e-5, atol=1e-6)
    linearized = _linearize(sca, sca.init(PARAMS), problem.ready(PARAMS, (X, LABELS)))[0]
    assert linearized.caution == Signs().caution


def test_the_gradient_is_exact_far_from_the_minimum():
    """Counts of 1e20: the square of √λ − y/√λ is beyond float32, its length is not."""
    rows = scax.Poisson().directions(jnp.zeros((1, 3)), jnp.asarray([[1e20, 2e20, 0.0]]), KEY, 2)
    np.testing.assert_allclose(rows[0, 0], -np.asarray([1, 2, 0]) / 5**0.5, rtol=1e-5, atol=1e-6)
    problem, counts = scax.Problem(NET.apply, scax.Poisson(), scax.L2(1e-2)), 1e20 * ONE_HOT
    sca = scax.SCA(problem, curvature=2, damping=0.1, metric=None)
    slope, expected = slope_of_next_step(sca, (X, counts)), slope_of_objective(problem, counts)
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5 * float(jnp.max(jnp.abs(expected))))


@pytest.mark.parametrize("options", [{"curvature": 2}, {"curvature": "quadratic"}, {"metric": "low-rank"}])
def test_a_memory_of_gradients_starts_from_data_whatever_the_curvature(options):
    sca = scax.SCA(SOFTMAX, averaging=0.5, **options)
    slope = slope_of_objective(scax.Problem(NET.apply, scax.Softmax()), LABELS)
    np.testing.assert_allclose(sca.init(PARAMS, (X, LABELS)).memory, slope, rtol=1e-5, atol=1e-6)


def test_points_drawn_anew_keep_the_curvature_that_was_asked_for():
    for curvature, kind in (("auto", FullMatrix), ("exact", FullMatrix), (2, LowRank), ("quadratic", LowRank)):
        assert isinstance(scax.SCA(SOFTMAX, curvature=curvature).on_fresh_points(PARAMS, 6).metric, kind)


def test_damping_is_half_where_the_gradient_is_among_the_directions():
    for loss, y, halved in ((scax.Softmax(), LABELS, 4.0), (scax.Squared(), ONE_HOT, 1.0)):
        problem = scax.Problem(NET.apply, loss, scax.L2(1e-2))
        for curvature, caution in (("exact", loss.caution), (1, loss.caution), (2, halved)):
            sca = scax.SCA(problem, curvature=curvature, metric=None)
            state = sca.init(PARAMS)
            linearized = _linearize(sca, state, problem.ready(PARAMS, (X, y)))[0]
            assert _observe(linearized, state).caution == caution


def test_nonsmooth_penalties_meet_the_same_quadratic():
    problem = scax.Problem(NET.apply, scax.Softmax(), scax.L1(1e-2))

    @jax.jit
    def solved(sca):
        surrogate, chosen = convex_problem(sca, sca.init(PARAMS), (X, LABELS))
        return surrogate.value(chosen.solve(surrogate).delta), surrogate.value(jnp.zeros_like(surrogate.w))

    options = {"curvature": 1, "damping": 0.1, "metric": None}
    (semismooth, _), (fista, before) = (
        solved(scax.SCA(problem, solver=solver, **options)) for solver in ("semismooth", "fista")
    )
    np.testing.assert_allclose(fista, semismooth, rtol=1e-4)
    assert fista < before


def test_draws_follow_the_step_alone_and_runs_side_by_side_are_the_same():
    fixed = {"damping": 0.1, "step_size": 0.5, "carry": 0.0, "metric": None}
    sampled, exact = scax.SCA(SOFTMAX, curvature=1, **fixed), scax.SCA(SOFTMAX, curvature="exact", **fixed)
    state = sampled.init(PARAMS)
    at = lambda sca: lambda n: sca.step(dataclasses.replace(state, count=n), (X, LABELS))[0].w
    first, later = jax.vmap(at(sampled))(jnp.asarray([0, 8], state.count.dtype))
    np.testing.assert_allclose(at(sampled)(state.count), first, atol=1e-6)
    assert not np.allclose(first, later, atol=1e-4)
    np.testing.assert_allclose(*jax.vmap(at(exact))(jnp.asarray([0, 8], state.count.dtype)), atol=1e-6)
    by_hand = sampled.step(sampled.step(state, (X, LABELS))[0], (X, LABELS))[0]
    scanned = jax.lax.scan(lambda s, _: (sampled.step(s, (X, LABELS))[0], None), state, length=2)[0]
    np.testing.assert_allclose(scanned.w, by_hand.w, atol=1e-6)


def test_a_curvature_memory_stands_beside_the_directions():
    here = scax.SCA(SOFTMAX, curvature=2, solver="sample-space")
    there = scax.SCA(SOFTMAX, curvature=2, solver="weight-space")
    state = here.init(PARAMS)
    assert state.rules.memory is not None
    state = here.step(state, (X, LABELS))[0]
    np.testing.assert_allclose(here.step(state, (X, LABELS))[0].w, there.step(state, (X, LABELS))[0].w, atol=1e-4)


def test_a_single_term_is_sampled_as_the_plain_problem_is():
    sca = scax.SCA(SOFTMAX, curvature=1, metric=None)
    term = scax.Problem({"all": scax.Term(NET.apply, scax.Softmax())}, scax.L2(1e-2))
    of_term = scax.SCA(term, curvature=1, metric=None)
    w = sca.step(sca.init(PARAMS), (X, LABELS))[0].w
    np.testing.assert_array_equal(of_term.step(of_term.init(PARAMS), {"all": (X, LABELS)})[0].w, w)


def test_the_quadratic_surrogate_is_the_second_order_model_at_w_n():
    """For every loss, one output and several; one solve finds its minimum."""
    for loss, y in ((scax.Logistic(), ONE_HOT), (scax.Softmax(), LABELS), (scax.Poisson(), ONE_HOT)):
        problem = scax.Problem(NET.apply, loss, scax.L2(1e-2))
        sca = scax.SCA(problem, curvature="quadratic", damping=0.1, carry=0.0)
        value, model, iterations, slope = model_and_minimum(sca, (X, y))
        np.testing.assert_allclose(value, model, rtol=1e-4)
        assert iterations == 1
        np.testing.assert_allclose(slope, 0, atol=1e-5)


@jax.jit
def model_and_minimum(sca, batch):
    """The quadratic surrogate at a random δ and the exact one's second-order model there; its solution, and the slope
    at it."""
    state = sca.init(PARAMS)
    surrogate, solver = convex_problem(sca, state, batch)
    exact = convex_problem(dataclasses.replace(sca, curvature="exact"), state, batch)[0]
    zero, delta = jnp.zeros_like(state.w), jax.random.normal(KEY, state.w.shape)
    model = exact.value(zero) + jax.grad(exact.value)(zero) @ delta
    model += delta @ jax.jvp(jax.grad(exact.value), (zero,), (delta,))[1] / 2
    solution = solver.solve(surrogate)
    return surrogate.value(delta), model, solution.iterations, jax.grad(surrogate.value)(solution.delta)


def first_output(params, x):
    return NET.apply(params, x)[:, :1]


TERMS = {"classes": scax.Term(NET.apply, scax.Softmax()), "counts": scax.Term(first_output, scax.Poisson(), 0.5)}
GRAPH = scax.knn_graph(np.asarray(X), 2)
#: A problem, its batch, and options beside curvature="quadratic".
BESIDE = {
    "several terms": (
        scax.Problem(TERMS, scax.L2(1e-2)),
        {"classes": (X, LABELS), "counts": (X[:4], ONE_HOT[:4, :1])},
        {},
    ),
    "the manifold penalty": (
        scax.Problem(NET.apply, scax.Softmax(), scax.L2(1e-2), manifold=scax.Manifold(0.3, GRAPH)),
        scax.Batch(X, LABELS, pairs=GRAPH.pairs(np.asarray(X), np.arange(6))),
        {},
    ),
    "a penalty with corners": (
        scax.Problem(NET.apply, scax.Softmax(), scax.L1(1e-2)),
        (X, LABELS),
        {"solver": "semismooth"},
    ),
    "blocks": (SOFTMAX, (X, LABELS), {"blocks": scax.Blocks(2)}),
}


@pytest.mark.parametrize("beside", BESIDE)
def test_the_quadratic_surrogate_stands_beside_everything_else(beside):
    problem, batch, options = BESIDE[beside]
    sca = scax.SCA(problem, curvature="quadratic", damping=0.1, carry=0.0, step_size=1.0, acceptance=False, **options)
    state = sca.init(PARAMS)
    landed = sca.step(state, batch)[0].w - state.w

    @jax.jit
    def values():
        surrogate, _ = convex_problem(sca, state, batch)
        exact = convex_problem(dataclasses.replace(sca, curvature="exact"), state, batch)[0]
        corners = lambda delta: 0.0 if problem.regularizer.is_smooth else problem.regularizer.value(state.w + delta)
        smooth = lambda delta: exact.value(delta) - corners(delta)
        zero, delta = jnp.zeros_like(state.w), jax.random.normal(KEY, state.w.shape)
        model = smooth(zero) + jax.grad(smooth)(zero) @ delta + corners(delta)
        model += delta @ jax.jvp(jax.grad(smooth), (zero,), (delta,))[1] / 2
        return surrogate.value(delta), exact.value(delta), model

    @jax.jit
    def minimum():
        surrogate, solver = convex_problem(sca, state, batch)
        others = landed + 1e-2 * jax.random.normal(KEY, (20, *state.w.shape))
        return solver.solve(surrogate).delta, surrogate.value(landed), jax.vmap(surrogate.value)(others)

    @jax.jit
    def slopes_of_blocks():
        surrogate, _ = convex_problem(sca, state, batch)
        own = lambda index, mask: jax.grad(surrogate.take(index, mask, 1.0).value)(landed[index]) * mask
        return [own(index, mask) for index, mask in zip(state.blocks.index, state.blocks.mask, strict=True)]

    value, exact, model = values()
    np.testing.assert_allclose(value, model, rtol=1e-4)
    assert not np.allclose(exact, model, rtol=1e-4)
    if state.blocks is None:
        delta, lowest, others = minimum()
        np.testing.assert_allclose(landed, delta, atol=1e-5)
        assert np.all(others > lowest)
        return
    np.testing.assert_allclose(slopes_of_blocks(), 0, atol=1e-5)  # each block alone is at its minimum


def test_one_output_takes_the_quadratic_surrogate_only_where_damping_adapts():
    net = scax.MLP((4, 5, 1))
    problem, params, y = scax.Problem(net.apply, scax.Logistic(), scax.L2(1e-2)), net.init(KEY), ONE_HOT[:, 0]
    said = lambda **options: scax.SCA(problem, metric=None, **options).explain(params, X)
    assert "curvature quadratic: one solve" in said()
    assert "curvature exact: of the dampings Relative alone follows" in said(damping=0.1)
    straight = scax.Problem(net.apply, scax.Huber(0.1), scax.L2(1e-2))  # far from its target a row has no curvature
    assert "curvature exact: rows on the straight arms" in scax.SCA(straight, metric=None).explain(params, X)
    states = {}
    for name, options in (("auto", {}), ("exact", {"curvature": "exact"}), ("quadratic", {"curvature": "quadratic"})):
        sca = scax.SCA(problem, metric=None, **options)
        states[name] = sca.step(sca.init(params), (X, y))[0].w
    np.testing.assert_array_equal(states["auto"], states["quadratic"])
    assert not np.allclose(states["auto"], states["exact"], atol=1e-6)


def test_no_branch_is_left_for_a_gpu():
    """A branch there waits for the host. Those that are left choose by platform, with a constant. (A curvature memory,
    of networks up to 1,000 weights, takes rows in by a branch every few steps.)"""
    methods = [(scax.SCA(SOFTMAX, curvature=r, metric=None), LABELS) for r in (1, 2)]
    for sca, y in (*methods, (LOGISTIC, ONE_HOT[:, 0])):
        state = sca.init(scax.MLP((4, 5, 1)).init(KEY) if sca is LOGISTIC else PARAMS)
        text = jax.jit(sca.step).trace(state, (X, y)).lower(lowering_platforms=("cuda",)).as_text()
        chosen = re.findall(r'"stablehlo.case"\((%[\w.]+)\)', text)
        by_platform = set(re.findall(r'(%[\w.]+)(?::\d+)? = "stablehlo.case"', text))
        assert chosen
        assert all(name.startswith("%c") or name in by_platform for name in chosen)
        assert "stablehlo.if" not in text
        assert "stablehlo.while" not in text


def test_explain_says_why_the_loss_is_kept():
    said = lambda **options: scax.SCA(SOFTMAX, metric=None, **options).explain(PARAMS, X)
    assert "curvature exact: all rows are in every step" in said(all_rows=True)
    assert "curvature exact: blocks with own_batch=True need" in said(blocks=scax.Blocks(2, own_batch=True))
    assert "curvature exact: asked for" in said(curvature="exact")
    manifold = dataclasses.replace(SOFTMAX, manifold=scax.Manifold(0.3, GRAPH))
    assert "curvature exact: the manifold penalty" in scax.SCA(manifold, metric=None).explain(PARAMS, X)
    wide = scax.MLP((4, 5, 10_000))
    problem = scax.Problem(wide.apply, scax.Softmax(), scax.L2(1e-2))
    rows = jnp.zeros((100, 4))
    assert "1,000,000 equations make too large a system beside 2·L = 200" in scax.SCA(problem, metric=None).explain(
        wide.init(KEY), rows
    )


@pytest.mark.parametrize("hidden", ["20/64/64", "784/300/100"])
def test_the_page_says_from_how_many_rows_on_directions_are_sampled(hidden):
    page = (Path(__file__).parents[2] / "docs/measurements/outputs.md").read_text()
    (line,) = re.findall(rf"^\| {hidden}/K \|(.*)\|$", page, re.MULTILINE)
    sizes = [int(size) for size in hidden.split("/")]
    for outputs, first in list(zip((3, 4, 5, 10, 30), map(int, line.split("|")), strict=False))[::2]:
        net = scax.MLP((*sizes, outputs))
        sca, params = scax.SCA(scax.Problem(net.apply, scax.Softmax(), scax.L2(1e-4))), net.init(KEY)
        for rows, said in ((first - 1, "curvature exact"), (first, "curvature 2 sampled")):
            assert said in sca.explain(params, jnp.zeros((rows, sizes[0])))


def test_bad_input_is_refused_in_a_sentence():
    for bad in (0, -1, True):
        with pytest.raises(ValueError, match="curvature must be"):
            scax.SCA(SOFTMAX, curvature=bad)
    with pytest.raises(ValueError, match="curvature"):
        scax.SCA(SOFTMAX, curvature="sampled")
    with pytest.raises(ValueError, match="own_batch"):
        scax.SCA(SOFTMAX, curvature="quadratic", blocks=scax.Blocks(2, own_batch=True))
    with pytest.raises(ValueError, match="own_batch"):
        scax.SCA(SOFTMAX, curvature=1, blocks=scax.Blocks(2, own_batch=True))
    terms = {"one": scax.Term(NET.apply, scax.Softmax()), "two": scax.Term(NET.apply, scax.Squared())}
    with pytest.raises(ValueError, match="terms have outputs of their own"):
        scax.SCA(scax.Problem(terms, scax.L2(1e-2)), curvature=1)
    for curvature in (1, "quadratic"):
        with pytest.raises(ValueError, match="full"):
            scax.SCA(SOFTMAX, curvature=curvature, surrogate="full")
        with pytest.raises(ValueError, match="NoFactor has no factor"):
            scax.SCA(scax.Problem(NET.apply, NoFactor(), scax.L2(1e-2)), curvature=curvature)
    assert "1 sampled per row: asked for" in scax.SCA(SOFTMAX, curvature=1).explain(PARAMS, X)

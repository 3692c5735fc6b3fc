"""Semismooth Newton: certified solutions of sparse surrogates, whatever the sizes and strengths."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import scax
from scax.layout import Layout
from scax.linearize import linearize
from scax.linearize.active import Columns, Layered, active, root
from scax.linearize.network import NetworkFunction
from scax.regularizers.derivative import ProxDerivative
from scax.solvers import Fista, Semismooth
from scax.solvers.cost import Dimensions
from scax.surrogate.datafit import Datafit
from scax.surrogate.surrogate import Surrogate
from tests.cases import REGULARIZERS, Parts, convexified, mlp, rows, start
from tests.test_surrogate import LOSS_NAMES, build

PENALTIES = {
    "l1": lambda s, size: scax.L1(s),
    "elastic-net": lambda s, size: scax.ElasticNet(s, 0.6),
    "group": lambda s, size: scax.GroupLasso(s, scax.Groups.of(np.arange(size) // 3)),
    "l1+box": lambda s, size: scax.L1(s) + scax.Box(0.5),
}


def violation(surrogate, delta, relative=True) -> float:
    """dist(0, ∂F(δ)), over the size of its terms or not, from the penalty's own definition."""
    z = surrogate.lin.outputs + surrogate.lin.jvp(delta)
    slope = surrogate.lin.vjp(surrogate.datafit.gradient(z)) + surrogate.linear + 2 * surrogate.curvature * delta
    parts = Parts.of(surrogate.regularizer)
    size = np.linalg.norm(slope) + parts.l1 + parts.group + 1e-3 if relative else 1
    return parts.violation(np.asarray(surrogate.w + delta), np.asarray(slope)) / size


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("regularizer", ["l1", "elastic-net", "group", "box", "all"])
def test_every_penalty_and_loss_is_certified(loss, regularizer, x64):
    """The subgradient has a zero in it, and the duality gap of `Surrogate.dual` agrees."""
    surrogate = build(loss, regularizer)

    @jax.jit(compiler_options={"xla_backend_optimization_level": 0})
    def solve():
        end = Semismooth(tolerance=1e-13).solve(surrogate)
        z = surrogate.lin.outputs + surrogate.lin.jvp(end.delta)
        return end, surrogate.value(end.delta) - surrogate.dual(surrogate.datafit.gradient(z), z)

    end, gap = solve()
    assert end.status == scax.Status.OK
    assert end.iterations < 15
    assert abs(gap) <= 1e-10
    assert violation(surrogate, end.delta) <= 1e-5


@pytest.mark.parametrize("penalty", PENALTIES)
@settings(max_examples=8)
@example(seed=42970, strength=0.3, tau=1e-6, wide=True)  # cancellation in weight space once left it unsolved
@example(seed=395154, strength=0.3, tau=0.1, wide=False)  # weights on a bound, rounded inside it, once counted as free
@given(
    seed=st.integers(0, 2**31),
    strength=st.sampled_from([0.0, 1e-6, 1e-3, 0.03, 0.3, 1e3]),
    tau=st.sampled_from([1e-6, 1e-3, 0.1, 10.0]),
    wide=st.booleans(),
)
def test_any_size_and_strength(penalty, seed, strength, tau, wide, x64):
    """From no penalty at all to one under which nothing is left; with more rows than weights, and fewer."""
    end, surrogate = _random(penalty, seed, strength, tau, 40 if wide else 5)
    assert end.status == scax.Status.OK, (end.iterations, end.optimality)
    if penalty == "l1+box":
        assert end.iterations < 60  # at most 44 in 9,000 problems; a wrong derivative on the bounds takes all 100
    # 0 ∈ Jᵀv + ∂Ψ(δ), so what is missing is Jᵀ(∇Φ(z0 + Jδ) − v), and ‖∇Φ(a) − v‖² ≤ 2·(2/n)·gap
    n = surrogate.lin.outputs.shape[0]
    gap = 1e-12 * abs(float(surrogate.value(end.delta)))
    allowed = np.linalg.norm(surrogate.lin.jacobian().reshape(n, -1), 2) * np.sqrt(4 / n * gap)
    size = 1e-9 * (1 + np.linalg.norm(end.delta))  # rounding of the slope
    assert violation(surrogate, end.delta, relative=False) <= allowed + size
    if strength == 1e3:
        assert np.all(np.asarray(surrogate.w + end.delta) == 0)
    if strength == 0.0 and penalty != "l1+box":
        assert not np.any(np.asarray(surrogate.w + end.delta) == 0)


def _random(penalty, seed, strength, tau, n):
    net = mlp(1)
    layout = Layout.of(start(net, 0))
    rng = np.random.default_rng(seed)
    w = jnp.asarray(rng.uniform(-0.4, 0.4, layout.size))
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(n, 1))
    linear = 0.1 * rng.normal(size=layout.size)
    part = PENALTIES[penalty](strength, layout.size)
    return _solved(n, penalty)(part, w, x, y, linear, tau), _surrogate(part, w, x, y, linear, tau)


def _surrogate(part, w, x, y, linear, tau):
    net = mlp(1)
    network = NetworkFunction(scax.Problem(net.apply, scax.Squared()), Layout.of(start(net, 0)), ())
    lin = linearize(network, w, jnp.asarray(x), "dense")
    datafit = Datafit(scax.Squared(), jnp.asarray(y), jnp.full(len(x), 1 / len(x)))
    return Surrogate.of(datafit, lin, w, jnp.asarray(linear), None, jnp.asarray(tau), part)


_compiled = {}


def _solved(n, penalty):
    if (n, penalty) not in _compiled:
        run = lambda *a: Semismooth(tolerance=1e-12).solve(_surrogate(*a))
        _compiled[n, penalty] = jax.jit(run, compiler_options={"xla_backend_optimization_level": 0})
    return _compiled[n, penalty]


@pytest.mark.parametrize("regularizer", ["l1", "group"])
def test_without_curvature_proximal_point_steps_lead_to_a_minimizer(regularizer, x64):
    """μ = 0: no unique minimizer, but one is found, and its subgradient certifies it."""
    build_ = build("squared", regularizer)
    flat = dataclasses.replace(build_, rest=dataclasses.replace(build_.rest, curvature=jnp.zeros(())))
    end = jax.jit(lambda: Semismooth(tolerance=1e-9).solve(flat))()
    assert end.status == scax.Status.OK
    assert violation(flat, end.delta) <= 1e-4
    # as good as the limit of vanishing curvature, from another solver
    near = dataclasses.replace(build_, rest=dataclasses.replace(build_.rest, curvature=jnp.asarray(1e-5)))
    other = jax.jit(lambda: Fista(tolerance=1e-9, max_iterations=20_000).solve(near))()
    assert flat.value(end.delta) <= flat.value(other.delta) + 1e-6


def test_prox_derivatives_are_the_slopes_of_the_prox(x64):
    """D u against a difference of the prox, away from its kinks."""
    rng = np.random.default_rng(0)
    for name in REGULARIZERS:
        part = convexified(name, 11)
        w, u = jnp.asarray(rng.normal(size=11)), jnp.asarray(rng.normal(size=11))
        step, h = 2.0, 1e-6
        x = part.prox_nonsmooth(w, step)
        slope = (part.prox_nonsmooth(w + h * u, step) - part.prox_nonsmooth(w - h * u, step)) / (2 * h)
        np.testing.assert_allclose(part.prox_derivative(w, x, step).apply(u), slope, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", ["l1", "group", "both"])
def test_layers_and_columns_give_the_same_gram(kind, x64, monkeypatch):
    """J D Jᵀ from layers, from gathered columns, and written out."""
    from scax.linearize import active as module

    monkeypatch.setattr(module, "FEW", 8)
    monkeypatch.setattr(module, "AT_ONCE", 16)  # of 87 columns
    net = scax.MLP((4, 7, 5, 2))
    params = start(net, 1)
    layout = Layout.of(params)
    w = layout.flatten(params)
    lin = linearize(
        NetworkFunction(scax.Problem(net.apply, scax.Squared()), layout, ()),
        w,
        jnp.asarray(rows(3, 6, 4)),
        "structured",
    )
    j = np.asarray(lin.jacobian()).reshape(12, -1)
    groups = scax.neuron_groups(params)
    rng = np.random.default_rng(5)

    @jax.jit(compiler_options={"xla_backend_optimization_level": 0})
    def every(d):
        assert isinstance(active(lin, d), Layered)
        rooted = root(d, lin.jacobian().reshape(12, -1).T)
        return [active(lin, d).gram(d), Columns(lin).gram(d), rooted.T @ rooted]

    for share in (0.03, 0.2, 0.5, 0.9, 1.0):
        kept = jnp.asarray(rng.uniform(size=w.size) < share, w.dtype)
        alive = jnp.asarray(rng.uniform(size=groups.count) < share, w.dtype)[groups.ids]
        if kind == "l1":
            d = ProxDerivative(kept)
        elif kind == "group":
            d = ProxDerivative(0.5 * alive, alive * w, groups, uniform=True)
        else:
            d = ProxDerivative(0.5 * kept, kept * w, groups)
        whole = (j @ np.asarray(jax.vmap(d.apply)(jnp.eye(w.size)))) @ j.T
        for gram in every(d):
            np.testing.assert_allclose(gram, whole, rtol=1e-9, atol=1e-12)
    own = scax.Groups.of(np.arange(w.size) // 4)
    assert isinstance(active(lin, ProxDerivative(w, w, own)), Columns)  # nothing is known of these groups


def test_a_limit_is_reported_and_tolerance_matters(x64):
    surrogate = build("poisson", "l1")
    short = Semismooth(max_iterations=1).solve(surrogate)
    assert short.status == scax.Status.NOT_CONVERGED
    assert short.iterations == 1
    loose, fine = Semismooth(tolerance=1e-1).solve(surrogate), Semismooth(tolerance=1e-12).solve(surrogate)
    assert loose.iterations < fine.iterations
    assert fine.optimality < 1e-12 < loose.optimality


@pytest.mark.parametrize("regularizer", ["l1", "group", "all"])
@pytest.mark.parametrize("loss", ["squared", "softmax"])
@pytest.mark.parametrize("solver", [Semismooth, Fista])
def test_enough_leaves_no_more_than_its_share_of_the_gain(solver, loss, regularizer, x64):
    surrogate = build(loss, regularizer)
    options = {} if solver is Semismooth else {"check_every": 1}
    value = jax.jit(surrogate.value)
    run = lambda **more: jax.jit(lambda: solver(tolerance=1e-10, **options, **more).solve(surrogate))()
    best, first = run(), value(jnp.zeros_like(surrogate.w))
    counts = [int(best.iterations)]
    for share in (0.01, 0.5):
        end = run(enough=share)
        assert end.status == scax.Status.OK
        assert value(end.delta) - value(best.delta) <= share * (first - value(end.delta)) + 1e-12
        counts.append(int(end.iterations))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]
    with pytest.raises(ValueError, match="enough"):
        solver(enough=1.5)


class OwnPenalty(scax.Regularizer):
    def nonsmooth(self, w):
        return jnp.sum(jnp.abs(w))

    def prox_nonsmooth(self, w, step):
        return jnp.sign(w) * jnp.maximum(jnp.abs(w) - step, 0)


def test_auto_takes_it_where_it_serves():
    net = mlp(1)
    auto = scax.solvers.Auto()
    lasso = scax.Problem(net.apply, scax.Squared(), scax.L1(1e-3))
    chosen, asked = (a.choose(Dimensions(lasso, 20, 1, 100)).solver for a in (auto, scax.solvers.Auto(tolerance=1e-7)))
    assert (chosen.name, chosen.enough) == ("semismooth", 0.1)
    assert (asked.name, asked.enough, asked.tolerance) == ("semismooth", 0.0, 1e-7)
    assert auto.choose(Dimensions(lasso, 10**5, 1, 10**5)).solver.name == "fista"
    boxed = scax.Problem(net.apply, scax.Squared(), scax.L1(1e-3) + scax.Box(1.0))
    assert auto.choose(Dimensions(boxed, 20, 1, 100)).solver.name == "semismooth"
    own = scax.Problem(net.apply, scax.Squared(), OwnPenalty())
    assert auto.choose(Dimensions(own, 20, 1, 100)).solver.name == "fista"
    with pytest.raises(ValueError, match="OwnPenalty does not give one: use solver='fista'"):
        scax.SCA(own, solver="semismooth")


def test_a_step_ends_on_exact_zeros():
    net = scax.MLP((6, 20, 1))
    params = net.init(jax.random.key(0))
    x = rows(1, 10, 6, np.float32)
    problem = scax.Problem(net.apply, scax.Squared(), scax.L1(0.05))
    sca = scax.SCA(problem, step_size=1.0, damping=0.1, carry=0.0, acceptance=False, mean_power=None)
    state, info = sca.step(sca.init(params), (x, x[:, :1]))
    assert 0.2 < float(jnp.mean(state.w == 0)) < 1
    assert info.status == scax.Status.OK


def test_a_training_takes_steps_that_are_solved_well_enough():
    """What is left of a step's gain may be more than all that is left of the objective."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(256, 6)), jnp.float32)
    y = jnp.tanh(x[:, :1])
    net = scax.MLP((6, 60, 1))
    params = net.init(jax.random.key(0))
    rows = jnp.asarray(rng.permutation(256 * 10) % 256).reshape(160, 16)
    ends, problem = [], scax.Problem(net.apply, scax.Squared(), scax.L1(1e-4))
    for solver in ("auto", "semismooth"):
        sca = scax.SCA(problem, solver=solver, clock=scax.rules.StepCount())

        def several(state, batches, sca=sca):
            return jax.lax.scan(lambda s, rows: sca.step(s, (x[rows], y[rows])), state, batches)

        state, told = jax.jit(several)(sca.init(params), rows)
        assert np.all(told.status == scax.Status.OK)
        ends.append((float(problem.objective(sca.solution(state), x, y)), int(told.iterations.sum())))
    (early, fewer), (exact, more) = ends
    assert early < 1.2 * exact
    assert fewer < 0.7 * more


@pytest.mark.parametrize("solver", ["auto", "semismooth"])
def test_a_first_point_that_overflows_is_not_a_solution(solver):
    """With little damping the prox at the start is so far off that Poisson's exponential is infinite there."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 5)).astype(np.float32)
    y = rng.poisson(np.exp(2 + x[:, :1])).astype(np.float32)
    net = scax.MLP((5, 12, 1))
    sca = scax.SCA(scax.Problem(net.apply, scax.Poisson(), scax.L1(1e-3)), solver=solver, damping=1e-3)
    _, info = sca.step(sca.init(net.init(jax.random.key(0))), (x, y))
    assert info.iterations > 0
    assert info.status == scax.Status.OK
    assert np.isfinite(info.optimality)


def test_a_gradient_alone_is_never_enough():
    """On a single row the prox of a plain gradient gains most of what there is to gain, and leads astray."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(64, 6)), jnp.float32)
    y = jnp.sin(2 * x[:, :1])
    net = scax.MLP((6, 12, 8, 1))
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L1(1e-3)))
    rows = jnp.arange(64).reshape(64, 1)
    start_ = sca.init(net.init(jax.random.key(0)))
    _, told = jax.jit(lambda s: jax.lax.scan(lambda s, r: sca.step(s, (x[r], y[r])), s, rows))(start_)
    assert np.all((told.iterations > 0) | (told.optimality < 1e-5))

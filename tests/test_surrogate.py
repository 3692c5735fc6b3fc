"""The convex problem of one iteration: convex, tangent to U, and bounded by its dual."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

import scax
from scax.layout import Layout
from scax.linearize import linearize
from scax.linearize.network import NetworkFunction
from scax.solvers import Fista
from scax.surrogate.datafit import Datafit
from scax.surrogate.surrogate import Surrogate
from tests.agreement.reference import Reference
from tests.cases import LOSSES, REGULARIZERS, mlp, rows, start

L, K, TAU = 6, 3, 0.1
LOSS_NAMES = ["squared", "logistic", "softmax", "huber", "poisson"]
seeds = st.integers(0, 2**31)


def setting(loss, regularizer):
    """The network as a function of flat weights, the data, and the regularizer."""
    net = mlp(K)
    params = start(net, 1)
    layout = Layout.of(params)
    w = layout.flatten(params)
    x, y = jnp.asarray(rows(2, L)), jnp.asarray(LOSSES[loss].draw(3, L, K))
    part = LOSSES[loss].loss
    network = NetworkFunction(scax.Problem(net.apply, part), layout, ())
    return network, w, x, part, part.targets(y, K), REGULARIZERS[regularizer](w.size)


def build(loss, regularizer, rho=1.0, memory=None, carried=None, form="dense"):
    network, w, x, part, y, penalty = setting(loss, regularizer)
    datafit = Datafit(part, y, jnp.full(L, rho / L))
    return Surrogate.of(datafit, linearize(network, w, x, form), w, memory, carried, jnp.asarray(TAU), penalty)


def vectors(seed, size, count):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(count, size)))


@pytest.mark.parametrize("loss", LOSS_NAMES)
@given(seed=seeds, t=st.floats(0.01, 0.99))
def test_b1_convex_along_lines(loss, seed, t, x64):
    """Strongly: F((1−t)a + tb) ≤ (1−t)F(a) + tF(b) − μ t(1−t)‖a − b‖²."""
    value, size, mu = _compiled(loss)
    a, b = vectors(seed, size, 2)
    chord = (1 - t) * value(a) + t * value(b) - mu * t * (1 - t) * (a - b) @ (a - b)
    assert value((1 - t) * a + t * b) <= chord + 1e-9 * (1 + abs(chord))


_cache = {}


def _compiled(loss):
    if loss not in _cache:
        surrogate = build(loss, "elastic-net")
        _cache[loss] = jax.jit(surrogate.value), surrogate.w.size, float(surrogate.curvature)
    return _cache[loss]


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_b2_gradient_at_w_n_is_the_batch_gradient(loss, x64):
    """ρ = 1: ∇F(0) is ∇U on the batch; ρ < 1: the loss's share is replaced by ρ g + (1−ρ) d."""
    network, w, x, part, y, penalty = setting(loss, "l2")
    loss_gradient = jax.grad(lambda w: jnp.mean(part.value(network(w, x), y)))(w)
    zero = jnp.zeros_like(w)
    tangent = jax.jit(jax.grad(build(loss, "l2").value))(zero)
    np.testing.assert_allclose(tangent, loss_gradient + penalty.strength * w, rtol=1e-9, atol=1e-12)
    rho, d = 0.3, vectors(5, w.size, 1)[0]
    surrogate = build(loss, "l2", rho, memory=(1 - rho) * d)
    mixed = jax.jit(jax.grad(surrogate.value))(zero)
    np.testing.assert_allclose(mixed, rho * loss_gradient + (1 - rho) * d + penalty.strength * w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(surrogate.pull, -((1 - rho) * d + penalty.strength * w) / 2, rtol=1e-12)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_b3_lipschitz_gradient(loss, x64):
    """The gradient does not change faster than J, the loss's curvature along the way and τ allow."""
    surrogate = build(loss, "l2")
    gradient = jax.jit(jax.grad(surrogate.value))
    norm2 = np.linalg.norm(np.asarray(surrogate.lin.jacobian()).reshape(L * K, -1), 2) ** 2
    for a, b in zip(vectors(1, surrogate.w.size, 5), vectors(2, surrogate.w.size, 5), strict=True):
        path = [surrogate.lin.outputs + surrogate.lin.jvp((1 - t) * a + t * b) for t in np.linspace(0, 1, 9)]
        curvature = max(float(jnp.max(surrogate.datafit.newton(z)[0].magnitude() ** 2)) for z in path) * K
        lipschitz = 1.5 * curvature * norm2 + 2 * surrogate.curvature
        assert jnp.linalg.norm(gradient(a) - gradient(b)) <= lipschitz * jnp.linalg.norm(a - b)


def test_carried_step_moves_the_proximal_center(x64):
    """τ‖δ − βδ_prev‖² up to a constant."""
    _network, w, *_ = setting("squared", "l1")
    previous = vectors(3, w.size, 1)[0]
    with_, without = build("squared", "l1", carried=previous), build("squared", "l1")
    a, b = vectors(4, w.size, 2)
    difference = lambda d: with_.value(d) - without.value(d)
    expected = TAU * (jnp.sum((a - previous) ** 2) - a @ a - jnp.sum((b - previous) ** 2) + b @ b)
    np.testing.assert_allclose(difference(a) - difference(b), expected, rtol=1e-10)


@pytest.mark.parametrize("regularizer", ["l2", "l1", "group", "box", "all"])
@pytest.mark.parametrize("loss", ["squared", "softmax", "poisson"])
def test_dual_bounds_the_minimum_and_the_gap_the_distance(loss, regularizer, x64):
    """dual ≤ F* ≤ F(δ) for any δ, and μ‖δ − δ*‖² ≤ F(δ) − dual."""
    surrogate = build(loss, regularizer)
    reference = _reference(loss, regularizer)
    best = reference.solve()
    least = reference.value(best)

    @jax.jit
    def bounds(delta):
        z = surrogate.lin.outputs + surrogate.lin.jvp(delta)
        return surrogate.value(delta), surrogate.dual(surrogate.datafit.gradient(z), z)

    for scale, v in zip([0.0, 0.01, 0.1, 1.0, 3.0], vectors(7, best.size, 5), strict=True):
        delta = surrogate.regularizer.project(surrogate.w + best + scale * v) - surrogate.w
        primal, dual = bounds(delta)
        np.testing.assert_allclose(primal, reference.value(np.asarray(delta)), rtol=1e-10)
        assert dual <= least + 1e-9
        assert primal >= least - 1e-9
        assert surrogate.curvature * jnp.sum((delta - best) ** 2) <= primal - dual + 1e-9
    np.testing.assert_allclose(bounds(jnp.asarray(best))[1], least, rtol=1e-8)  # no gap at the solution


def _reference(loss, regularizer):
    net = mlp(K)
    params = start(net, 1)
    w, _ = ravel_pytree(params)
    none = np.zeros(w.size)
    part = REGULARIZERS[regularizer](w.size)
    return Reference(
        net.apply, LOSSES[loss].loss, part, params, rows(2, L), LOSSES[loss].draw(3, L, K), none, none, 1.0, 0.0, TAU
    )


@pytest.mark.parametrize("regularizer", ["l1", "all"])
def test_prox_is_the_minimizer_of_its_definition(regularizer, x64):
    surrogate = build("squared", regularizer)
    slope, center = vectors(1, surrogate.w.size, 2)
    weight = 0.7

    def cost(d):
        return (
            (slope + surrogate.linear) @ d
            + surrogate.curvature * d @ d
            + weight / 2 * jnp.sum((d - center) ** 2)
            + surrogate.regularizer.nonsmooth(surrogate.w + d)
        )

    best = surrogate.prox(slope, center, weight)
    near = jax.vmap(surrogate.regularizer.project)(surrogate.w + best + 0.1 * vectors(2, best.size, 200)) - surrogate.w
    assert jnp.all(jax.vmap(cost)(near) >= cost(best) - 1e-10)


def test_the_requested_gap_is_the_gap_delivered(x64):
    for tolerance in (1e-2, 1e-5, 1e-9):
        solution = Fista(tolerance=tolerance, check_every=1).solve(build("squared", "l1"))
        assert solution.status == scax.Status.OK
        assert solution.optimality <= tolerance
    loose = Fista(tolerance=1e-12, max_iterations=1, check_every=1).solve(build("squared", "l1"))
    assert loose.status == scax.Status.NOT_CONVERGED
    assert loose.iterations == 1


def test_start_outside_a_box_is_not_taken_for_a_solution(x64):
    """At a δ where F is infinite the gap is infinite, not NaN."""
    network, w, x, part, y, _ = setting("squared", "l2")
    datafit = Datafit(part, y, jnp.full(L, 1 / L))
    lin = linearize(network, w, x, "dense")
    surrogate = Surrogate.of(datafit, lin, w, None, None, jnp.asarray(TAU), scax.Box(0.1))
    solution = Fista().solve(surrogate)
    assert solution.status == scax.Status.OK
    assert jnp.all(jnp.abs(w + solution.delta) <= 0.1 + 1e-12)


def test_take_is_the_same_problem_with_the_others_fixed(x64):
    surrogate = build("softmax", "elastic-net")
    index = jnp.asarray([4, 1, 9, 0])
    mask = jnp.asarray([1.0, 1.0, 1.0, 0.0])  # the last is padding
    block = surrogate.take(index, mask)
    d = vectors(0, 4, 1)[0] * mask
    whole = jnp.zeros_like(surrogate.w).at[index].add(d)
    at = lambda s, d: s.value(d) - s.value(jnp.zeros_like(d))
    np.testing.assert_allclose(at(block, d), at(surrogate, whole), rtol=1e-10)

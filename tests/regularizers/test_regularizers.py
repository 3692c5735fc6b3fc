"""Values, proxes and conjugates, alone and in sums, against the definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

import scax
from tests.cases import NONSMOOTH, REGULARIZERS, SMOOTH, Parts, convexified, groups_of_three

Q = 11
seeds = st.integers(0, 2**31)
steps = st.sampled_from([0.05, 1.0, 7.0])


def weights(seed, scale=1.0):
    return jnp.asarray(scale * np.random.default_rng(seed).normal(size=Q))


value = jax.jit(lambda part, w: part.value(w))
prox = jax.jit(lambda part, w, step: part.prox(w, step))


@jax.jit
def costs(part, x, moves, w, step):
    """½‖v − w‖² + step · R(v) at x, and at points near it."""
    cost = lambda v: ((v - w) @ (v - w)) / 2 + step * part.value(v)
    return cost(x), jax.vmap(lambda move: cost(part.project(x + move)))(moves)


@jax.jit
def gaps(part, u, v, curvature):
    """R̃(x) + R̃*(u) − uᵀx with R̃ = nonsmooth + ½ curvature ‖·‖², where u is a subgradient at x, and at v; and uᵀx."""
    inside = lambda x: part.nonsmooth(x) + curvature / 2 * x @ x
    touching, star = part.prox_nonsmooth(u / curvature, 1 / curvature), part.conjugate(u, curvature)
    gap = lambda x: inside(x) + star - u @ x
    return gap(touching), gap(part.project(v)), u @ touching


@pytest.mark.parametrize("name", REGULARIZERS)
@given(seed=seeds)
def test_value_is_the_formula(name, seed, x64):
    part = convexified(name, Q)
    parts = Parts.of(part)
    w = np.asarray(part.project(jnp.clip(weights(seed), -0.4, 0.4)))
    expected = parts.ridge / 2 * w @ w + parts.nonsmooth(w)
    np.testing.assert_allclose(value(part, w), expected, rtol=1e-12)


@pytest.mark.parametrize("name", REGULARIZERS)
@given(seed=seeds, step=steps)
def test_prox_satisfies_its_optimality_conditions(name, seed, step, x64):
    """0 ∈ x − w + step ∂R(x): the ridge's gradient and the subgradients of the rest, one by one."""
    part = convexified(name, Q)
    parts = Parts.of(part)
    w = np.asarray(weights(seed))
    x = np.asarray(prox(part, w, step))
    slope = (x - w) / step + parts.ridge * x
    assert parts.violation(x, slope) <= 1e-8 * (1 + np.linalg.norm(w) / step)


@pytest.mark.parametrize("name", REGULARIZERS)
@given(seed=seeds, step=steps)
def test_prox_beats_its_neighbors(name, seed, step, x64):
    part = convexified(name, Q)
    w = weights(seed)
    x = prox(part, w, step)
    rng = np.random.default_rng(seed)
    moves = 10.0 ** rng.uniform(-4, 0, (30, 1)) * rng.normal(size=(30, Q))
    least, near = costs(part, x, moves, w, step)
    assert jnp.all(least <= near + 1e-10)


@pytest.mark.parametrize("name", REGULARIZERS)
@given(seed=seeds, step=steps)
def test_prox_is_firmly_nonexpansive(name, seed, step, x64):
    part = convexified(name, Q)
    v, w = weights(seed), weights(seed + 1)
    a, b = prox(part, v, step), prox(part, w, step)
    assert (a - b) @ (a - b) <= (a - b) @ (v - w) + 1e-10


def _prox_of_conjugate(part, u, step):
    """argmin_x ½‖x − u‖² + step · R*(x), R* known in closed form for each."""
    match part:
        case scax.L2():  # R* = ‖x‖²/2λ
            return u / (1 + step / part.strength)
        case scax.L1():  # R* = 0 on ‖x‖∞ ≤ λ
            return jnp.clip(u, -part.strength, part.strength)
        case scax.GroupLasso():  # R* = 0 on ‖x_p‖ ≤ λ a_p
            ids = np.asarray(part.groups.ids)
            scale = [
                part.strength * np.sqrt(np.sum(ids == p)) / np.linalg.norm(u[ids == p]) for p in range(ids[-1] + 1)
            ]
            return u * np.minimum(np.asarray(scale)[ids], 1)
        case scax.Box():  # R* = bound ‖x‖₁
            return jnp.sign(u) * jnp.maximum(jnp.abs(u) - step * part.bound, 0)
        case scax.ElasticNet():  # R* = Σ (|x| − l1)₊² / 2 ridge
            beyond = jnp.maximum(jnp.abs(u) - part.l1, 0)
            return jnp.sign(u) * (jnp.minimum(jnp.abs(u), part.l1) + beyond / (1 + step / part.ridge))


@pytest.mark.parametrize("name", ["l2", "l1", "group", "box", "elastic-net"])
@given(seed=seeds, step=steps)
def test_moreau(name, seed, step, x64):
    """w = prox_{tR}(w) + t · prox_{R*/t}(w/t)."""
    part = convexified(name, Q)
    w = weights(seed)
    whole = prox(part, w, step) + step * _prox_of_conjugate(part, w / step, 1 / step)
    np.testing.assert_allclose(whole, w, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", REGULARIZERS)
@given(seed=seeds, curvature=steps)
def test_fenchel_young(name, seed, curvature, x64):
    """R̃(x) + R̃*(u) ≥ uᵀx with R̃ = nonsmooth + ½ curvature ‖·‖², equality where u is a subgradient at x."""
    part = convexified(name, Q)
    touching, other, scale = gaps(part, weights(seed, 2.0), weights(seed + 1), curvature)
    assert abs(touching) <= 1e-9 * (1 + abs(scale))
    assert other >= -1e-9


@pytest.mark.parametrize("name", NONSMOOTH)
def test_prox_is_exactly_sparse_or_exactly_on_the_bound(name, dtype):
    part = convexified(name, Q)
    parts = Parts.of(part)
    x = np.asarray(part.prox(weights(0).astype(dtype), jnp.asarray(12.0, dtype)))
    assert x.dtype == dtype
    exact = np.sum(x == 0) if np.isinf(parts.bound) else np.sum(np.abs(x) == dtype.type(parts.bound)) + np.sum(x == 0)
    assert exact >= 2
    assert np.all(np.abs(x) <= parts.bound * (1 + 1e-6))


def test_all_of_a_group_vanishes_together(x64):
    part = scax.GroupLasso(1.0, groups_of_three(9))
    x = part.prox(jnp.asarray([3.0, 0, 0, 0.5, 0.5, 0.5, -4, 1, 1]), 1.0)
    assert np.all(x[3:6] == 0)
    assert np.all(x[jnp.array([0, 6, 7, 8])] != 0)


@pytest.mark.parametrize("name", REGULARIZERS)
def test_take_keeps_the_value_of_whole_groups(name, x64):
    """Blocks made of whole groups: the parts' values add up to the whole's."""
    part = convexified(name, 9)
    w = part.project(jnp.asarray(np.random.default_rng(0).uniform(-0.4, 0.4, 9)))
    index = [jnp.arange(6), jnp.arange(6, 9)]
    total = sum(part.take(i).value(w[i]) for i in index)
    np.testing.assert_allclose(total, part.value(w), rtol=1e-12)


def test_gradient_of_a_zero_group_is_zero():
    part = scax.GroupLasso(1.0, groups_of_three(6))
    assert jnp.all(jnp.isfinite(jax.grad(part.value)(jnp.zeros(6))))


def test_smooth_is_told():
    for name in REGULARIZERS:
        assert REGULARIZERS[name](Q).is_smooth is (name in SMOOTH)


@pytest.mark.parametrize("number", [1, np.float32(1), np.float64(1), np.int64(1), np.array(1.0)])
def test_any_number_is_a_strength(number):
    w = jnp.arange(3.0)
    for cls in (scax.L1, scax.L2, scax.ElasticNet):
        np.testing.assert_allclose(cls(number).value(w), cls(1.0).value(w))
    np.testing.assert_allclose(scax.L2(jnp.asarray(1)).value(w), 2.5)
    assert scax.Box(number).project(w)[2] == 1


def test_strengths_are_leaves():
    part = scax.L1(1e-3) + scax.L2(1e-4)
    assert jax.tree.leaves(part) == [1e-3, 1e-4]
    values = jax.vmap(lambda s: scax.L2(s).value(jnp.ones(3)))(jnp.arange(4.0))
    np.testing.assert_allclose(values, 1.5 * np.arange(4))


# -- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [-1e-3, np.nan, np.inf])
@pytest.mark.parametrize(
    "make",
    [scax.L1, scax.L2, scax.ElasticNet, lambda s: scax.GroupLasso(s, groups_of_three(6)), lambda s: scax.Box(s)],
)
def test_refuses_negative_or_infinite_strengths(make, bad):
    with pytest.raises(ValueError, match=r"(strength|bound) must be a finite number (≥|>) 0, got"):
        make(bad)


def test_refuses_other_nonsense():
    with pytest.raises(ValueError, match=r"l1_ratio must be between 0 and 1, got 1.5"):
        scax.ElasticNet(1.0, 1.5)
    with pytest.raises(TypeError, match="strength must be a number, got True"):
        scax.L2(True)
    with pytest.raises(ValueError, match="GroupLasso \\+ GroupLasso together is not known: combine L1"):
        scax.GroupLasso(1.0, groups_of_three(6)) + scax.GroupLasso(1.0, groups_of_three(6))
    with pytest.raises(ValueError, match="without gaps: no weight has id 1"):
        scax.Groups.of([0, 0, 2])
    with pytest.raises(TypeError, match="group ids must be a vector of integers, got float64"):
        scax.Groups.of([0.0, 1.0])
    with pytest.raises(ValueError, match="groups cover 6 weights but the network trains 7: build them with"):
        scax.GroupLasso(1.0, groups_of_three(6)).check(7)
    with pytest.raises(TypeError):
        scax.L2(1.0) + 3


class Cubic(scax.Regularizer):
    """One of the user's own, with a prox of its own."""

    def nonsmooth(self, w):
        return jnp.sum(jnp.abs(w) ** 3) / 3

    def prox_nonsmooth(self, w, step):
        return jnp.sign(w) * 2 * jnp.abs(w) / (1 + jnp.sqrt(1 + 4 * step * jnp.abs(w)))


def test_a_regularizer_of_ones_own_goes_with_a_ridge_only(x64):
    part = Cubic() + scax.L2(0.5)
    w = weights(0)
    x = part.prox(w, 2.0)
    np.testing.assert_allclose(x - w + 2.0 * (x * jnp.abs(x) + 0.5 * x), 0, atol=1e-12)
    with pytest.raises(ValueError, match="Cubic \\+ L1 together is not known"):
        Cubic() + scax.L1(1.0)


# -- groups of neurons -------------------------------------------------------------------------------


def test_neuron_groups_hold_the_weights_that_leave_a_neuron():
    net = scax.MLP((3, 4, 2))
    params = net.init(jax.random.key(0))
    groups = scax.neuron_groups(params)
    ids = ravel_pytree(params)[1](groups.ids.astype(float))
    weight, bias = np.asarray(ids[0]["weight"]), np.asarray(ids[0]["bias"])
    assert np.all(weight == weight[:, :1])  # one group per input feature
    assert len(np.unique(weight[:, 0])) == 3
    assert len(np.unique(bias)) == 4
    assert groups.count == 4 + 3 + 2 + 4
    np.testing.assert_array_equal(np.bincount(groups.ids), groups.sizes)


def test_neuron_groups_of_other_layouts():
    kernel = {"w": jnp.zeros((4, 3))}
    assert scax.neuron_groups(kernel, input_axis=-1).count == 3
    assert scax.neuron_groups(kernel).count == 4
    conv = scax.neuron_groups({"k": jnp.zeros((3, 3, 2, 5))})
    np.testing.assert_array_equal(conv.sizes, [45, 45])
    params = [{"a": jnp.zeros((2, 2))}, {"a": jnp.zeros((3, 2))}]
    assert scax.neuron_groups(params, trainable=[False, True]).ids.shape == (6,)


def test_neuron_groups_sum_along_axes_what_their_ids_say():
    params = {"kernel": jnp.zeros((2, 3, 4)), "bias": jnp.zeros(4), "dense": jnp.zeros((5, 2))}
    groups = scax.neuron_groups(params)
    w = jnp.asarray(np.random.default_rng(0).normal(size=groups.ids.size))
    np.testing.assert_allclose(groups.sums(w), jax.ops.segment_sum(w, groups.ids, groups.count), rtol=1e-5)

"""The concave penalty: its tangent touches it and lies above; what it keeps, it hardly shrinks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

import scax
from tests.cases import groups_of_three

Q = 11
seeds = st.integers(0, 2**31)
MADE = {"weights": lambda: scax.LogSum(0.3), "groups": lambda: scax.LogSum(0.3, groups_of_three(Q), epsilon=0.1)}


def draw(seed, zeros=True):
    """Weights of all sizes, some of them zero."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=Q) * 10 ** rng.uniform(-3, 1, Q)
    return jnp.asarray(np.where(rng.random(Q) < 0.3, 0, w) if zeros else w)


@pytest.mark.parametrize("name", MADE)
@given(seed=seeds)
def test_the_majorizer_touches_and_lies_above(name, seed, x64):
    part, w, v = MADE[name](), draw(seed), draw(seed + 1)
    convex = part.majorizer(w)
    rise = lambda r: float(r.value(v) - r.value(w))
    assert rise(convex) >= rise(part) - 1e-12
    inside = draw(seed, zeros=False)  # where both have a gradient it is the same
    slope = jax.grad(part.value)(inside)
    np.testing.assert_allclose(slope, jax.grad(part.majorizer(inside).value)(inside), rtol=1e-10)


def test_values_are_the_formula(x64):
    w = draw(0)
    expected = 0.3 * 0.05 * np.sum(np.log1p(np.abs(w) / 0.05))
    np.testing.assert_allclose(MADE["weights"]().value(w), expected, rtol=1e-12)
    groups = groups_of_three(Q)
    norms = np.sqrt(np.bincount(np.asarray(groups.ids), np.asarray(w) ** 2))
    side = np.sqrt(np.asarray(groups.sizes))
    expected = 0.3 * np.sum(side * 0.1 * side * np.log1p(norms / (0.1 * side)))
    np.testing.assert_allclose(MADE["groups"]().value(w), expected, rtol=1e-12)


def test_a_small_weight_is_pulled_as_by_l1_and_a_large_one_hardly(x64):
    strengths = scax.LogSum(0.3).majorizer(jnp.asarray([0.0, 0.05, 5.0])).strength
    np.testing.assert_allclose(strengths, [0.3, 0.15, 0.3 / 101])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5)).astype(np.float32)
    return x, (np.tanh(2 * x[:, 0]) - x[:, 1]).astype(np.float32)


def problem(net, regularizer):
    return scax.Problem(net.apply, scax.Squared(), regularizer)


def trained(grouped, data):
    """A problem, and a network trained on it that is not finished."""
    net = scax.MLP((5, 6, 1))
    params = net.init(jax.random.key(0))
    task = problem(net, scax.LogSum(0.02, scax.neuron_groups(params) if grouped else None))
    return task, scax.train(scax.SCA(task), params, data, steps=300, records=1, finish=0).params


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("blocks", [None, scax.Blocks(3, by="random")])
def test_a_step_is_that_of_its_majorizer(blocks, grouped, data, x64):
    """With and without blocks, which cut no group, and beside a ridge and a box."""
    net = scax.MLP((5, 6, 1))
    params = net.init(jax.random.key(0))
    w = ravel_pytree(params)[0]
    batch = tuple(part[:32].astype(np.float64) for part in data)
    ends, log = [], scax.LogSum(0.1, scax.neuron_groups(params) if grouped else None)
    for part in (log, log.majorizer(w)):
        sca = scax.SCA(problem(net, part + scax.L2(1e-3) + scax.Box(2.0)), blocks=blocks, damping=0.1, acceptance=False)
        state, info = sca.step(sca.init(params), batch)
        ends.append(state.w)
        assert int(info.status) == scax.Status.OK
    np.testing.assert_allclose(*ends, rtol=1e-12)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_run_ends_at_a_stationary_point_with_exact_zeros(grouped, data):
    task, before = trained(grouped, data)
    end = scax.finish(task, before, data)
    told = scax.stationarity(task, end, data)
    assert told.zeros > 0.3
    assert told.on < 0.02
    assert told.off < 1e-3
    # a step that raises the objective is refused: it only falls
    values = [float(task.objective(scax.finish(task, before, data, steps=n), *data)) for n in range(4)]
    assert np.all(np.diff(values) <= 1e-6)
    used = np.abs(np.asarray(end[0]["weight"])).sum(axis=1)
    np.testing.assert_array_equal(used > 0, [True, True, False, False, False])  # the inputs that matter


@pytest.mark.parametrize("grouped", [False, True])
def test_more_finishing_steps_go_further(grouped, data, x64):
    """The tangent moves along with the weights: the objective falls at every step, in float64 below float32's floor.

    What is missing to a stationary point need not: it falls over many steps, with rises between.
    """
    data = tuple(part.astype(np.float64) for part in data)
    task, start = trained(grouped, data)
    ends = [scax.finish(task, start, data, steps=n) for n in (0, 5, 400)]
    values = [float(task.objective(end, *data)) for end in ends]
    assert values[0] > values[1] > values[2]
    before, after = (scax.stationarity(task, ends[i], data) for i in (0, 2))
    assert before.zeros < 0.2
    assert after.zeros > 0.3
    assert after.on < 0.05 < 0.5 < before.on
    assert after.off < 0.05


def test_it_shrinks_less_than_l1_at_the_same_sparsity(data, x64):
    """One input matters: ℓ1 takes strength/2 off its weight, the tangent almost nothing."""
    x = np.random.default_rng(0).normal(size=(400, 4))
    x = (x - x.mean(0)) / x.std(0)
    y = 2 * x[:, 0]
    linear = lambda w, x: x @ w
    ends = {}
    for name, part in {"l1": scax.L1(0.4), "log": scax.LogSum(0.4)}.items():
        task = scax.Problem(linear, scax.Squared(), part)
        ends[name] = np.asarray(scax.finish(task, jnp.ones(4), (x, y), steps=100))
        np.testing.assert_array_equal(ends[name][1:], 0.0)
    np.testing.assert_allclose(ends["l1"][0], 1.8, atol=1e-3)
    np.testing.assert_allclose(ends["log"][0], 2 - 0.4 * 0.05 / 2 / 2.05, atol=1e-3)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match=r"epsilon must be a finite number > 0"):
        scax.LogSum(0.1, epsilon=0.0)
    with pytest.raises(ValueError, match=r"strength must be a finite number ≥ 0"):
        scax.LogSum(-1.0)
    with pytest.raises(TypeError, match=r"groups"):
        scax.LogSum(0.1, 0.05)  # type: ignore
    with pytest.raises(ValueError, match=r"prox of LogSum \+ GroupLasso together is not known"):
        scax.LogSum(0.1, groups_of_three(Q)) + scax.GroupLasso(0.1, groups_of_three(Q))
    with pytest.raises(TypeError, match=r"majorizer\(w\) has one"):
        scax.LogSum(0.1).prox(jnp.ones(3), 1.0)
    with pytest.raises(TypeError, match=r"majorizer\(w\) has one"):
        (scax.LogSum(0.1) + scax.Box(2.0)).prox(jnp.ones(3), 1.0)
    net = scax.MLP((5, 6, 1))
    wrong = problem(net, scax.LogSum(0.1, groups_of_three(7)))
    params = net.init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"groups cover 7 weights"):
        scax.SCA(wrong).init(params)
    for part in (scax.L1, scax.LogSum):
        with pytest.raises(ValueError, match=r"strength has shape \(7,\), and there are 43 weights"):
            scax.SCA(problem(net, part(np.ones(7)))).init(params)
    groups = scax.neuron_groups(params)
    with pytest.raises(ValueError, match=rf"strength has shape \(7,\), and there are {groups.count} groups"):
        scax.SCA(problem(net, scax.GroupLasso(np.ones(7), groups))).init(params)
    with pytest.raises(TypeError, match=r"strength"):
        scax.L1([0.1] * 43)  # type: ignore


def test_strengths_are_leaves():
    """A sweep over strengths is one program."""
    part = dataclasses.replace(scax.LogSum(0.1), strength=0.2)
    assert jax.tree.leaves(part)[:2] == [0.2, 0.05]
    values = jax.vmap(lambda s: scax.LogSum(s).value(jnp.ones(3)))(jnp.asarray([0.0, 1.0]))
    assert values[0] == 0
    assert values[1] > 0

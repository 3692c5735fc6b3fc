"""The defaults look after themselves: any units, any width, and back on course after an accident."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scax
from scax.options import active_rules
from scax.rules.damping import DAMPING


def table(rows=400, features=5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, features))
    y = np.tanh(x[:, 0]) + 0.5 * np.sin(2 * x[:, 1]) * x[:, 2] + 0.2 * rng.standard_normal(rows)
    return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


@pytest.fixture(scope="module")
def trained():
    """A run of 300 steps, and the objective it has reached."""
    x, y = table()
    net = scax.MLP((5, 12, 1))
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)))
    result = scax.train(sca, net.init(jax.random.key(0)), (x, y), steps=300, batch_size=20, records=1)
    return sca, result, (x, y), sca.problem.objective(result.params, x, y)


def huge(v):
    return 1e3 * jnp.ones_like(v)


@pytest.mark.parametrize(
    ("field", "poison"),
    [
        ("w", huge),
        ("w", lambda v: jnp.full_like(v, jnp.nan)),
        ("w", lambda v: 20 * v),
        ("carried", huge),
        ("carried", lambda v: jnp.full_like(v, jnp.nan)),
    ],
)
def test_a_run_comes_back_after_an_accident(trained, field, poison):
    """One poisoned vector in the state: within 50 steps the objective is within 5% of where it was."""
    sca, result, (x, y), reached = trained
    state = dataclasses.replace(result.state, **{field: poison(getattr(result.state, field))})
    after = scax.train(sca, result.params, (x, y), steps=50, batch_size=20, records=1, state=state)
    for params in (after.params, after.state.params):
        assert np.isfinite(reached)
        assert sca.problem.objective(params, x, y) < 1.05 * reached


def test_going_astray_is_told(trained):
    sca, result, (x, y), _ = trained
    lost = dataclasses.replace(result.state, w=huge(result.state.w))
    state, info = sca.step(lost, (x[:20], y[:20]))
    assert info.status == scax.Status.RESTORED
    assert not info.accepted
    np.testing.assert_array_equal(state.w, lost.mean)
    assert state.rules.damping.boost > result.state.rules.damping.boost
    # without an average to go back to, or with acceptance off, the weights stay where they are
    bold = dataclasses.replace(sca, acceptance=False)
    assert bold.step(lost, (x[:20], y[:20]))[1].status != scax.Status.RESTORED
    plain = dataclasses.replace(sca, mean_power=None)
    assert plain.step(dataclasses.replace(lost, mean=None), (x[:20], y[:20]))[1].status != scax.Status.RESTORED


def test_no_false_alarm(trained):
    _, result, _, _ = trained
    assert np.all(result.history["accepted"] == 1)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_damping_is_measured_in_the_curvature(scale):
    """f ↦ scale · f multiplies J by the scale and the curvature by its square: τ follows, and δ shrinks alike."""
    x, y = table()
    net = scax.MLP((5, 12, 1))
    taus, steps = [], []
    for c in (1.0, scale):
        problem = scax.Problem(lambda p, x, c=c: c * net.apply(p, x), scax.Squared())
        sca = scax.SCA(problem)
        state, info = sca.step(sca.init(net.init(jax.random.key(0))), (x[:20], c * y[:20]))
        taus.append(info.damping)
        steps.append(state.w)
    np.testing.assert_allclose(taus[1] / taus[0], scale**2, rtol=1e-3)
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("loss", [scax.Squared(), scax.Logistic(), scax.Softmax()])
def test_curvature_is_half_the_trace(loss):
    """½ tr ∇² of the linearized network's average loss, without products between outputs."""
    k = 3 if isinstance(loss, scax.Softmax) else 1
    x, y = table(rows=8)
    y = jnp.arange(8) % 3 if k == 3 else (y > 0).astype(jnp.float32)
    net = scax.MLP((5, 4, k))
    problem = scax.Problem(net.apply, loss)
    params = net.init(jax.random.key(1))
    layout = problem.layout(params)
    w, frozen = layout.flatten(params), layout.split(params)[1]
    z, targets = net.apply(params, x), loss.targets(y, k)
    signs = jax.random.rademacher(jax.random.key(0), (k,), w.dtype) if k > 1 else jnp.ones(1)

    @jax.jit
    def traces(w):
        jacobian = jax.jacrev(lambda w: net.apply(layout.unflatten(w, frozen), x))(w)
        hessian = jax.vmap(jax.hessian(lambda z, t: loss.value(z[None], t[None])[0]))(z, targets)
        whole = jnp.einsum("nkk,nkq,nkq->", hessian, jacobian, jacobian) / 2 / 8
        rows = jnp.einsum("nk,nkq->nkq", jnp.sqrt(jnp.einsum("nkk->nk", hessian) / 2), jacobian)
        common = jnp.einsum("nkq,k->q", rows, signs) / 8
        return whole, (whole - common @ common) * 8 / 7

    left = loss.curvature_left(z)  # what the spread is measured against; nothing where the loss does not flatten out
    whole, about = traces(w)
    about = about / (1 if left is None else np.mean(left))
    for centered, expected in ((False, whole), (True, about)):
        rule = scax.Relative(share=1.0, noise=0.0, centered=centered)
        sca = scax.SCA(problem, damping=rule)
        _, info = sca.step(sca.init(params), (x, y))
        np.testing.assert_allclose(info.damping, loss.caution * expected, rtol=1e-4)


def test_spread_leaves_out_what_all_samples_share():
    """A constant added to the inputs of a linear model is a direction common to all samples: τ does not see it."""
    x, y = table()
    net = scax.MLP((5, 1))
    seen = []
    for shift in (0.0, 3.0):
        sca = scax.SCA(scax.Problem(net.apply, scax.Squared()))
        seen.append(
            sca.step(sca.init(net.init(jax.random.key(0))), (x[:20] - x[:20].mean(0) + shift, y[:20]))[1].damping
        )
    np.testing.assert_allclose(seen[1], seen[0], rtol=0.02)
    one = scax.SCA(scax.Problem(net.apply, scax.Squared()))
    assert one.step(one.init(net.init(jax.random.key(0))), (x[:1], y[:1]))[1].damping > 0  # one row has no spread


def test_estimated_squares_are_unbiased():
    """The matrix-free form estimates Σ weight ‖J_i‖²: the average over seeds is the sum itself."""
    x, _ = table(rows=10)
    net = scax.MLP((5, 6, 2))
    params = net.init(jax.random.key(0))
    problem = scax.Problem(net.apply, scax.Squared())
    rule = scax.Relative(share=1.0, scale=25.0, growth=1.0, noise=0.0, centered=False)
    sca = scax.SCA(problem, surrogate="full", damping=rule)
    assert isinstance(sca.init(params).rules.damping.mean, jax.Array)
    state, batch = sca.init(params), (x, jnp.zeros((10, 2)))
    partial = scax.SCA(problem, damping=rule, metric=None)
    exact = partial.step(partial.init(params), batch)[1].damping
    seen = [
        sca.step(dataclasses.replace(state, count=jnp.asarray(n)), batch)[1].damping / (1 + n / 25) for n in range(200)
    ]
    np.testing.assert_allclose(np.mean(seen), exact, rtol=0.05)
    assert np.std(seen) < exact


def test_full_linearization_has_its_own_share():
    x, y = table()
    net = scax.MLP((5, 12, 1))
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    full = jax.tree.map(lambda leaf: leaf, scax.SCA(problem, surrogate="full"))
    assert active_rules(full).damping.share == DAMPING["full"].share
    again = dataclasses.replace(full, surrogate="partial")  # what was left out follows the surrogate
    assert active_rules(again).damping.share == DAMPING["partial"].share
    result = scax.train(
        scax.SCA(problem, surrogate="full"), net.init(jax.random.key(0)), (x, y), steps=200, batch_size=20, records=4
    )
    assert np.all(result.history["accepted"] == 1)
    assert result.history["objective"][-1] < 0.7 * problem.objective(net.init(jax.random.key(0)), x, y)


@pytest.mark.parametrize("rows", [1, 7, 400])
@pytest.mark.parametrize("width", [1, 300])
def test_any_batch_and_width(rows, width):
    x, y = table()
    net = scax.MLP((5, width, 1), activation="relu")
    problem = scax.Problem(net.apply, scax.Squared())  # no ridge at all
    params = net.init(jax.random.key(0))
    result = scax.train(scax.SCA(problem), params, (x, y), steps=60, batch_size=rows, records=2)
    assert np.all(np.isfinite(result.history["objective"]))
    assert result.history["objective"][-1] < problem.objective(params, x, y)


def test_carry_approaches_one():
    rule = scax.Approach(0.9, scale=5.0)
    np.testing.assert_allclose([rule(n) for n in (0, 5, 45)], [0.9, 0.95, 0.99])
    for wrong in ({"initial": 1.0, "scale": 5.0}, {"initial": -0.1, "scale": 5.0}, {"initial": 0.9, "scale": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            scax.Approach(**wrong)


@pytest.mark.parametrize("options", [{}, {"metric": None}], ids=["default", "no memory"])
def test_tables_as_people_have_them(options):
    """Standardized inputs, a weak ridge, many steps: below Adam with a good learning rate, decayed to the very end."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 8)).astype(np.float32)
    y = np.sin(2 * x[:, 0]) * x[:, 1] + np.maximum(x[:, 2], 0) * x[:, 3] + 0.3 * rng.normal(size=1000)
    y = ((y - y.mean()) / y.std()).astype(np.float32)
    net = scax.MLP((8, 32, 16, 1), activation="relu")
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-4))
    adam = scax.baseline(optax.adam(optax.cosine_decay_schedule(1e-2, 1000)), problem)
    init, keys = functools.partial(net.init, dtype=jnp.float32), jax.random.split(jax.random.key(0), 3)
    ends = [
        scax.train_many(method, init, (x, y), keys=keys, steps=1000, batch_size=20, records=1).history["objective"][-1]
        for method in (scax.SCA(problem, **options), adam)
    ]
    assert np.mean(ends[0]) < 0.8 * np.mean(ends[1])

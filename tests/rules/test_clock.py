"""The clock that tells noise from signal: on sequences made by hand, and in small trainings."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.rules import Progress, StepCount

from .messages import number, seen


def read(objectives, along=(0.0, 0.0), rule=None, rows=20.0):
    """What the clock shows after each of these fresh objectives."""
    rule = rule or Progress()
    state = rule.init(jnp.zeros(3, jnp.float32))

    @jax.jit
    def propose(state, n, objective):
        batch = dataclasses.replace(seen(along=along, rows=rows), step=n, objective=objective)
        reading, state = rule.propose(state, batch)
        return (reading.time, reading.stillness, reading.multiplier), state

    readings = []
    for n, objective in enumerate(objectives):
        reading, state = propose(state, jnp.asarray(n), number(objective))
        readings.append([float(v) for v in reading])
    return np.array(readings)


def noise(count, spread=0.3, seed=0):
    return np.exp(spread * np.random.default_rng(seed).standard_normal(count))


def test_it_runs_with_the_steps_on_a_flat_sequence():
    time, stillness, multiplier = read(noise(400)).T
    np.testing.assert_allclose(time[:50], np.arange(50))
    assert time[-1] > 370
    assert stillness[-1] < 0.1
    assert multiplier[-1] > 0.6


@pytest.mark.parametrize("seed", range(3))
def test_what_noise_explains_is_no_fall(seed):
    """Batches whose objectives differ by a factor of e: the two means differ, by less than their error."""
    assert read(noise(400, 1.0, seed))[-1, 0] > 375


def test_it_stands_still_while_fresh_batches_improve():
    time, stillness, multiplier = read(noise(400) * np.exp(-np.arange(400) / 25)).T
    assert time[-1] < 50
    assert stillness[-1] == 1
    assert multiplier[-1] < 1e-4


def test_it_goes_on_once_they_no_longer_do():
    falling = np.exp(-np.minimum(np.arange(900), 200) / 25)
    time = read(noise(900) * falling)[:, 0]
    assert time[200] < 60
    assert time[-1] > 450


@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize(("power", "share"), [(0.5, 0.65), (1.0, 0.47), (2.0, 0.3)])
def test_while_the_objective_falls_like_a_power_it_counts_a_share_of_the_steps(power, share, spread):
    """The table of docs/how-it-works/noise-rule.md."""
    n = np.arange(1500)
    time = read(noise(1500, spread) * (1 + n / 10) ** -power)[:, 0]
    np.testing.assert_allclose(time[-1] / n[-1], share, atol=0.06)


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_while_it_falls_exponentially_it_stands_still(spread):
    time = read(noise(1500, spread) * np.exp(-np.arange(1500) / 200))[:, 0]
    np.testing.assert_allclose(time[-1], 0.77 * 200 - 20, rtol=0.15)


@pytest.mark.parametrize(("rows", "span"), [(1, 0.43), (20, 0.77), (500, 0.77)])
def test_few_rows_stop_it_at_a_smaller_fall(rows, span):
    time = read(np.exp(-np.arange(1500) / 200), rows=rows)[:, 0]
    np.testing.assert_allclose(time[-1], span * 200 - 20, rtol=0.1)


def test_a_displacement_that_fresh_rows_would_lengthen_stops_it_on_a_plateau():
    flat = noise(300)
    assert read(flat, along=(0.5, 1.0))[-1, 0] < 60
    assert read(flat, along=(0.05, 1.0))[-1, 0] > 270


def test_a_negative_objective_is_read_by_its_relative_fall():
    assert read(-noise(400))[-1, 0] > 370
    assert read(-noise(400) * np.exp(np.arange(400) / 25))[-1, 0] < 250


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_do_not_matter(factor):
    objectives = noise(200) * np.exp(-np.arange(200) / 40)
    np.testing.assert_allclose(read(factor * objectives), read(objectives), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "objectives",
    [
        np.zeros(200),
        np.ones(200),
        -noise(200),
        np.linspace(1, -1, 200),
        np.where(np.arange(200) % 40 == 7, np.nan, noise(200)),
        np.where(np.arange(200) % 40 == 7, np.inf, noise(200)),
        np.where(np.arange(200) % 2, 1e6, 1e-6),
    ],
    ids=["zero", "constant", "negative", "across zero", "nan", "inf", "batches with nothing in common"],
)
def test_it_stays_finite(objectives):
    readings = read(objectives)
    assert np.all(np.isfinite(readings))
    assert np.all((readings[:, 0] >= 0) & (readings[:, 0] <= np.arange(200) + 1e-3))
    assert np.all((readings[:, 2] > 0) & (readings[:, 2] <= 1))


def test_the_first_objective_does_not_have_to_be_finite():
    assert np.all(np.isfinite(read([np.nan, *noise(100)])))


# -- in a training -------------------------------------------------------------------------------------


def sine(noise, rows=400):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, 1))
    return x, np.sin(3 * x[:, 0]) + noise * rng.standard_normal(rows)


def objective(data, steps, batch_size=20, **options):
    net = scax.MLP((1, 10, 1))
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(0.0)), **options)
    params = jax.tree.map(lambda leaf: leaf.astype(np.float64), net.init(jax.random.key(1)))
    result = scax.train(sca, params, data, steps=steps, batch_size=batch_size, records=4, finish=0)
    return float(sca.problem.objective(result.params, *data)), result


def test_without_noise_it_gains_orders_of_magnitude(x64):
    data = sine(0.0)
    counted, _ = objective(data, 1000, clock=StepCount())
    best, result = objective(data, 1000)
    assert best < 1e-6
    assert best < counted / 100
    assert result.history["clock"][-1] < 800  # a mean over the last quarter: 874.5 where it counts steps
    assert result.history["multiplier"][-1] < 1e-4


def test_sinc_is_met_to_a_mean_square_of_1e_8(x64):
    """As docs/measurements/defaults.md has it, with half the steps and rows: 1e-11 here."""
    x = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    y = np.sinc(10 * x[:, 0] / np.pi)
    net = scax.MLP((1, 20, 1))
    params = jax.tree.map(lambda leaf: leaf.astype(np.float64), net.init(jax.random.key(0)))
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(0.0)))
    result = scax.train(sca, params, (x, (y - y.mean()) / y.std()), steps=2000, batch_size=100, records=2)
    assert result.history["objective"][-1] < 1e-8


def test_a_noisy_problem_is_not_spoilt(x64):
    data = sine(0.3)
    counted, _ = objective(data, 1000, clock=StepCount())
    best, result = objective(data, 1000)
    assert best < 1.01 * counted
    assert result.history["clock"][-1] > 600


@pytest.mark.parametrize("sign", [1, -1], ids=["positive", "negative"])
def test_the_sign_of_the_objective_spoils_nothing(sign):
    """Counts: U = mean(rate − y ln rate), negative where counts are large. And no row is like the others."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 1))
    y = rng.poisson(np.exp((3 if sign < 0 else -1) + np.sin(3 * x[:, 0]))).astype(float)
    net = scax.MLP((1, 10, 1))
    problem = scax.Problem(net.apply, scax.Poisson(), scax.L2(1e-6))
    train = functools.partial(scax.train, params=net.init(jax.random.key(0)), data=(x, y), steps=400, batch_size=20)
    best, counted = (train(scax.SCA(problem, clock=clock)).history["objective"] for clock in (None, StepCount()))
    assert np.all(np.isfinite(best))
    assert np.sign(best[-1]) == sign
    assert best[-1] < counted[-1] + 0.02 * abs(counted[-1])


def test_the_average_does_not_lag(x64):
    """What is deployed is no worse than the last iterate while the objective falls by orders of magnitude."""
    data = sine(0.0)
    averaged, result = objective(data, 500)
    problem = scax.Problem(scax.MLP((1, 10, 1)).apply, scax.Squared(), scax.L2(0.0))
    assert averaged < 5 * float(problem.objective(result.state.params, *data))


def test_a_refused_step_is_not_tried_again():
    """A fixed damping that is far too small: it rises until a step is one to take, and falls back."""
    net = scax.MLP((1, 8, 1))
    data = sine(0.0, rows=6)
    data = data[0], 20 * data[1]
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared()), damping=1e-6, step_size=1.0, carry=0.0, acceptance=True)
    state = sca.init(net.init(jax.random.key(0)))
    accepted, dampings = [], []
    for _ in range(30):
        state, info = sca.step(state, data)
        accepted.append(bool(info.accepted))
        dampings.append(float(info.damping))
    assert not all(accepted)
    assert any(accepted)
    for before, after, taken in zip(dampings, dampings[1:], accepted, strict=False):
        assert after < 2e-6 if taken else after > 3 * before


def test_explicit_schedules_count_steps():
    net = scax.MLP((1, 4, 1))
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared()), step_size=scax.PowerDecay(0.5, 0.7))
    state = sca.init(net.init(jax.random.key(0)))
    for n in range(3):
        state, info = sca.step(state, sine(0.0, rows=8))
        np.testing.assert_allclose(info.step_size, 0.5 * (1 + n) ** -0.7, rtol=1e-6)


def test_the_rule_is_explained():
    net = scax.MLP((1, 4, 1))
    params, x = net.init(jax.random.key(0)), np.zeros((5, 1), np.float32)
    problem = scax.Problem(net.apply, scax.Squared())
    assert "stands still while fresh batches improve" in scax.SCA(problem).explain(params, x)
    assert "counts steps; damping Fixed" in scax.SCA(problem, clock=StepCount(), damping=0.1).explain(params, x)


def refusing(steps, **options):
    """A training of which no step, or but few, are taken."""
    net = scax.MLP((1, 4, 1))
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared()), **options)
    x = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]
    return scax.train(sca, net.init(jax.random.key(0)), (x, np.sin(3 * x[:, 0])), steps=steps, batch_size=4)


def test_a_training_that_takes_no_step_warns():
    with pytest.warns(RuntimeWarning, match="not one of 4 steps in a row was taken"):
        refusing(4, acceptance=scax.Acceptance(residual=1e-30))


def test_a_refused_step_now_and_then_is_no_reason_to_warn():
    result = refusing(60, damping=1e-9, step_size=1.0, carry=0.0)
    accepted = result.history["accepted"]
    assert result.history["step"].size == 60
    assert 0 < np.sum(accepted == 0) < 50

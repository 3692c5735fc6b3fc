"""Damping rules by hand: what they propose for a batch, and what they make of a step."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from scax.rules import Fixed, GainRatio, Recovering, Relative

from .messages import outcome, seen

W = jnp.zeros(3, jnp.float32)


def test_a_fixed_damping_stays():
    rule = Fixed(0.3)
    tau, state = rule.propose(rule.init(W), seen(spread=5.0, n=100))
    np.testing.assert_allclose(tau, 0.3)
    for accepted, wanted in ((False, 4 * 0.3), (False, 16 * 0.3), (True, 0.3)):  # but no refused step is tried again
        state = rule.update(state, outcome(accepted))
        np.testing.assert_allclose(rule.propose(state, seen())[0], wanted, rtol=1e-6)


def test_recovering_damping():
    rule = Recovering(base=0.1, rise=10.0, fall=0.5)
    state = rule.init(W)
    np.testing.assert_allclose(rule.propose(state, seen(spread=1.0)), 0.1)
    for accepted, expected in ((False, 1.0), (True, 0.5), (True, 0.25), (True, 0.125), (True, 0.1)):
        state = rule.update(state, outcome(accepted))
        np.testing.assert_allclose(rule.propose(state, seen(spread=1.0)), expected)
    for _ in range(100):
        state = rule.update(state, outcome(False))
    np.testing.assert_allclose(state, 1e9)


def test_relative_damping():
    rule = Relative(share=0.1, scale=2.0, growth=1.0, rise=10.0, fall=0.5)
    tau, state = rule.propose(rule.init(W), seen(spread=3.0))
    np.testing.assert_allclose(tau, 0.1 * 3)
    tau, state = rule.propose(state, seen(spread=5.0, n=1))
    np.testing.assert_allclose(tau, 0.1 * 4 * 1.5)  # average curvature 4, and half a scale later
    for unknown in (jnp.nan, jnp.inf, 0.0):
        assert rule.propose(state, seen(spread=unknown, n=2))[1].mean == 4
    assert rule.propose(state, seen(spread=100.0, n=9))[1].mean == 4  # later it measures one batch in eight
    np.testing.assert_allclose(rule.propose(state, seen(spread=13.0, n=8))[1].mean, (8 * 4 + 13) / 9)
    np.testing.assert_allclose(rule.propose(state, seen(spread=14.0, n=16))[1].mean, (9 * 4 + 14) / 10)
    few = seen(spread=3.0, rows=5.0, caution=8.0)  # fewer rows, a loss that flattens out
    np.testing.assert_allclose(rule.propose(rule.init(W), few)[0], 0.1 * 3 * 8 * 4)


def test_relative_damping_does_not_fall_with_what_a_loss_has_left_of_its_curvature():
    for centered, expected in ((True, 0.1 * 3 / 0.25), (False, 0.1 * 5)):  # the whole curvature is the batch's own
        rule = Relative(share=0.1, centered=centered)
        flat = dataclasses.replace(seen(spread=3.0, left=0.25), curvature=lambda: jnp.asarray(5.0))
        np.testing.assert_allclose(rule.propose(rule.init(W), flat)[0], expected, rtol=1e-6)


def test_relative_damping_is_a_function_of_the_clock_not_of_the_step():
    rule = Relative(share=0.1, scale=2.0, growth=1.0)
    still = seen(spread=3.0, n=8, clock=(0.0, 1.0, 0.25))
    np.testing.assert_allclose(rule.propose(rule.init(W), still)[0], 0.1 * 3 / 4, rtol=1e-6)


def test_few_rows_count_less_where_there_is_no_noise():
    rule = Relative(share=0.1, noise=2.0)
    tau = lambda rows, stillness: rule.propose(rule.init(W), seen(spread=1.0, rows=rows, clock=(0.0, stillness, 1.0)))[
        0
    ]
    np.testing.assert_allclose([tau(5.0, 0.0), tau(5.0, 0.5), tau(5.0, 1.0)], [0.4, 0.2, 0.1], rtol=1e-6)
    np.testing.assert_allclose([tau(40.0, 0.0), tau(40.0, 1.0)], 0.1 / 4, rtol=1e-6)


def test_the_gain_ratio_decides_on_all_rows():
    rule = GainRatio(share=0.5)
    tau, state = rule.propose(rule.init(W), seen(spread=3.0))
    np.testing.assert_allclose(tau, 1.5)
    as_promised = rule.update(state, outcome(True, before=2.0, after=1.0, predicted=1.0))
    np.testing.assert_allclose(as_promised.boost, 1 / 3, rtol=1e-6)
    half = rule.update(state, outcome(True, before=2.0, after=1.5, predicted=1.0))
    np.testing.assert_allclose(half.boost, 1.0, rtol=1e-6)
    for wanted in (2, 2 * 4, 2 * 4 * 8):
        state = rule.update(state, outcome(False, before=2.0, after=3.0, predicted=1.0))
        np.testing.assert_allclose(state.boost, wanted, rtol=1e-6)
    broken = rule.update(state, outcome(False, before=2.0, after=jnp.nan, predicted=jnp.nan))
    np.testing.assert_allclose(broken.boost, 2 * 4 * 8 * 16, rtol=1e-6)


def test_refused_steps_raise_a_relative_damping_and_taken_ones_lower_it():
    rule = Relative(share=0.1, rise=10.0, fall=0.5)
    tau, state = rule.propose(rule.init(W), seen(spread=3.0))
    for accepted, factor in ((False, 10), (True, 5)):
        state = rule.update(state, outcome(accepted))
        np.testing.assert_allclose(state.boost, factor)
    np.testing.assert_allclose(rule.propose(state, seen(spread=3.0))[0], 5 * tau, rtol=1e-6)
    for _ in range(100):
        state = rule.update(state, outcome(False))
    np.testing.assert_allclose(state.boost, 1e10)
    for _ in range(100):
        state = rule.update(state, outcome(True))
    assert state.boost == 1

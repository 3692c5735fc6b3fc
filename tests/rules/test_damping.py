"""Damping rules by hand: what they propose for a batch, and what they make of a step."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from scax.rules import Fixed, Outcome, Recovering, Relative, Seen

W = jnp.zeros(3, jnp.float32)


def seen(spread, n=0, rows=20.0, caution=1.0):
    """A batch with this spread of its curvature, whose curvature itself is nobody's business."""
    number = lambda v: jnp.asarray(v, jnp.float32)
    return Seen(
        step=jnp.asarray(n),
        time=number(n),
        rows=number(rows),
        objective=number(1.0),
        caution=caution,
        curvature=lambda: number(-1.0),
        spread=lambda: number(spread),
        weighted_rows=lambda few: jnp.zeros((few, 3)),
    )


def outcome(accepted):
    one = jnp.ones(())
    return Outcome(jnp.asarray(0), jnp.asarray(accepted), one, one, lambda: one, lambda: one)


def test_a_fixed_damping_stays():
    rule = Fixed(0.3)
    tau, state = rule.propose(rule.init(W), seen(5.0, n=100))
    assert rule.update(state, outcome(False)) == state == ()
    np.testing.assert_allclose(tau, 0.3)


def test_recovering_damping():
    rule = Recovering(base=0.1, rise=10.0, fall=0.5)
    state = rule.init(W)
    np.testing.assert_allclose(rule.propose(state, seen(1.0)), 0.1)
    for accepted, expected in ((False, 1.0), (True, 0.5), (True, 0.25), (True, 0.125), (True, 0.1)):
        state = rule.update(state, outcome(accepted))
        np.testing.assert_allclose(rule.propose(state, seen(1.0)), expected)
    for _ in range(100):
        state = rule.update(state, outcome(False))
    np.testing.assert_allclose(state, 1e5)


def test_relative_damping():
    rule = Relative(share=0.1, scale=2.0, growth=1.0, rise=10.0, fall=0.5)
    tau, state = rule.propose(rule.init(W), seen(3.0))
    np.testing.assert_allclose(tau, 0.1 * 3)
    tau, state = rule.propose(state, seen(5.0, n=1))
    np.testing.assert_allclose(tau, 0.1 * 4 * 1.5)  # average curvature 4, and half a scale later
    for unknown in (jnp.nan, jnp.inf, 0.0):
        assert rule.propose(state, seen(unknown, n=2))[1].mean == 4
    assert rule.propose(state, seen(100.0, n=9))[1].mean == 4  # later it measures one batch in eight
    np.testing.assert_allclose(rule.propose(state, seen(13.0, n=8))[1].mean, (8 * 4 + 13) / 9)
    np.testing.assert_allclose(rule.propose(state, seen(14.0, n=16))[1].mean, (9 * 4 + 14) / 10)
    few = seen(3.0, rows=5.0, caution=8.0)  # fewer rows, a loss that flattens out
    np.testing.assert_allclose(rule.propose(rule.init(W), few)[0], 0.1 * 3 * 8 * 4**1.5)


def test_relative_damping_is_a_function_of_the_clock_not_of_the_step():
    rule = Relative(share=0.1, scale=2.0, growth=1.0)
    still = dataclasses.replace(seen(3.0, n=8), time=jnp.zeros(()))
    np.testing.assert_allclose(rule.propose(rule.init(W), still)[0], 0.1 * 3, rtol=1e-6)


def test_refused_steps_raise_a_relative_damping_and_taken_ones_lower_it():
    rule = Relative(share=0.1, rise=10.0, fall=0.5)
    tau, state = rule.propose(rule.init(W), seen(3.0))
    for accepted, factor in ((False, 10), (True, 5)):
        state = rule.update(state, outcome(accepted))
        np.testing.assert_allclose(state.boost, factor)
    np.testing.assert_allclose(rule.propose(state, seen(3.0))[0], 5 * tau, rtol=1e-6)
    for _ in range(100):
        state = rule.update(state, outcome(False))
    np.testing.assert_allclose(state.boost, 1e6)
    for _ in range(100):
        state = rule.update(state, outcome(True))
    assert state.boost == 1

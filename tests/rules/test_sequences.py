"""Sequences against their recursions, the conditions they meet, and the warnings about pairs."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scax
from scax._struct import struct
from scax.rules.sequences import Conditions, OnClock, Sequence, as_sequence, warn_about_convergence


def test_quadratic_decay_is_the_papers_recursion(x64):
    a, expected = 0.9, []
    for _ in range(50):
        expected.append(a)
        a = a * (1 - 0.01 * a)
    sequence = scax.QuadraticDecay(0.9, 0.01)
    np.testing.assert_allclose([sequence(n) for n in (0, 1, 7, 49)], [expected[n] for n in (0, 1, 7, 49)], rtol=1e-12)


def test_power_decay_is_its_formula(x64):
    sequence = scax.PowerDecay(0.5, 0.6, scale=10.0)
    for n in (0, 1, 30):
        np.testing.assert_allclose(sequence(n), 0.5 * (1 + n / 10) ** -0.6, rtol=1e-12)


def test_constant_and_function():
    assert scax.Constant(0.3)(17) == pytest.approx(0.3)
    schedule = optax.cosine_decay_schedule(0.5, 100)
    sequence = as_sequence("step_size", schedule)
    np.testing.assert_allclose(sequence(0), 0.5)
    np.testing.assert_allclose(sequence(40), schedule(40), rtol=1e-6)
    assert as_sequence("step_size", 0.2)(3) == pytest.approx(0.2)
    assert as_sequence("step_size", sequence) is sequence


@pytest.mark.parametrize(
    ("sequence", "vanishes", "diverges", "summable"),
    [
        (scax.Constant(0.5), False, True, False),
        (scax.QuadraticDecay(0.9, 0.01), True, True, True),
        (scax.QuadraticDecay(0.9, 0.0), False, True, False),
        (scax.PowerDecay(0.5, 0.5), True, True, False),
        (scax.PowerDecay(0.5, 0.75), True, True, True),
        (scax.PowerDecay(0.5, 1.0), True, True, True),
        (scax.PowerDecay(0.5, 1.2), True, False, True),
        (OnClock(scax.PowerDecay(0.5, 0.75)), True, True, True),
        (as_sequence("step_size", lambda n: 0.1), None, None, None),
    ],
)
def test_conditions(sequence, vanishes, diverges, summable):
    met = sequence.conditions()
    assert met == Conditions(vanishes, diverges, summable)
    assert met.all_met is {(True, True, True): True, (None, None, None): None}.get(
        (vanishes, diverges, summable), False
    )
    word = {True: "yes", False: "no", None: "unknown"}
    assert str(met) == f"a_n → 0: {word[vanishes]}; Σ a_n = ∞: {word[diverges]}; Σ a_n² < ∞: {word[summable]}"


def test_conditions_hold_numerically(x64):
    """1/(rate · n): the paper's rule falls like a harmonic sequence."""
    n = 2000
    assert float(scax.QuadraticDecay(0.5, 0.5)(n)) * 0.5 * n == pytest.approx(1, rel=0.02)


def problem():
    net = scax.MLP((2, 2, 1))
    return scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))


def test_the_papers_pair_is_warned_about():
    rule = scax.QuadraticDecay(0.5, 0.01)
    with pytest.warns(UserWarning, match="step_size / averaging → 0"):
        scax.SCA(problem(), step_size=rule, averaging=scax.QuadraticDecay(0.9, 0.01))


def test_a_summable_step_size_is_warned_about():
    with pytest.warns(UserWarning, match="stop short of a stationary point"):
        warn_about_convergence(scax.PowerDecay(0.5, 1.5), scax.Constant(0.9))


@pytest.mark.parametrize(
    ("alpha", "rho"),
    [
        (scax.Constant(0.5), scax.Constant(0.9)),
        (scax.Constant(0.5), None),
        (scax.PowerDecay(0.5, 0.9), scax.PowerDecay(0.9, 0.6)),
        (scax.QuadraticDecay(0.5, 0.01), scax.Constant(0.9)),
        (lambda n: 0.1, scax.QuadraticDecay(0.9, 0.1)),
        (0.1, 1.0),
    ],
)
def test_no_warning_for_constants_and_sound_pairs(alpha, rho):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scax.SCA(problem(), step_size=alpha, averaging=rho)


@pytest.mark.parametrize(
    "make", [scax.Constant, lambda v: scax.PowerDecay(v, 0.5), lambda v: scax.QuadraticDecay(v, 0.1)]
)
@pytest.mark.parametrize("bad", [-0.1, 1.5, np.nan])
def test_refuses_values_outside_zero_one(make, bad):
    with pytest.raises(ValueError, match=r"(value|initial) must be between 0 and 1, got"):
        make(bad)


def test_refuses_bad_shapes_of_decay():
    with pytest.raises(ValueError, match="exponent must be a finite number ≥ 0"):
        scax.PowerDecay(0.5, -1.0)
    with pytest.raises(ValueError, match="scale must be a finite number > 0"):
        scax.PowerDecay(0.5, 0.5, scale=0.0)
    with pytest.raises(ValueError, match="rate must be between 0 and 1"):
        scax.QuadraticDecay(0.5, 2.0)


def test_a_sequence_of_ones_own():
    @struct
    class Halving(Sequence):
        def init(self, w):
            return jnp.asarray(0.5, w.dtype)

        def propose(self, state, seen):
            return state, state

        def advance(self, state):
            return state / 2

    assert Halving().conditions() == Conditions(None, None, None)
    net = scax.MLP((2, 1))
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)), step_size=Halving())
    state, rates = sca.init(net.init(jax.random.key(0))), []
    for _ in range(3):
        state, info = sca.step(state, (np.eye(2, dtype=np.float32), np.ones(2, np.float32)))
        rates.append(float(info.step_size))
    np.testing.assert_allclose(rates, [0.5, 0.25, 0.125])

"""Intervals and verdicts."""

import math

import numpy as np
import pytest
import scipy.stats

from scax.reproduce.statistics import difference, less_printed, spread

RNG = np.random.default_rng(0)
A, B = RNG.normal(0.3, 1, 40), RNG.normal(0, 1, 40)


def test_the_interval_is_students():
    found = difference(list(A), list(B), ratio=1 / 3)
    low, high = scipy.stats.ttest_rel(A, B).confidence_interval(0.95)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))
    # n → (1/n + test/train): the correction widens the interval by √(1 + n · test/train)
    assert found.corrected == pytest.approx(found.half * math.sqrt(1 + 40 / 3))
    against = difference(list(A), 0.0, ratio=1 / 3)
    assert against.mean - against.half == pytest.approx(scipy.stats.ttest_1samp(A, 0).confidence_interval(0.95)[0])


def test_verdicts():
    noise = 0.01 * A
    assert difference(list(1 + noise), 0.0, 1 / 3).verdict == 1
    assert difference(list(1 + noise), 2.0, 1 / 3).verdict == -1
    assert difference(list(1 + noise), 2.0, 1 / 3).robust
    assert difference(list(A - A.mean()), 0.0, 1 / 3).verdict == 0
    small = difference(list(A - A.mean() + 0.5), 0.0, 1 / 3)
    assert small.verdict == 1
    assert not small.robust
    for unknown in ([None, 1.0, 2.0], [1.0]):  # a run that was not finite, a single run: nothing can be said
        assert difference(unknown, 0.0, 1 / 3).verdict == 0


def test_spread_is_that_of_a_sample():
    assert spread([1.0, 2.0, 4.0]) == pytest.approx((7 / 3, np.std([1, 2, 4], ddof=1)))
    assert math.isnan(spread([1.0, None]).mean)


def test_a_printed_mean_has_an_error_too():
    certain, vague = less_printed(list(A), 0.0, 0.0), less_printed(list(A), 0.0, 10.0)
    assert certain.half == pytest.approx(difference(list(A), 0.0, 0.0).half)
    assert certain.mean == vague.mean
    assert vague.half**2 - certain.half**2 == pytest.approx((scipy.stats.t.ppf(0.975, 39) * 10 / math.sqrt(100)) ** 2)

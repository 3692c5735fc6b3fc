"""Encoding of columns: against the plain formulas, in any units, and with weights for repetitions."""

import numpy as np
import pytest

from scax.tables.encode import BINS, LIMIT, Encoding


def _columns(seed=0, rows=400):
    """Heavy tails, a spike at zero, two values, one value, a category's codes with values missing."""
    random = np.random.default_rng(seed)
    spike = np.where(random.random(rows) < 0.7, 0.0, random.normal(size=rows))
    x = np.column_stack(
        [random.standard_t(1, rows), spike, random.random(rows) < 0.2, np.ones(rows), random.integers(0, 3, rows)]
    )
    x[random.random(rows) < 0.1, 4] = np.nan
    return x


LEVELS = (*(np.zeros(0),) * 4, np.arange(3.0))


def test_against_the_formulas():
    x = _columns()
    found = Encoding.of(x, np.ones(len(x)), "bins", LEVELS)
    z = found.apply(x)
    assert z.shape == (len(x), found.widths.sum())
    np.testing.assert_array_equal(found.widths[2:], [1, 1, 4])
    assert found.widths[0] == 1 + BINS
    low, middle, high = np.quantile(x[:, 0], [0.25, 0.5, 0.75], method="inverted_cdf")
    plain = (x[:, 0] - middle) / (high - low)
    np.testing.assert_allclose(z[:, 0], plain / np.sqrt(1 + (plain / LIMIT) ** 2))
    assert np.abs(z[:, 0]).max() < LIMIT
    assert not z[:, found.source == 3].any()
    np.testing.assert_array_equal(
        z[:, found.source == 4], np.column_stack([x[:, 4] == k for k in range(3)] + [np.isnan(x[:, 4])])
    )
    # bins: as many rows in each, rising one after the other, and their sum tells values apart
    bins = z[:, (found.source == 0) & found.is_bin]
    np.testing.assert_allclose((bins > 0.5 - 1e-12).mean(axis=0), 1 - np.arange(1, BINS + 1) / BINS, atol=0.01)
    assert (np.diff(bins, axis=1) <= 1e-12).all()
    assert len(np.unique(bins.sum(axis=1).round(9))) == len(x)
    # the spike fills one bin's end, and the other values have the rest
    assert found.widths[1] > 1 + BINS // 2


@pytest.mark.parametrize("kind", ["standard", "clipped", "bins"])
def test_units_and_repetitions_change_nothing(kind):
    x, times = _columns(), np.random.default_rng(1).integers(0, 3, 400)
    once = Encoding.of(x, np.ones(len(x)), kind, LEVELS)
    units = np.where(np.arange(5) < 4, 1e3, 1.0)
    np.testing.assert_allclose(
        Encoding.of(x * units, np.ones(len(x)), kind, LEVELS).apply(x * units), once.apply(x), atol=1e-9
    )
    weighted, repeated = (
        Encoding.of(x, times * 1.0, kind, LEVELS),
        Encoding.of(x.repeat(times, 0), np.ones(times.sum()), kind, LEVELS),
    )
    np.testing.assert_allclose(weighted.apply(x), repeated.apply(x), atol=1e-9)
    if kind == "standard":
        z = once.apply(x)[:, 0]
        np.testing.assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)


def test_missing_numbers_get_the_middle_and_a_feature():
    x = np.array([[1.0], [2.0], [np.nan], [9.0]])
    z = Encoding.of(x, np.ones(4), "clipped").apply(x)
    assert z.shape == (4, 2)
    np.testing.assert_array_equal(z[2], [0, 1])
    assert np.isfinite(Encoding.of(x * np.nan, np.ones(4), "bins").apply(x)).all()

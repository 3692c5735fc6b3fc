"""The held-out rows: an exact share, the same however the table is cut."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from scax.tables import Split


@hypothesis.given(
    start=st.integers(0, 10**12), cuts=st.lists(st.integers(0, 200), max_size=5), seed=st.integers(0, 2**62)
)
def test_cutting_changes_nothing(start, cuts, seed):
    split = Split(0.15, seed)
    whole = split.held_out(start, sum(cuts))
    edges = start + np.cumsum([0, *cuts])
    parts = [split.held_out(int(e), c) for e, c in zip(edges, cuts, strict=False)]
    np.testing.assert_array_equal(np.concatenate([np.zeros(0, bool), *parts]), whole)


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.25, 0.5, 0.37, 0.01, 0.9])
def test_share_is_exact(fraction):
    held = Split(fraction, 5).held_out(0, 10_000)
    assert held.sum() == round(10_000 * fraction)
    assert (held != Split(fraction, 6).held_out(0, 10_000)).any()
    places = held.reshape(-1, 100).sum(axis=0)  # no place in the group is preferred
    assert abs(places - 100 * fraction).max() < 6 * np.sqrt(100 * fraction * (1 - fraction)) + 1


def test_nothing_held_out_and_refusals():
    assert not Split(0.0).held_out(0, 100).any()
    for fraction in (-0.1, 0.95, float("nan")):
        with pytest.raises(ValueError, match="fraction must be"):
            Split(fraction)
    with pytest.raises(ValueError, match="seed must be"):
        Split(0.1, -1)


def test_every_row_is_in_one_of_the_folds():
    parts = [Split(0.2, seed=3, fold=k, folds=4) for k in (1, 2, 3, 4)]
    tested = np.stack([part.tested(0, 103) for part in parts])
    np.testing.assert_array_equal(tested.sum(axis=0), 1)
    assert max(tested.sum(axis=1)) - min(tested.sum(axis=1)) <= 1
    for part, rows in zip(parts, tested, strict=True):
        held = part.held_out(0, 103)
        assert held[rows].all()
        assert held[~rows].mean() == pytest.approx(0.2, abs=0.06)
        np.testing.assert_array_equal(part.held_out(40, 30), held[40:70])
    with pytest.raises(ValueError, match="fold must be between 1 and 3"):
        Split(0.2, fold=4, folds=3)

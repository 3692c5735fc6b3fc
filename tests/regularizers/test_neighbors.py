"""Neighbors of rows agree with scikit-learn's, with few columns and with many."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from scax.regularizers.manifold import MOST_TREE_COLUMNS, nearest_rows


@pytest.mark.parametrize("columns", [1, MOST_TREE_COLUMNS, MOST_TREE_COLUMNS + 1, 100])
@pytest.mark.parametrize("k", [1, 5])
def test_neighbors(columns, k):
    rows = np.random.default_rng(columns).normal(1e3, 1.0, size=(120, columns))
    distance, index = nearest_rows(rows, k)
    expected, places = NearestNeighbors(n_neighbors=k).fit(rows).kneighbors()
    np.testing.assert_allclose(distance, expected, rtol=1e-9)
    np.testing.assert_array_equal(index, places)


def test_blocks_of_rows_change_nothing(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(50, 20))
    whole = nearest_rows(rows, 3)
    monkeypatch.setattr("scax.regularizers.manifold.BLOCK_SIZE", 300)
    for together, apart in zip(whole, nearest_rows(rows, 3), strict=True):
        np.testing.assert_array_equal(together, apart)


@pytest.mark.parametrize("columns", [4, 20])
@pytest.mark.parametrize("k", [2, 7, 17])
def test_a_row_with_copies_is_not_its_own_neighbor(columns, k):
    rows = np.repeat(np.random.default_rng(0).normal(size=(3, columns)), 6, axis=0)
    distance, index = nearest_rows(rows, k)
    assert not (index == np.arange(18)[:, None]).any()
    assert all(len(set(places)) == k for places in index)
    assert (distance[:, : min(k, 5)] == 0).all()
    assert (distance[:, 5:] > 0).all()

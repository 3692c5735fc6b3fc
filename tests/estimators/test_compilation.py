"""One program for every number of rows up to the next power of two, and for every strength."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from scax.estimators import SCAClassifier, SCARegressor
from scax.training import engine

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def programs():
    """How many programs the training loop has been compiled to since the test began."""
    engine.compiled_many.clear_cache()
    return lambda: engine.compiled_many._cache_size()


def data(n, d, seed=0):
    random = np.random.RandomState(seed)
    x = random.normal(size=(n, d))
    return x, x @ random.normal(size=d) + random.normal(size=n)


def test_rows_features_and_strengths_share_a_program(programs):
    for n, d, alpha, max_iter in [(70, 3, 1e-2, 3), (100, 5, 1e-3, 4), (128, 16, 0.0, 2), (90, 2, 1.0, 40)]:
        SCARegressor(3, alpha=alpha, max_iter=max_iter, damping=0.1 * alpha + 0.01).fit(*data(n, d))
    assert programs() == 1


def test_a_grid_search_over_alpha_compiles_once(programs):
    x, y = data(150, 4)
    grid = {"alpha": [1e-4, 1e-3, 1e-2, 1e-1], "tol": [1e-3, 1e-2], "max_iter": [2, 5]}
    GridSearchCV(SCAClassifier(3), grid, cv=5, refit=False).fit(x, y > 0)
    assert programs() == 1


def test_the_search_for_alpha_shares_the_program_of_the_fit(programs):
    SCARegressor(3).fit(*data(128, 4))
    assert programs() == 1


def test_the_search_by_rows_held_out_does_so_too(programs):
    SCARegressor(3, loss="huber").fit(*data(128, 4))
    assert programs() == 1

"""scikit-learn's own checks, all of them, nothing expected to fail."""

import os
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from scax.estimators import SCAClassifier, SCARegressor, strength

#: Few epochs: the checks are about the interface.
ESTIMATORS = [SCARegressor(max_iter=10), SCAClassifier(max_iter=10)]
if os.environ.get("HYPOTHESIS_PROFILE") == "scax-thorough":
    # The defaults themselves, and one setting far from them: a sparse penalty, another activation and loss, several
    # layers. Minutes of searches and of compilation for many shapes.
    sparse = SCARegressor((4, 4), "relu", loss="huber", penalty="group", alpha=1e-3, max_iter=10)
    ESTIMATORS += [SCARegressor(), SCAClassifier(), sparse]


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_check(estimator, check, monkeypatch):
    # One check asks for 1,000 epochs, which the search for alpha takes at eight strengths, for each part held out.
    monkeypatch.setattr(strength, "MOST_REPEATS", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)

"""scikit-learn's own checks, all of them, nothing expected to fail."""

import os
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from scax.estimators import SCAClassifier, SCARegressor

ESTIMATORS = [SCARegressor(), SCAClassifier()]
if os.environ.get("HYPOTHESIS_PROFILE") == "scax-thorough":
    # Besides the defaults one setting far from them: a sparse penalty, another activation and loss, several layers. Few
    # epochs, since the checks are about the interface; minutes of compilation for its many shapes all the same.
    ESTIMATORS.append(SCARegressor((4, 4), "relu", loss="huber", penalty="group", alpha=1e-3, max_iter=10))


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_check(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)

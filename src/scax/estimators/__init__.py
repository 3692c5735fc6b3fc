"""scikit-learn estimators. Import them by name: `import scax` alone does not load scikit-learn."""

from .._extras import required_by

with required_by("scax.estimators"):
    from .classifier import SCAClassifier as SCAClassifier
    from .regressor import SCARegressor as SCARegressor

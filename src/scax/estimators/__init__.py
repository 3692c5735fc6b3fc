"""scikit-learn estimators. Import them by name: `import scax` alone does not load scikit-learn."""

from .classifier import SCAClassifier as SCAClassifier
from .regressor import SCARegressor as SCARegressor

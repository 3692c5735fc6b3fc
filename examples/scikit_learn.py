"""In a scikit-learn pipeline, beside scikit-learn's own network, with cross-validation and a grid search.

python examples/scikit_learn.py
"""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scax.estimators import SCARegressor

x, y = load_diabetes(return_X_y=True)
common = {"hidden_layer_sizes": (10, 6), "early_stopping": True, "max_iter": 2000, "random_state": 0}

# MLPRegressor does better here with ten times its default learning rate; SCA has none to choose
for model in (SCARegressor(**common), MLPRegressor(**common, learning_rate_init=1e-2)):
    scores = cross_val_score(make_pipeline(StandardScaler(), model), x, y, cv=3)
    print(f"{type(model).__name__}: R² {scores.mean():.3f} ± {scores.std():.3f}")

pipeline = make_pipeline(StandardScaler(), SCARegressor(**common))
search = GridSearchCV(pipeline, {"scaregressor__alpha": [1e-3, 1e-1]}, cv=2).fit(x, y)
best = search.best_estimator_[-1]
print(f"best penalty: alpha = {best.alpha}, R² {search.best_score_:.3f}, {best.n_iter_} epochs")

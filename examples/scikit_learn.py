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
ours = SCARegressor(hidden_layer_sizes=(10, 6), max_iter=40, random_state=0)
theirs = MLPRegressor(hidden_layer_sizes=(10, 6), learning_rate_init=1e-2, max_iter=1000, random_state=0)

for model in (ours, theirs):
    scores = cross_val_score(make_pipeline(StandardScaler(), model), x, y, cv=3)
    print(f"{type(model).__name__}: R² {scores.mean():.3f} ± {scores.std():.3f}, at most {model.max_iter} epochs")

search = GridSearchCV(make_pipeline(StandardScaler(), ours), {"scaregressor__alpha": [1e-3, 1e-1]}, cv=2)
search.fit(x, y)
print(f"best penalty: alpha = {search.best_params_['scaregressor__alpha']}, R² {search.best_score_:.3f}")

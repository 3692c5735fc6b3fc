# %% [markdown]
# # Regression on a table
#
# We predict how diabetes progressed in 442 patients from ten measurements, see how good that is, and which measurements it rests on.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import train_test_split

from scax.estimators import SCARegressor

data = load_diabetes(scaled=False)
x, x_test, y, y_test = train_test_split(data.data, data.target, random_state=0)

# %% [markdown]
# Inputs need no scaling and nothing has to be chosen: the network's size follows the table, and the strengths of its
# penalty, one for every column, are found by the evidence, without holding rows out. `recipe_` and `alpha_` keep what was chosen.

# %%
model = SCARegressor(random_state=0).fit(x, y)
print(model.recipe_)
print(f"alpha = {model.alpha_:.3g} after {model.n_iter_} epochs")

# %% [markdown]
# A score means little by itself. Compare it with the mean, which every model must beat, and with a linear model, which a network
# should.

# %%
linear = LinearRegression().fit(x, y)
for name, guess in {
    "mean": np.full_like(y_test, y.mean()),
    "linear": linear.predict(x_test),
    "scax": model.predict(x_test),
}.items():
    print(f"{name:7} R² {r2_score(y_test, guess):5.2f}   mean absolute error {mean_absolute_error(y_test, guess):5.1f}")

# %% [markdown]
# On 442 noisy rows the network gains little over the linear model. Look at the errors before you trust any number: they should
# scatter about zero without a pattern.

# %%
guess = model.predict(x_test)
fig, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.1))
left.plot([50, 320], [50, 320], color="#010205", linewidth=1)
left.scatter(y_test, guess, s=12)
left.set(xlabel="true progression", ylabel="predicted")
right.axhline(0, color="#010205", linewidth=1)
right.scatter(guess, y_test - guess, s=12)
right.set(xlabel="predicted", ylabel="true − predicted")
# %% [markdown]
# Which measurements matter? Shuffle one column at a time and see by how much the error rises.

# %%
from sklearn.inspection import permutation_importance

found = permutation_importance(
    model, x_test, y_test, scoring="neg_root_mean_squared_error", n_repeats=10, random_state=0
)
order = np.argsort(found.importances_mean)
fig, ax = plt.subplots(figsize=(5, 3))
ax.barh([data.feature_names[i] for i in order], found.importances_mean[order])
ax.set(xlabel="rise of the root mean squared error")

# %% [markdown]
# `scax train diabetes` does all of this in the terminal, and `scax report` draws it. Next: [error bars](error-bars.md) for each prediction, a
# [sparse network](sparse.md) that drops the columns it does not need, [all options](../reference/estimators.md).

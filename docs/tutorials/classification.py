# %% [markdown]
# # Classification
#
# We tell benign from malignant tumors by thirty measurements of cell nuclei, and look at where the network is unsure.

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score, roc_curve
from sklearn.model_selection import train_test_split

from scax.estimators import SCAClassifier

data = load_breast_cancer()
labels = data.target_names[data.target]  # labels may be text
x, x_test, y, y_test = train_test_split(data.data, labels, stratify=labels, test_size=0.4, random_state=1)
model = SCAClassifier(random_state=0).fit(x, y)
print(model.classes_, f"accuracy {model.score(x_test, y_test):.3f}")

# %% [markdown]
# Accuracy hides which errors are made. Balanced accuracy weighs both classes alike, the log loss asks whether probabilities can
# be trusted, and the area under the ROC curve whether the order is right. The base rate stands beside them.

# %%
malignant = (y_test == "malignant").astype(int)
share = model.predict_proba(x_test)[:, list(model.classes_).index("malignant")]
base = np.full(len(malignant), (y == "malignant").mean())
for name, p in {"base rate": base, "scax": share}.items():
    print(
        f"{name:10} balanced accuracy {balanced_accuracy_score(malignant, p > 0.5):.3f}   "
        f"log loss {log_loss(malignant, p):.3f}   AUC {roc_auc_score(malignant, p):.3f}"
    )

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.0))
left.step(*roc_curve(malignant, share)[:2], where="post")
left.set(xlabel="false positive rate", ylabel="true positive rate")
edges = np.linspace(0, 1, 21)
for value, name in ((0, "benign"), (1, "malignant")):
    right.hist(share[malignant == value], edges, alpha=0.7, label=name)
right.set(xlabel="predicted probability of malignant", ylabel="patients", yscale="log")
right.legend(loc="upper center")
# %% [markdown]
# Missing a malignant tumor is worse than a false alarm. Two remedies: weight the classes in training, or move the
# threshold afterwards, which needs no second fit.

# %%
weighted = SCAClassifier(class_weight={"malignant": 5, "benign": 1}, random_state=0).fit(x, y)
for name, wrong in {
    "as trained": model.predict(x_test) != y_test,
    "weighted 5 : 1": weighted.predict(x_test) != y_test,
    "threshold 0.2": (share > 0.2) != malignant,
}.items():
    missed, alarms = wrong[malignant == 1].sum(), wrong[malignant == 0].sum()
    print(f"{name:14} missed {missed:2} of {malignant.sum()}, false alarms {alarms:2} of {(1 - malignant).sum()}")

# %% [markdown]
# Where training rows are nearly all predicted right, as here, weights change little; the threshold trades missed tumors for false
# alarms.
#
# More classes need nothing new: `SCAClassifier` takes any labels. In JAX: [losses for labels](../guides/classification.md).

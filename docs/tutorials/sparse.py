# %% [markdown]
# # A sparse network that names its inputs
#
# Of twelve inputs three matter. We let the network find out which, and keep a small network of them.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import scax

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 12)).astype("float32")
signal = 1.5 * np.tanh(2 * x[:, 2]) + x[:, 5] - 0.5 * np.abs(x[:, 8])
y = (signal + 0.1 * rng.normal(size=600)).astype("float32")[:, None]
train, held_out = (x[:400], y[:400]), (x[400:], y[400:])

# %% [markdown]
# A **group lasso** on neurons pulls all weights that leave a neuron, or an input, to zero together. Its strength is not known, so train
# with several, from weak to strong, each from where the last one ended.

# %%
net = scax.MLP((12, 12, 1))
params = net.init(jax.random.key(0))
penalty = scax.GroupLasso(1.0, scax.neuron_groups(params)) + scax.L2(1e-5)
problem = scax.Problem(net.apply, scax.Squared(), penalty)
strengths = np.geomspace(3e-3, 1e-1, 5)
path = scax.path(problem, strengths, params=params, data=train, validation=held_out, steps=150)
for i, s in enumerate(path.strengths):
    mark = " ← suggested" if i == path.suggested else " ← best" if i == path.best else ""
    inputs = np.flatnonzero(np.any(np.asarray(path.params[i][0]["weight"]) != 0, axis=1))
    print(f"strength {s:.1e}: held-out loss {path.loss[i]:.4f}, {path.neurons[i]:2} neurons, inputs {inputs}{mark}")

# %%
fig, ax = plt.subplots()
ax.errorbar(path.weights, path.loss, path.error, marker="o")
ax.plot(path.weights[path.suggested], path.loss[path.suggested], "o", markersize=10)
ax.set(xlabel="weights that are not zero", ylabel="loss on rows held out", yscale="log")
# %% [markdown]
# The suggested network is the strongest that those rows cannot tell from the best. `compact` leaves out all that is zero, and
# the smaller network predicts the same.

# %%
small = scax.compact(net, path.solution)
print(small)
print("inputs it uses:", small.inputs)
gap = np.abs(small.apply(x) - net.apply(path.solution, x)).max()
print(f"largest difference of their predictions: {gap:.1e}")

# %% [markdown]
# A penalty also shrinks what it keeps. `refit` trains the weights that are left once more without it.

# %%
loss = lambda p: float(np.mean((net.apply(p, held_out[0]) - held_out[1]) ** 2))
again = scax.refit(problem, path.solution, train, steps=500)
print(f"held-out loss: {loss(path.solution):.4f}, after the refit {loss(again):.4f}; noise alone is 0.0100")

# %% [markdown]
# Fewer weights rather than fewer neurons: `scax.LogSum` or `scax.L1`. Which, and why: [Sparse networks](../guides/sparse.md).

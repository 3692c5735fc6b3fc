# %% [markdown]
# # A sparse network that names its inputs
#
# Of twelve inputs three matter: 2, 5 and 8. We let the network drop what it does not need, and make a smaller one of the rest.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import scax

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 12)).astype("float32")
signal = 1.5 * np.tanh(2 * x[:, 2]) + x[:, 5] - np.tanh(3 * x[:, 8])
y = (signal + 0.1 * rng.normal(size=600)).astype("float32")[:, None]
train, held_out = (x[:400], y[:400]), (x[400:], y[400:])

# %% [markdown]
# A **log penalty** on groups pulls all weights that leave a neuron, or an input, to zero together, and hardly shrinks those it
# keeps. Its strength is not known, so train with several, from weak to strong, each from where the last one ended.

# %%
net = scax.MLP((12, 12, 1))
params = net.init(jax.random.key(0))
penalty = scax.LogSum(1.0, scax.neuron_groups(params)) + scax.L2(1e-5)
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
ax.set(xlabel="weights that are not zero", ylabel="held-out loss", yscale="log")
# %% [markdown]
# `path.suggested` is cautious: the strongest strength whose held-out loss is within one standard error of the best. Fewer inputs
# cost some error. We take the strongest strength with at most twice the lowest loss. `compact` leaves out everything that is zero,
# and the smaller network predicts the same.

# %%
chosen = path.params[int(np.flatnonzero(path.loss < 2 * path.loss.min())[-1])]
small = scax.compact(net, chosen)
print(small)
print("inputs it uses:", small.inputs)
gap = np.abs(small.apply(x) - net.apply(chosen, x)).max()
print(f"largest difference of their predictions: {gap:.1e}")

# %% [markdown]
# `refit` trains the remaining weights once more, with a ridge alone. Held-out rows show whether that helps.

# %%
loss = lambda p: float(np.mean((net.apply(p, held_out[0]) - held_out[1]) ** 2))
again = scax.refit(problem, chosen, train, steps=500)
print(f"held-out loss: {loss(chosen):.4f}, after the refit {loss(again):.4f}; noise alone is 0.0100")

# %% [markdown]
# Fewer weights rather than fewer neurons: the same without groups, or `scax.L1`. Which, and why: [Sparse networks](../guides/sparse.md).

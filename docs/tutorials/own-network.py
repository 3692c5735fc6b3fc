# %% [markdown]
# # Your own network
#
# Any pure function of parameters and rows will do. We fit a model of an oscillator whose parameters mean something, then a small
# convolution, and ask how scax reads each.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import scax

rng = np.random.default_rng(0)
t = np.sort(rng.uniform(0, 8, 300))[:, None]
y = (1.8 * np.exp(-0.3 * t) * np.cos(2.5 * t + 0.4) + 0.05 * rng.normal(size=t.shape))[:, 0]


def swing(params, t):
    """A physical model: a pytree of four numbers."""
    decay = jnp.exp(-params["damping"] * t[:, 0])
    return params["amplitude"] * decay * jnp.cos(params["frequency"] * t[:, 0] + params["phase"])


guess = {"amplitude": 1.0, "damping": 0.1, "frequency": 2.2, "phase": 0.0}
guess = jax.tree.map(jnp.asarray, guess)
problem = scax.Problem(swing, scax.Squared(), scax.L2(0.0))
result = scax.train(scax.SCA(problem), guess, (t, y), steps=100, batch_size=None)
print(result.status, {name: round(float(value), 3) for name, value in result.params.items()})

# %% [markdown]
# Two rules: the function is **pure** (no dropout, no state that changes), and each row's output depends on **that row** and the parameters.
# Outputs are `[rows]` or `[rows, k]`, raw: the loss knows about logits.
#
# The posterior works for it too, so the fit comes with error bars:

# %%
post = scax.posterior(problem, result.params, (t, y), ridge=1e-6)
mean, std = post.predict(t)
fig, ax = plt.subplots()
ax.plot(t, y, ".", color="#010205", markersize=3)
ax.plot(t, np.ravel(mean))
ax.fill_between(t[:, 0], np.ravel(mean - 3 * std), np.ravel(mean + 3 * std), alpha=0.3)
ax.set(xlabel="t", ylabel="y")
# %% [markdown]
# ## Layers
#
# Write layers in plain `jax.numpy` or with `jax.lax`. Here: a convolution over windows of a signal, then a dense layer.

# %%
windows = rng.normal(size=(600, 32, 1)).astype("float32")
energy = np.log(np.sum(np.diff(windows[:, :, 0]) ** 2, axis=1, keepdims=True) / 31).astype("float32")


def network(params, x):
    h = jax.lax.conv_general_dilated(x, params["kernel"], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    h = jnp.mean(jnp.tanh(h + params["shift"]) ** 2, axis=1)
    return jnp.tanh(h @ params["dense"] + params["bias"]) @ params["out"]


keys = jax.random.split(jax.random.key(0), 3)
params = {
    "kernel": 0.5 * jax.random.normal(keys[0], (3, 1, 6)),
    "shift": jnp.zeros(6),
    "dense": 0.5 * jax.random.normal(keys[1], (6, 8)),
    "bias": jnp.zeros(8),
    "out": 0.5 * jax.random.normal(keys[2], (8, 1)),
}
problem = scax.Problem(network, scax.Squared(), scax.L2(1e-5))
sca = scax.SCA(problem)
print(sca.explain(params, windows[:32]))

# %%
result = scax.train(sca, params, (windows[:500], energy[:500]), steps=150, validation=(windows[500:], energy[500:]))
print(f"validation loss {result.history['validation_loss'][-1]:.4f}; variance of the target {energy.var():.4f}")

# %% [markdown]
# ## Freezing a part
#
# `trainable` is a tree of True and False over the parameters. The others keep their values.

# %%
mask = {name: name not in ("kernel", "shift") for name in params}
frozen = scax.Problem(network, scax.Squared(), scax.L2(1e-5), trainable=mask)
result = scax.train(scax.SCA(frozen), params, (windows[:500], energy[:500]), steps=150)
print("kernel unchanged:", bool(jnp.all(result.params["kernel"] == params["kernel"])))

# %% [markdown]
# Networks of Flax, Equinox and PyTorch take one line: [Your own network](../guides/networks.md).

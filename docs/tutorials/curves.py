# %% [markdown]
# # Reading a run's curves
#
# A run that goes wrong leaves signs in its history. We make four runs, three of them wrong in a common way, and read them.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import scax

rng = np.random.default_rng(0)
x = rng.normal(size=(320, 8)).astype("float32")
y = (np.tanh(x[:, 0] + x[:, 1] * x[:, 2]) + 0.2 * rng.normal(size=320)).astype("float32")[:, None]
train, held_out = (x[:120], y[:120]), (x[120:], y[120:])
net = scax.MLP((8, 24, 1))


def run(strength=1e-3, steps=400, data=train, check=held_out, **options):
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(strength))
    params = net.init(jax.random.key(0))
    return scax.train(scax.SCA(problem, **options), params, data, steps=steps, validation=check, key=jax.random.key(1))


def show(result, title):
    history = result.history
    fig, (left, right) = plt.subplots(1, 2, figsize=(7.6, 2.7))
    left.plot(history["step"], history["objective"], label="objective, training rows")
    left.plot(history["step"], history["validation_loss"], label="held-out loss")
    left.set(xscale="log", yscale="log", xlabel="step", title=title)
    left.legend(fontsize=8)
    right.plot(history["step"], history["damping"], label="damping τ")
    right.plot(history["step"], np.maximum(history["accepted"], 1e-3), label="share of steps taken")
    right.set(xscale="log", yscale="log", xlabel="step")
    right.legend(fontsize=8)


# %% [markdown]
# ## A good run
#
# Both curves fall and flatten together, nearly every step is taken, the damping grows slowly.

# %%
show(run(0.02), "good")

# %% [markdown]
# ## Overfitting
#
# The training curve goes on falling while the held-out one turns up: 241 weights memorize 120 rows. **Do**: a stronger
# penalty (`SCARegressor` and `--strength auto` look for it), stop early, or a smaller network.

# %%
result = run(1e-6)
show(result, "overfitting")
best = int(np.argmin(result.history["validation_loss"]))
print(f"lowest held-out loss at step {result.history['step'][best]:.0f}, {result.history['validation_loss'][best]:.3f}")
print(f"at the end {result.history['validation_loss'][-1]:.3f}")

# %% [markdown]
# ## Inputs that were not standardized
#
# A tanh unit fed with thousands is saturated, and its slope is nearly zero. Both curves stop falling after some hundred steps, the
# held-out loss at about three times that of the good run, and the damping is far larger. **Do**: standardize inputs, and the
# targets of a regression.

# %%
raw = run(data=(1000 * train[0], train[1]), check=(1000 * held_out[0], held_out[1]))
show(raw, "inputs of size 1000")

# %% [markdown]
# ## A damping that is too small
#
# Each step fits its own batch and nothing else: about half of the steps are refused, the objective is jagged, and the held-out loss
# hardly falls. **Do**: leave `damping` out, or raise it. The status says what happened.

# %%
wild = run(0.0, damping=1e-7, step_size=scax.Constant(1.0), carry=0.0)
show(wild, "damping 1e-7")
state, info = scax.SCA(
    scax.Problem(net.apply, scax.Squared(), scax.L2(0.0)), damping=1e-7, step_size=scax.Constant(1.0), carry=0.0
).step(wild.state, (x[:20], y[:20]))
status = scax.Status(int(info.status))
print(status.name, "–", status.message)
print(status.remedy)

# %% [markdown]
# What each column of the history means: [Choosing and changing rules](../guides/rules.md).

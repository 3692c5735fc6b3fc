# %% [markdown]
# # Many seeds at once
#
# One run is an anecdote. We train twelve from different starts in one compiled program, and compare two methods in pairs.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
import optax

import scax

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, size=(800, 6)).astype("float32")
y = (np.sin(3 * x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=800)).astype("float32")[:, None]
train, held_out = (x[:600], y[:600]), (x[600:], y[600:])

net = scax.MLP((6, 12, 1))
problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-4))
keys = jax.random.split(jax.random.key(0), 12)
run = lambda method: scax.train_many(
    method, net.init, train, keys=keys, steps=200, batch_size=32, validation=held_out, records=20
)

sca = run(scax.SCA(problem))
{name: values.shape for name, values in sca.history.items() if name in ("step", "validation_loss")}

# %% [markdown]
# Every array has one entry per run: parameters a leading axis, the history a trailing one. Runs with the same key start alike and see the
# same batches, so methods can be compared in pairs.

# %%
rates = (3e-3, 1e-2, 3e-2)
adams = [run(scax.baseline(optax.adam(rate), problem)) for rate in rates]
last = lambda result: result.history["validation_loss"][-1]
adam = min(adams, key=lambda result: last(result).mean())
fig, ax = plt.subplots()
for result, name in ((sca, "SCA, defaults"), (adam, "Adam, best of three rates")):
    steps, loss = np.asarray(result.history["step"]), np.asarray(result.history["validation_loss"])
    steps = steps if steps.ndim == 1 else steps[:, 0]
    ax.fill_between(steps, np.quantile(loss, 0.1, axis=1), np.quantile(loss, 0.9, axis=1), alpha=0.25)
    ax.plot(steps, np.median(loss, axis=1), label=name)
ax.set(xscale="log", yscale="log", xlabel="step", ylabel="validation loss")
ax.legend()
# %%
difference = np.asarray(last(adam) - last(sca))
half = 2.2 * difference.std(ddof=1) / np.sqrt(len(difference))  # Student's t, 11 degrees of freedom
print(f"SCA   {last(sca).mean():.4f} ± {last(sca).std():.4f} over starts")
print(f"Adam  {last(adam).mean():.4f} ± {last(adam).std():.4f}")
print(f"paired: Adam's loss is higher by {difference.mean():+.4f} ± {half:.4f}")

# %% [markdown]
# `method` may also be a list with one method per run, as long as they differ in numbers only: a sweep over strengths in one
# program.

# %%
strengths = np.geomspace(1e-6, 1e-1, 12)
sweep = [scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(float(s)))) for s in strengths]
found = run(sweep)
best = int(np.argmin(last(found)))
print(f"best strength {strengths[best]:.1e}, validation loss {last(found)[best]:.4f}")

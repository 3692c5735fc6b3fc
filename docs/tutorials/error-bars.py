# %% [markdown]
# # Error bars
#
# A network gives a number wherever you ask for one. Error bars say how far to trust it: how uncertain the function is where rows are
# missing, and how large the noise is.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import scax

jax.config.update("jax_enable_x64", True)  # error bars belong to a minimum, and float64 comes closer to it
rng = np.random.default_rng(1)
x = np.concatenate([rng.uniform(-2, -0.4, 40), rng.uniform(0.7, 2, 40)])[:, None]
y = np.sin(2 * x[:, 0]) + 0.15 * rng.normal(size=80)

net = scax.MLP((1, 20, 1))
problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-4))
result = scax.train(scax.SCA(problem), net.init(jax.random.key(0)), (x, y), steps=1000, batch_size=None)
result.status

# %% [markdown]
# The posterior is the Gaussian around the trained weights that the linearized network and its rows imply: one linear system, no
# second training. It belongs to a minimum, which is why all rows are in every step; a warning says where training stopped too early.

# %%
post = scax.posterior(problem, result.params, (x, y))
print(post.explain())
print(f"noise {post.noise:.3f} (true: 0.15), {post.effective_weights:.1f} of 61 weights in use")

# %%
new = np.linspace(-2.6, 2.6, 200)[:, None]
mean, of_f = post.predict(new)
of_y = post.predict(new, noise=True)[1]
mean, of_f, of_y = mean.ravel(), of_f.ravel(), of_y.ravel()
fig, ax = plt.subplots()
ax.fill_between(new[:, 0], mean - 2 * of_y, mean + 2 * of_y, alpha=0.15, label="±2 std of y: with noise")
ax.fill_between(new[:, 0], mean - 2 * of_f, mean + 2 * of_f, alpha=0.35, label="±2 std of the function")
ax.plot(new[:, 0], mean, label="network")
ax.plot(new[:, 0], np.sin(2 * new[:, 0]), "--", label="truth")
ax.plot(x[:, 0], y, ".", color="#010203", markersize=4)
ax.set(ylim=(-2.6, 2.6), xlabel="x", ylabel="y")
ax.legend(ncols=2, fontsize=8, loc="lower center")
# %% [markdown]
# Where rows are dense, only the noise remains. In the gap, and beyond the rows, the function itself is uncertain.
#
# `predict_interval` gives bounds for a share of new targets, corrected by leave-one-out residuals of the training rows. With 80 rows
# the shares come near, but are not exact:

# %%
fresh = rng.choice(x[:, 0], 500)[:, None] + 0.05 * rng.normal(size=(500, 1))
targets = np.sin(2 * fresh[:, 0]) + 0.15 * rng.normal(size=500)
for coverage in (0.5, 0.8, 0.95):
    low, high = np.asarray(post.predict_interval(fresh, coverage)).reshape(500, 2).T
    print(f"asked for {coverage:.0%}: {np.mean((low <= targets) & (targets <= high)):.0%} of 500 new rows inside")

# %% [markdown]
# ## Choosing the penalty without held-out rows
#
# The evidence says how probable the rows are under each strength of the penalty, so the strength can be found on the training rows
# alone.

# %%
strengths, evidence = np.geomspace(1e-5, 1e-2, 4), []
for s in strengths:
    each = scax.Problem(net.apply, scax.Squared(), scax.L2(float(s)))
    found = scax.train(scax.SCA(each), net.init(jax.random.key(0)), (x, y), steps=1000, batch_size=None)
    evidence.append(scax.posterior(each, found.params, (x, y)).evidence)
    print(f"λ = {s:.0e}: log evidence {evidence[-1]:6.1f}")

# %% [markdown]
# `scax.train_by_evidence` maximizes it while it trains. From a table, and in scikit-learn: [Error bars](../guides/uncertainty.md).

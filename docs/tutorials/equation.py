# %% [markdown]
# # A differential equation
#
# We solve the equation of a damped oscillator, then the Poisson equation in two dimensions. Each has a loss on a residual and a loss
# on boundary conditions.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import scax

jax.config.update("jax_enable_x64", True)  # before the first array

net = scax.MLP((1, 12, 1))


def residual(params, t):
    """u″ + 0.4 u′ + 4 u, at every row of t."""
    u = lambda point: net.apply(params, point[None])[0, 0]
    velocity = jax.vmap(scax.operators.grad(u))(t)[:, 0]
    return jax.vmap(scax.operators.laplacian(u))(t) + 0.4 * velocity + 4 * jax.vmap(u)(t)


def start(params, t):
    """u and u′ at the beginning."""
    u = lambda point: net.apply(params, point[None])[0, 0]
    return jnp.stack([jax.vmap(u)(t), jax.vmap(scax.operators.grad(u))(t)[:, 0]], 1)


# %% [markdown]
# Each term has rows of its own: 40 times for the equation, a single one for the start, u(0) = 1 and u′(0) = 0. With
# `batch_size=None` all of them are in every step, and the rules are Levenberg–Marquardt's.

# %%
times = np.linspace(0, 6, 40)[:, None]
problem = scax.Problem({"equation": scax.Term(residual), "start": scax.Term(start, weight=10.0)}, scax.L2(0.0))
data = {"equation": times, "start": (np.zeros((1, 1)), np.array([[1.0, 0.0]]))}
result = scax.train(scax.SCA(problem), net.init(jax.random.key(0)), data, steps=200, batch_size=None)

rate = np.sqrt(4 - 0.2**2)
exact = np.exp(-0.2 * times) * (np.cos(rate * times) + 0.2 / rate * np.sin(rate * times))
error = np.abs(net.apply(result.params, times) - exact)
print(f"{result.status} after {result.steps} steps; largest error {error.max():.1e}")

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.0))
left.plot(times, exact, label="exact")
left.plot(times, net.apply(result.params, times), "--", label="network")
left.set(xlabel="t", ylabel="u")
left.legend()
right.semilogy(result.history["step"], result.history["equation"], label="equation")
right.semilogy(result.history["step"], np.maximum(result.history["start"], 1e-30), label="start")
right.set(xlabel="step", ylabel="loss of the term")
right.legend()
# %% [markdown]
# ## Two dimensions
#
# −Δu = f on the unit square, u = 0 on its edge. Points are now **drawn anew** at every step, by functions of a key: there is no
# grid to overfit. (80 steps, for a quick look; `examples/poisson.py` goes further.)

# %%
square = scax.MLP((2, 12, 12, 1))
truth = lambda x: jnp.prod(jnp.sin(jnp.pi * x), axis=-1)


def poisson(params, x):
    u = lambda point: square.apply(params, point[None])[0, 0]
    return jax.vmap(scax.operators.laplacian(u))(x) + 2 * jnp.pi**2 * truth(x)


def edge(key):
    along, side = jax.random.uniform(key, (40,)), jnp.arange(40) % 4
    low = (side % 2).astype(float)
    return jnp.where((side < 2)[:, None], jnp.stack([along, low], 1), jnp.stack([low, along], 1))


terms = {"equation": scax.Term(poisson), "edge": scax.Term(square.apply, weight=10.0)}
draws = {"equation": lambda key: jax.random.uniform(key, (80, 2)), "edge": edge}
params = square.init(jax.random.key(0))
result = scax.train(scax.SCA(scax.Problem(terms, scax.L2(0.0))), params, draws, steps=80)

axis = np.linspace(0, 1, 41)
grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
guess = np.asarray(square.apply(result.params, grid)[:, 0])
print(f"relative error {np.linalg.norm(guess - truth(grid)) / np.linalg.norm(truth(grid)):.1e}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.0), sharey=True)
for ax, z, title in zip(axes, (guess, np.abs(guess - truth(grid))), ("u", "error"), strict=True):
    levels = np.linspace(0, z.max(), 8)
    drawn = ax.contour(axis, axis, z.reshape(41, 41), levels[1:-1], colors="#020301", linestyles="solid", linewidths=1)
    ax.clabel(drawn, fmt="%.1g", fontsize=8)
    ax.set(title=title, aspect="equal")

# %% [markdown]
# Balanced weights, inverse problems and measurements: [Physics](../guides/physics.md).

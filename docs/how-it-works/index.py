# %% [markdown]
# # How it works
#
# A network is hard to minimize because it is curved. A loss is easy: it is convex. scax keeps the loss and straightens the
# network, one step at a time. Three pictures show the rest.
#
# ## 1. Straighten the network, keep the loss
#
# Here is a network with a single weight *w*. At the current weight *w*₀ its output has a tangent (left). Put the tangent in
# place of the network, leave the loss as it is, and what has to be minimized becomes a bowl with one bottom (right). Near
# *w*₀ bowl and loss agree; far away they need not. So a spring, the **damping**, holds the step back.

# %% hidden
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import scax

f = lambda w: np.tanh(1.4 * w) + 0.25 * w
slope = lambda w: 1.4 / np.cosh(1.4 * w) ** 2 + 0.25
w0, y, tau = -0.2, 1.0, 0.25
w = np.linspace(-1.6, 2.4, 300)
tangent = f(w0) + slope(w0) * (w - w0)
objective = lambda z, w: (y - z) ** 2 + 0.02 * w**2
bowl = objective(tangent, w) + tau * (w - w0) ** 2
step = w[np.argmin(bowl)]

fig, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.0))
left.plot(w, f(w), label="network")
left.plot(w, tangent, "--", label="its tangent at w₀")
left.axhline(y, color="#010205", linewidth=1)
left.text(-1.5, y + 0.08, "target")
left.plot(w0, f(w0), "o")
left.set(xlabel="weight w", ylabel="output", ylim=(-1.7, 2.2))
left.legend(loc="lower right")
right.plot(w, objective(f(w), w))
right.plot(w, bowl, "--")
right.text(2.35, -0.4, "loss of the network", color="#020300", ha="right")
right.text(0.55, 3.2, "loss of the tangent\n+ damping", color="#020301", ha="center")
right.plot(w0, objective(f(w0), w0), "o", color="#020302")
right.plot(step, bowl.min(), "o", color="#020301", markersize=8)
right.annotate("", (step, -0.3), (w0, -0.3), arrowprops={"arrowstyle": "->", "color": "#020301"})
right.text(w0 - 0.1, -0.4, "the step", ha="right")
right.set(xlabel="weight w", ylabel="objective", xlim=(-1.6, 2.4), ylim=(-0.6, 4))
# %% [markdown]
# Adam and SGD use the slope at *w*₀ alone, which does not say how far to go: that is the learning rate. The bowl has a bottom,
# which gives the length of the step.
#
# ## 2. All weights at once
#
# Weights act together. Where the objective is a narrow valley, a method that knows slopes alone zigzags or
# creeps. The tangent knows how the output depends on *all* weights, so the bowl has the valley's shape, and the step goes along
# it. Both runs below start at the same point and take 12 steps; Adam's learning rate is the best of eight.

# %% hidden
x = np.linspace(-2, 2, 40)[:, None]
target = 1.5 * np.tanh(0.7 * x)


def apply(params, x):
    return params[0] * jnp.tanh(params[1] * x)


problem = scax.Problem(apply, scax.Squared(), scax.L2(0.0))
start = jnp.array([0.35, 2.2])


def path(method, steps=12):
    state, out = method.init(start), [start]
    for _ in range(steps):
        state, _ = method.step(state, (x, target))
        out.append(method.solution(state))
    return np.array(out)


rates = (0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 1.0)
value = lambda w: float(problem.objective(jnp.asarray(w), x, target))
adam = min((path(scax.baseline(optax.adam(rate), problem)) for rate in rates), key=lambda p: value(p[-1]))
sca = path(scax.SCA(problem, step_size=scax.Constant(1.0), carry=0.0, damping=0.02, mean_power=None))
a, b = np.meshgrid(np.linspace(0, 3.2, 90), np.linspace(0.1, 3.2, 90))
surface = np.mean((target[:, 0] - a[..., None] * np.tanh(b[..., None] * x[:, 0])) ** 2, -1)
fig, ax = plt.subplots(figsize=(7.6, 4.2))
ax.contour(a, b, np.log10(surface + 1e-5), 14, colors="#010204", linewidths=0.8, linestyles="solid")
for each, name in ((sca, "SCA"), (adam, "Adam, tuned")):
    ax.plot(*each.T, "o-", markersize=4, label=f"{name}: objective {value(each[-1]):.1e}")
ax.plot(1.5, 0.7, "*", color="#010203", markersize=11)
ax.set(xlabel="first weight", ylabel="second weight", xlim=(0, 3.2), ylim=(0.1, 3.2))
ax.legend(loc="upper right")

# %% [markdown]
# ## 3. Mini-batches
#
# Each step sees a few rows, and a bowl made of 32 rows is a poor picture of 10,000. Three rules average out the
# noise: the damping holds back the step, part of the last step is carried over, and the solution is an average over the last
# part of the run. A step that makes its own batch worse is not taken.
#
# ![Objective against iterations and seconds for SCA and six tuned optimizers](../images/compare-diabetes.svg)
#
# A step takes longer than one of Adam's, two to seven times as long for a regression. A run needs far fewer of them, and no
# learning rate. When that pays, and when not: [Which tool when](../guides/which-tool.md).
#
# ## In one formula
#
# With *f* the network, *J* its Jacobian on the rows of the batch, *l* the loss, *R* the penalty and δ the step:
#
#     minimize over δ    average of l(y, f + Jδ)  +  R(w + δ)  +  τ‖δ‖²
#     then               w ← w + αδ
#
# Next: [the algorithm in full](algorithm.md), [how the minimum is found](solvers.md),
# [how τ and α adapt](rules.md), [where the paper slips](paper.md).

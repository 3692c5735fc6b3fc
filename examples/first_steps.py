"""A network, a problem, a method: train it, then look at one step. Needs nothing but scax.

python examples/first_steps.py
"""

import jax
import numpy as np

import scax

# y = sin of a projection, with noise: 500 rows of 5 features
rng = np.random.default_rng(0)
x = rng.normal(size=(500, 5)).astype("float32")
y = np.sin(x @ np.array([1, -1, 0.5, 0, 0])).astype("float32") + 0.1 * rng.normal(size=500).astype("float32")
x_train, y_train, x_test, y_test = x[:400], y[:400], x[400:], y[400:]

net = scax.MLP((5, 16, 16, 1), activation="tanh")
problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
sca = scax.SCA(problem)  # step size, damping, solver: all have defaults that look after themselves
params = net.init(jax.random.key(0))
print(sca.explain(params, x_train[:20]))

result = scax.train(sca, params, (x_train, y_train), steps=300, batch_size=20, validation=(x_test, y_test))
print(f"objective {problem.objective(params, x_train, y_train):.3f} → {result.history['objective'][-1]:.3f}")
prediction = net.apply(result.params, x_test)[:, 0]
print(f"RMSE on rows not seen: {float(np.sqrt(np.mean((prediction - y_test) ** 2))):.3f} (noise: 0.1)")

# the same, one step at a time: for loops of your own
state = sca.init(params)
for start in range(0, 400, 20):
    state, info = sca.step(state, (x_train[start : start + 20], y_train[start : start + 20]))
print(f"after one pass: batch loss {info.loss:.3f}, damping {info.damping:.2g}, last step taken: {bool(info.accepted)}")

"""A convolutional network that ends with fewer channels, and says which of six sensors it listens to.

python examples/sparse_convolutions.py
"""

import jax
import jax.numpy as jnp
import numpy as np

import scax

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 450).astype("float32")
x = 0.3 * rng.normal(size=(450, 24, 6)).astype("float32")  # [rows, time, sensors]
for row, high in zip(x, y, strict=True):  # a short tone at sensor 2, high or low: that is the question
    start, phase = rng.integers(0, 12), rng.uniform(0, 2 * np.pi)
    row[start : start + 12, 2] += np.sin((1.6 if high else 0.8) * np.arange(12) + phase)


def apply(params, x):
    """Two convolutions with pooling, the mean over time, a dense layer. Every size comes from params or x."""
    for kernel, bias in params["convolutions"]:
        x = jax.lax.conv_general_dilated(x, kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
        x = jax.nn.relu(x + bias)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 1), (1, 2, 1), "VALID")
    return x.mean(axis=1) @ params["out"] + params["shift"]


draw = lambda *shape: jnp.asarray(rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1])), jnp.float32)
convolutions = [(draw(5, 6, 10), jnp.zeros(10)), (draw(5, 10, 10), jnp.zeros(10))]
params = {"convolutions": convolutions, "out": draw(10, 1), "shift": jnp.zeros(1)}
# a group is what leaves a channel, or a sensor
penalty = scax.GroupLasso(3e-3, scax.neuron_groups(params))
sca = scax.SCA(scax.Problem(apply, scax.Logistic(), penalty))
params = scax.train(sca, params, (x[:250], y[:250]), steps=60, batch_size=20).params

small = scax.compact(apply, params, x[:8])
print(small)
right = np.mean((small.apply(x[250:])[:, 0] > 0) == y[250:])
print(f"sensors it listens to: {', '.join(map(str, small.inputs))}; {right:.1%} of 200 signals not heard are right")
print(f"largest difference of outputs: {np.abs(small.apply(x) - apply(params, x)).max():.1e}")

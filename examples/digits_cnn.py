"""A convolutional network on scikit-learn's 8×8 digits 0 to 4, in plain JAX: any pure f(params, x) trains.

python examples/digits_cnn.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import scax

x, y = load_digits(n_class=5, return_X_y=True)
order = np.random.default_rng(0).permutation(len(x))
x, y = (x / 16).reshape(-1, 8, 8, 1).astype("float32")[order], y[order]


def apply(params, x):
    """A 3×3 convolution with stride 2, eight channels; a dense layer."""
    x = jax.lax.conv_general_dilated(x, params["conv"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = jax.nn.relu(x + params["bias"])
    return x.reshape(x.shape[0], -1) @ params["out"] + params["shift"]


rng = np.random.default_rng(1)
draw = lambda *shape: jnp.asarray(rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1])), jnp.float32)
params = {"conv": draw(3, 3, 1, 8), "bias": jnp.zeros(8), "out": draw(128, 5), "shift": jnp.zeros(5)}
problem = scax.Problem(apply, scax.Softmax(), scax.L2(1e-3))
result = scax.train(scax.SCA(problem), params, (x[:700], y[:700]), steps=40, batch_size=20)
right = np.mean(np.argmax(apply(result.params, x[700:]), axis=1) == y[700:])
print(f"objective {result.history['objective'][-1]:.3f} after 40 steps of 20 images")
print(f"{right:.1%} of {len(x) - 700} digits not seen are right")

"""A recurrent network on generated signals: which of two frequencies is in the noise?

python examples/sequence.py
"""

import jax
import jax.numpy as jnp
import numpy as np

import scax

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 600).astype("float32")
time = np.arange(24)[None, :]
phase = rng.uniform(0, 2 * np.pi, (600, 1))
signal = np.sin(np.where(y[:, None] == 1, 0.9, 0.6) * time + phase) + 0.3 * rng.normal(size=(600, 24))
x = signal[:, :, None].astype("float32")  # [rows, time, 1]


def apply(params, x):
    """A gated recurrent unit, read after the last sample."""

    def cell(h, row):
        r, z = jnp.split(jax.nn.sigmoid(row @ params["in"] + h @ params["hidden"] + params["b"]), 2, axis=1)
        new = jnp.tanh(row @ params["new_in"] + (r * h) @ params["new_hidden"] + params["new_b"])
        return (1 - z) * h + z * new, None

    start = jnp.zeros((x.shape[0], params["new_hidden"].shape[0]), x.dtype)
    last, _ = jax.lax.scan(cell, start, x.swapaxes(0, 1))
    return last @ params["out"]


shapes = {
    "in": (1, 16),
    "hidden": (8, 16),
    "b": (16,),
    "new_in": (1, 8),
    "new_hidden": (8, 8),
    "new_b": (8,),
    "out": (8, 1),
}
params = {name: jnp.asarray(0.4 * rng.normal(size=shape), jnp.float32) for name, shape in shapes.items()}
sca = scax.SCA(scax.Problem(apply, scax.Logistic(), scax.L2(1e-3)))
result = scax.train(sca, params, (x[:400], y[:400]), steps=100, batch_size=20, key=jax.random.key(1))
right = np.mean((apply(result.params, x[400:])[:, 0] > 0) == y[400:])
print(f"objective {result.history['objective'][0]:.3f} → {result.history['objective'][-1]:.3f}")
print(f"{right:.1%} of 200 signals not heard are right")

"""Many starts and many penalties at once: all runs side by side in one compiled loop, by `vmap`.

python examples/many_seeds.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_diabetes

import scax

x, y = load_diabetes(return_X_y=True)
order = np.random.default_rng(0).permutation(len(x))
x = ((x - x.mean(0)) / x.std(0)).astype("float32")[order]
y = ((y - y.mean()) / y.std()).astype("float32")[order]
net = scax.MLP((10, 10, 6, 1))

# three penalties, eight starts of each: runs may differ in their numbers, not in their parts
strengths, starts = [1e-3, 1e-2, 1e-1], 8
methods = [scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(s))) for s in strengths for _ in range(starts)]
keys = jax.random.split(jax.random.key(0), len(methods))
result = scax.train_many(methods, net.init, (x[:340], y[:340]), keys=keys, steps=100, batch_size=20)

# params have a leading axis, one entry per run: vmap over it
outputs = jax.vmap(net.apply, (0, None))(result.params, x[340:])[:, :, 0]
errors = jnp.sqrt(jnp.mean((outputs - y[340:]) ** 2, axis=1)).reshape(len(strengths), starts)
for strength, found in zip(strengths, errors, strict=True):
    print(f"L2({strength:g}): test RMSE {found.mean():.3f} ± {found.std():.3f} over {starts} starts")
together = jnp.sqrt(jnp.mean((outputs.reshape(3, starts, -1).mean(1) - y[340:]) ** 2, axis=1))
print("the mean of the eight networks:", ", ".join(f"{error:.3f}" for error in together))

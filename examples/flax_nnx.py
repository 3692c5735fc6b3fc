"""A Flax network trained by SCA; the weights go back into the same model. Needs pip install 'scax[flax]'.

python examples/flax_nnx.py
"""

import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer

import scax

try:
    from flax import nnx
except ModuleNotFoundError:
    raise SystemExit("This example needs Flax: pip install 'scax[flax]'") from None


class Net(nnx.Module):
    def __init__(self, rngs):
        self.enter, self.out = nnx.Linear(30, 16, rngs=rngs), nnx.Linear(16, 1, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)

    def __call__(self, x):
        return self.out(nnx.silu(self.norm(self.enter(x))))


x, y = load_breast_cancer(return_X_y=True)
order = np.random.default_rng(0).permutation(len(x))
x, y = ((x - x.mean(0)) / x.std(0)).astype("float32")[order], y.astype("float32")[order]

model = Net(nnx.Rngs(0))
model(jnp.asarray(x[:450]))  # one batch of statistics for the normalization
model.eval()  # SCA needs outputs that depend on the row alone: running statistics, no dropout

net = scax.from_flax(model)  # the one line
problem = scax.Problem(net.apply, scax.Logistic(), scax.L2(1e-3))
result = scax.train(scax.SCA(problem), net.params, (x[:450], y[:450]), steps=150, batch_size=20)
net.load(result.params)

right = np.mean((np.asarray(model(jnp.asarray(x[450:])))[:, 0] > 0) == y[450:])
print(f"objective {result.history['objective'][0]:.3f} → {result.history['objective'][-1]:.3f}")
print(f"{right:.1%} of {len(x) - 450} rows not seen are right")

# Linen: net = scax.from_flax(module, module.init(key, x), train=False); net.load(params) gives variables

"""An Equinox model trained by SCA, part of it frozen. Needs pip install 'scax[equinox]'.

python examples/equinox_model.py
"""

import jax
import numpy as np
from sklearn.datasets import load_wine

import scax

try:
    import equinox as eqx
except ModuleNotFoundError:
    raise SystemExit("This example needs Equinox: pip install 'scax[equinox]'") from None

x, y = load_wine(return_X_y=True)
order = np.random.default_rng(0).permutation(len(x))
x, y = ((x - x.mean(0)) / x.std(0)).astype("float32")[order], y[order]

model = eqx.nn.MLP(in_size=13, out_size=3, width_size=16, depth=2, activation=jax.nn.tanh, key=jax.random.key(0))
net = scax.from_equinox(model)  # the one line; net.params is the model without what is not trained

problem = scax.Problem(net.apply, scax.Softmax(), scax.L2(1e-2))
sca = scax.SCA(problem)
print(sca.explain(net.params, x[:20]))
result = scax.train(sca, net.params, (x[:140], y[:140]), steps=60, batch_size=20)
trained = net.load(result.params)  # an eqx.nn.MLP again
print(
    f"{np.mean(np.argmax(jax.vmap(trained)(x[140:]), axis=1) == y[140:]):.1%} of {len(x) - 140} rows not seen are right"
)

# freeze all but the last layer: a tree of True and False in the shape of net.params
frozen = jax.tree.map(lambda leaf: False, net.params)
last = jax.tree.map(lambda leaf: True, net.params.layers[-1])
mask = eqx.tree_at(lambda m: m.layers[-1], frozen, last)
problem = scax.Problem(net.apply, scax.Softmax(), scax.L2(1e-2), trainable=mask)
result = scax.train(scax.SCA(problem), net.params, (x[:140], y[:140]), steps=60, batch_size=20)
trained = net.load(result.params)
assert np.array_equal(trained.layers[0].weight, model.layers[0].weight)
print(f"the last layer alone: {np.mean(np.argmax(jax.vmap(trained)(x[140:]), axis=1) == y[140:]):.1%}")

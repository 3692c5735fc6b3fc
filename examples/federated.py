"""Ten sites that keep their rows: sorted by a feature, so that no two are alike, and one network for all.

python examples/federated.py
"""

import jax
import numpy as np

import scax

draw = np.random.default_rng(0)
x = draw.uniform(-2, 2, (1000, 3)).astype(np.float32)
y = (np.sin(2 * x[:, 0]) * x[:, 1] + 0.5 * x[:, 2] ** 2 + 0.1 * draw.normal(size=1000)).astype(np.float32)
train, test = slice(0, 800), slice(800, None)

# site 0 has the smallest values of the first feature, site 9 the largest
order = np.array_split(np.argsort(x[train, 0]), 10)
sites = {f"site {i}": (x[train][rows], y[train][rows]) for i, rows in enumerate(order)}

net = scax.MLP((3, 8, 4, 1))
problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-4))
result = scax.federated.simulate(problem, net.init(jax.random.key(0)), sites, rounds=20)

for number, objective in enumerate(result.history["objective"], 1):
    print(f"round {number:2}: objective {objective:.4f}")
sent = result.history["bytes_up"].sum() / 1e3 / len(sites)
error = np.sqrt(np.mean((net.apply(result.params, x[test])[:, 0] - y[test]) ** 2))
print(f"each site sent {sent:.0f} kB of sums, and no row")
print(f"RMSE on rows not seen: {error:.3f}")

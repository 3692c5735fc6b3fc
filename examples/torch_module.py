"""A torch.nn.Module trained by SCA in JAX; the weights go back into the same module. Needs pip install 'scax[torch]'.

python examples/torch_module.py
"""

import numpy as np
from sklearn.datasets import load_diabetes

import scax

try:
    import torch
    from torch import nn
except ModuleNotFoundError:
    raise SystemExit("This example needs PyTorch: pip install 'scax[torch]'") from None

x, y = load_diabetes(return_X_y=True)
order = np.random.default_rng(0).permutation(len(x))
x = ((x - x.mean(0)) / x.std(0)).astype("float32")[order]
y = ((y - y.mean()) / y.std()).astype("float32")[order]

torch.manual_seed(0)
module = nn.Sequential(nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 6), nn.Tanh(), nn.Dropout(0.1), nn.Linear(6, 1))
module.eval()  # no dropout, running statistics: SCA needs outputs that depend on the row alone

net = scax.from_torch(module)  # the one line
problem = scax.Problem(net.apply, scax.Squared(), scax.L2(2e-2))
result = scax.train(scax.SCA(problem), net.params, (x[:340], y[:340]), steps=150, batch_size=20)
net.load(result.params)  # into `module`: from here on it is torch again

with torch.no_grad():
    found = module(torch.from_numpy(x[340:]))[:, 0].numpy()
print(f"objective {result.history['objective'][0]:.3f} → {result.history['objective'][-1]:.3f}")
print(f"R² on {len(x) - 340} rows not seen: {1 - np.mean((found - y[340:]) ** 2) / np.var(y[340:]):.3f}")
assert np.allclose(found, net.apply(result.params, x[340:])[:, 0], atol=1e-4)

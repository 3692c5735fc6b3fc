"""The core stays light: nothing heavy is imported until a part that needs it is used."""

import subprocess
import sys

HEAVY = ["sklearn", "pandas", "polars", "matplotlib", "ray", "typer", "rich", "torch", "flax", "equinox", "beartype"]


def test_importing_stepping_and_training_import_nothing_heavy():
    script = f"""
import sys, numpy as np, jax, scax
net = scax.MLP((2, 2, 1))
sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)))
x = np.ones((3, 2), np.float32)
params = net.init(jax.random.key(0))
sca.step(sca.init(params), (x, x[:, 0]))
scax.train(sca, params, (x, x[:, 0]), steps=1, batch_size=3)
scax.knn_graph(x + np.arange(3, dtype=np.float32)[:, None], 1)
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[]"

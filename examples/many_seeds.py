"""Many starts and many penalties at once: `vmap` over init and step; nothing compiles twice.

python examples/many_seeds.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_diabetes

import scax

x, y = load_diabetes(return_X_y=True)
order = np.random.default_rng(0).permutation(len(x))
x = jnp.asarray((x - x.mean(0)) / x.std(0), jnp.float32)[order]
y = jnp.asarray((y - y.mean()) / y.std(), jnp.float32)[order]
net = scax.MLP((10, 10, 6, 1))


@jax.jit
def run(strength, key):
    """One training of 100 steps; gives the error on rows not seen."""
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(strength))
    sca = scax.SCA(problem)
    start, draw = jax.random.split(key)
    rows = jax.random.randint(draw, (100, 20), 0, 340)
    state = sca.init(net.init(start))
    state, info = jax.lax.scan(lambda state, i: sca.step(state, (x[i], y[i])), state, rows)
    return jnp.sqrt(jnp.mean((net.apply(sca.solution(state), x[340:])[:, 0] - y[340:]) ** 2)), info.loss


seeds = jax.random.split(jax.random.key(0), 8)
strengths = jnp.array([1e-3, 1e-2, 1e-1])
errors, losses = jax.vmap(jax.vmap(run, (None, 0)), (0, None))(strengths, seeds)  # [strengths, seeds], [..., steps]
for strength, found, loss in zip(strengths, errors, losses, strict=True):
    print(
        f"L2({strength:g}): test RMSE {found.mean():.3f} ± {found.std():.3f} over {len(seeds)} starts, last losses "
        f"{loss[:, -10:].mean():.3f}"
    )

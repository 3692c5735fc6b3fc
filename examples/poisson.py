"""−Δu = f on the unit square, u = 0 on its edge, from points drawn anew at every step: u = sin(πx) sin(πy).

Run: python examples/poisson.py [steps]
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import scax

jax.config.update("jax_enable_x64", True)

net = scax.MLP((2, 32, 32, 1))
exact = lambda x: jnp.prod(jnp.sin(jnp.pi * x), axis=-1)


def equation(params, x):
    """Δu + f, f = 2π² u, at every row of x."""
    u = lambda point: net.apply(params, point[None])[0, 0]
    return jax.vmap(scax.operators.laplacian(u))(x) + 2 * jnp.pi**2 * exact(x)


def inside(key):
    return jax.random.uniform(key, (400, 2))


def edge(key):
    along, side = jax.random.uniform(key, (100,)), jnp.arange(100) % 4
    low = (side % 2).astype(float)
    return jnp.where((side < 2)[:, None], jnp.stack([along, low], 1), jnp.stack([low, along], 1))


terms = {"equation": scax.Term(equation), "edge": scax.Term(net.apply, weight=10.0)}
problem, data = scax.Problem(terms, scax.L2(0.0)), {"equation": inside, "edge": edge}
x = y = np.linspace(0, 1, 101)
grid = np.stack(np.meshgrid(x, y, indexing="ij"), -1).reshape(-1, 2)
true = exact(grid)


def compare(params):
    """What was found on the grid of x and y, and the solution there."""
    return net.apply(params, grid)[:, 0], true


def main(steps: int) -> float:
    params = net.init(jax.random.key(0))
    began = time.perf_counter()
    result = scax.train(scax.SCA(problem), params, data, steps=steps, records=10)
    for i, step in enumerate(result.history["step"]):
        print(f"step {step:5.0f}  equation {result.history['equation'][i]:.1e}  edge {result.history['edge'][i]:.1e}")
    error = float(jnp.linalg.norm(compare(result.params)[0] - true) / jnp.linalg.norm(true))
    print(f"relative L2 error {error:.1e} after {steps} steps and {time.perf_counter() - began:.0f} s")
    return error


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

"""−Δu = f in five dimensions, u = Σ cos(πx_i) on the edge of the cube, from points drawn anew at every step.

Run: python examples/poisson_5d.py [steps]
"""

import sys

import jax
import jax.numpy as jnp

import scax

jax.config.update("jax_enable_x64", True)

SIZE = 5
net = scax.MLP((SIZE, 24, 24, 1))
exact = lambda x: jnp.sum(jnp.cos(jnp.pi * x), axis=-1)


def equation(params, x):
    """Δu + π² Σ cos(πx_i) at every row."""
    u = lambda point: net.apply(params, point[None])[0, 0]
    return jax.vmap(scax.operators.laplacian(u))(x) + jnp.pi**2 * exact(x)


def inside(key):
    return jax.random.uniform(key, (400, SIZE))


def edge(key):
    """Points on the ten faces, with the values there."""
    x = jax.random.uniform(key, (200, SIZE))
    number = jnp.arange(200)
    x = x.at[number, number % SIZE].set((number // SIZE % 2).astype(float))
    return x, exact(x)


def main(steps: int) -> float:
    problem = scax.Problem({"equation": scax.Term(equation), "edge": scax.Term(net.apply, weight=10.0)}, scax.L2(0.0))
    params = net.init(jax.random.key(0))
    result = scax.train(scax.SCA(problem), params, {"equation": inside, "edge": edge}, steps=steps, records=10)
    for i, step in enumerate(result.history["step"]):
        print(f"step {step:5.0f}  equation {result.history['equation'][i]:.1e}  edge {result.history['edge'][i]:.1e}")
    unseen = jax.random.uniform(jax.random.key(1), (5000, SIZE))
    left = net.apply(result.params, unseen)[:, 0] - exact(unseen)
    error = float(jnp.linalg.norm(left) / jnp.linalg.norm(exact(unseen)))
    print(f"relative L2 error {error:.1e} after {steps} steps")
    return error


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)

"""Burgers' equation u_t + u u_x = ν u_xx with ν = 0.01/π: a sine wave steepens into a shock. All points are drawn
anew at every step. The reference is Cole's and Hopf's formula.

Run: python examples/burgers.py [steps]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import scax

jax.config.update("jax_enable_x64", True)

NU = 0.01 / np.pi
net = scax.MLP((2, 20, 20, 20, 1))


def equation(params, x):
    """u_t + u u_x − ν u_xx at rows (t, x)."""
    u = lambda point: net.apply(params, point[None])[0, 0]
    bend = scax.operators.derivative(u, 1, order=2)

    def residual(point):
        slope = scax.operators.grad(u)(point)
        return slope[0] + u(point) * slope[1] - NU * bend(point)

    return jax.vmap(residual)(x)


def inside(key):
    return jax.random.uniform(key, (500, 2), minval=jnp.array([0.0, -1.0]), maxval=1.0)


def start(key):
    """At t = 0 u = −sin(πx)."""
    x = jax.random.uniform(key, (60,), minval=-1.0)
    return jnp.stack([0 * x, x], axis=1), -jnp.sin(jnp.pi * x)


def sides(key):
    """At x = ±1 u = 0."""
    t, side = jax.random.uniform(key, (60,)), jnp.where(jnp.arange(60) % 2 == 0, -1.0, 1.0)
    return jnp.stack([t, side], axis=1)


def exact(t, x, nodes=100):
    """By Gauss's and Hermite's quadrature."""
    z, weight = np.polynomial.hermite.hermgauss(nodes)
    y = x[:, None] - np.sqrt(4 * NU * t)[:, None] * z
    mass = weight * np.exp(-(np.cos(np.pi * y) + 1) / (2 * np.pi * NU))
    return -np.sum(np.sin(np.pi * y) * mass, 1) / np.sum(mass, 1)


value = scax.Term(net.apply, weight=10.0)
problem = scax.Problem({"equation": scax.Term(equation), "start": value, "sides": value}, scax.L2(0.0))
data = {"equation": inside, "start": start, "sides": sides}
t, x = np.linspace(0.01, 1, 60), np.linspace(-1, 1, 161)
rows = np.stack(np.meshgrid(t, x, indexing="ij"), -1).reshape(-1, 2)
true = exact(*rows.T)


def compare(params):
    """What was found on the grid of t and x, and the solution there."""
    return net.apply(params, rows)[:, 0], true


def solve(steps):
    """(t, x, the solution and what was found on their grid)."""
    params = jax.tree.map(lambda leaf: leaf.astype(float), net.init(jax.random.key(0)))
    result = scax.train(scax.SCA(problem), params, data, steps=steps, records=10)
    for i, step in enumerate(result.history["step"]):
        print(f"step {step:5.0f}  " + "  ".join(f"{name} {result.history[name][i]:.1e}" for name in data))
    return t, x, true.reshape(60, 161), np.asarray(compare(result.params)[0]).reshape(60, 161)


def main(steps: int) -> float:
    _, _, true, found = solve(steps)
    error = float(np.linalg.norm(found - true) / np.linalg.norm(true))
    print(f"relative L2 error {error:.1e} after {steps} steps")
    return error


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

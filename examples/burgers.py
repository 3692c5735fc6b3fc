"""Burgers' equation u_t + u u_x = ν u_xx with ν = 0.01/π: a sine wave steepens into a shock. All points are drawn
anew at every step, for x > 0 alone: the solution is odd. The reference is Cole's and Hopf's formula.

The solution is odd in x, starts at −sin(πx) and is zero at x = ±1: so is what is trained, whatever its weights.
Run: python examples/burgers.py [steps]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import scax

jax.config.update("jax_enable_x64", True)

NU, POINTS = 0.01 / np.pi, 500
net = scax.MLP((2, 20, 20, 20, 1))


def solution(params):
    """u of one point (t, x)."""

    def u(point):
        t, x = point
        both = net.apply(params, jnp.stack([point, jnp.stack([t, -x])]))[:, 0]
        return -jnp.sin(jnp.pi * x) + t * (1 - x**2) * (both[0] - both[1])

    return u


def equation(params, rows):
    """u_t + u u_x − ν u_xx at rows (t, x)."""
    u = solution(params)
    slope, bend = scax.operators.grad(u), scax.operators.derivative(u, 1, order=2)
    return jax.vmap(lambda p: slope(p)[0] + u(p) * slope(p)[1] - NU * bend(p))(rows)


def inside(key):
    return jax.random.uniform(key, (POINTS, 2))


def exact(t, x, nodes=100):
    """By Gauss's and Hermite's quadrature."""
    z, weight = np.polynomial.hermite.hermgauss(nodes)
    y = x[:, None] - np.sqrt(4 * NU * t)[:, None] * z
    mass = weight * np.exp(-(np.cos(np.pi * y) + 1) / (2 * np.pi * NU))
    return -np.sum(np.sin(np.pi * y) * mass, 1) / np.sum(mass, 1)


problem, data = scax.Problem({"equation": scax.Term(equation)}, scax.L2(0.0)), {"equation": inside}
t, x = np.linspace(0, 1, 101), np.linspace(-1, 1, 257)
grid = np.stack(np.meshgrid(t, x, indexing="ij"), -1).reshape(-1, 2)
true = exact(*grid.T)


def compare(params):
    """What was found on the grid of t and x, and the solution there."""
    return jax.vmap(solution(params))(grid), true


def main(steps: int) -> float:
    params = net.init(jax.random.key(0))
    result = scax.train(scax.SCA(problem), params, data, steps=steps, records=10)
    for step, left in zip(result.history["step"], result.history["equation"], strict=True):
        print(f"step {step:5.0f}  equation {left:.1e}")
    error = float(np.linalg.norm(compare(result.params)[0] - true) / np.linalg.norm(true))
    print(f"relative L2 error {error:.1e} after {steps} steps")
    return error


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

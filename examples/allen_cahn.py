"""The Allen–Cahn equation u_t = 10⁻⁴ u_xx + 5u − 5u³, periodic in x, from u = x² cos(πx): plateaus with steep walls.

The network sees (t, cos πx, sin πx), so that it is periodic, and t times it is added to the start, which then holds
exactly: the equation is the only term. The reference is a Fourier series in x.

Run: python examples/allen_cahn.py [steps]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate

import scax

jax.config.update("jax_enable_x64", True)

POINTS = 1000
net = scax.MLP((3, 30, 30, 30, 1))


def solution(params):
    """u of one point (t, x)."""

    def u(point):
        t, x = point
        start = x**2 * jnp.cos(jnp.pi * x)
        return start + t * net.apply(params, jnp.stack([t, jnp.cos(jnp.pi * x), jnp.sin(jnp.pi * x)])[None])[0, 0]

    return u


def equation(params, rows):
    """u_t − 10⁻⁴ u_xx − 5u + 5u³ at rows (t, x)."""
    u = solution(params)
    slope, bend = scax.operators.derivative(u, 0), scax.operators.derivative(u, 1, order=2)
    return jax.vmap(lambda point: slope(point) - 1e-4 * bend(point) - 5 * u(point) + 5 * u(point) ** 3)(rows)


def inside(key):
    return jax.random.uniform(key, (POINTS, 2), minval=jnp.array([0.0, -1.0]), maxval=1.0)


def reference(times, count=512):
    """(x, u at every time): 512 points on the circle, exact derivatives of their Fourier series."""
    x = np.linspace(-1, 1, count, endpoint=False)
    square = -((np.pi * np.fft.rfftfreq(count, 1 / count)) ** 2)
    slope = lambda t, u: 1e-4 * np.fft.irfft(square * np.fft.rfft(u), count) + 5 * u - 5 * u**3
    start = x**2 * np.cos(np.pi * x)
    return x, scipy.integrate.solve_ivp(slope, (0, 1), start, t_eval=times, rtol=1e-9, atol=1e-10).y.T


problem = scax.Problem({"equation": scax.Term(equation)}, scax.L2(0.0))
data = {"equation": inside}
t = np.linspace(0, 1, 41)
x, true = reference(t)
grid = np.stack(np.meshgrid(t, x, indexing="ij"), -1).reshape(-1, 2)
true = true.reshape(-1)


def compare(params):
    """What was found on the grid of t and x, and the solution there."""
    return jax.vmap(solution(params))(grid), true


def main(steps: int) -> float:
    params = jax.tree.map(lambda leaf: leaf.astype(float), net.init(jax.random.key(0)))
    result = scax.train(scax.SCA(problem), params, data, steps=steps, records=10)
    for step, left in zip(result.history["step"], result.history["equation"], strict=True):
        print(f"step {step:5.0f}  equation {left:.1e}")
    error = float(np.linalg.norm(compare(result.params)[0] - true) / np.linalg.norm(true))
    print(f"relative L2 error {error:.1e} after {steps} steps")
    return error


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)

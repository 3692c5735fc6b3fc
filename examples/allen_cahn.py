"""The Allen–Cahn equation u_t = κ u_xx + 5u − 5u³, κ = 10⁻⁴, periodic in x, from u = x² cos(πx): plateaus and walls.

The start has a kink where x = 1 meets x = −1, which no smooth network has. How it spreads and fades is known (about
u = −1 the equation is a heat equation that loses 10 v a second): the network is added to that, times t, as a function
of t and cos(πx), for the solution is even. The equation is the only term. The reference is a Fourier series in x.
Run: python examples/allen_cahn.py [steps]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate

import scax

jax.config.update("jax_enable_x64", True)

KAPPA, POINTS = 1e-4, 1000
net = scax.MLP((2, 30, 30, 30, 1))


def solution(params):
    """u of one point (t, x)."""

    def u(point):
        t, x = point
        wide, wall, fade = jnp.sqrt(4 * KAPPA * t + 1e-30), 1 - jnp.abs(x), jnp.exp(-10 * t)
        spread = wide / np.sqrt(np.pi) * jnp.exp(-((wall / wide) ** 2)) - wall * jax.scipy.special.erfc(wall / wide)
        known = x**2 * jnp.cos(jnp.pi * x) + (1 - x**2) * (fade - 1) + 2 * fade * spread
        return known + t * net.apply(params, jnp.stack([t, jnp.cos(jnp.pi * x)])[None])[0, 0]

    return u


def equation(params, rows):
    """u_t − κ u_xx − 5u + 5u³ at rows (t, x)."""
    u = solution(params)
    slope, bend = scax.operators.derivative(u, 0), scax.operators.derivative(u, 1, order=2)
    return jax.vmap(lambda point: slope(point) - KAPPA * bend(point) - 5 * u(point) + 5 * u(point) ** 3)(rows)


def inside(key):
    return jax.random.uniform(key, (POINTS, 2))


def reference(times, count=2048):
    """(512 places, u there at every time), by exact derivatives of the Fourier series of 2048 values."""
    x = np.linspace(-1, 1, count, endpoint=False)
    square = -((np.pi * np.fft.rfftfreq(count, 1 / count)) ** 2)
    slope = lambda t, u: KAPPA * np.fft.irfft(square * np.fft.rfft(u), count) + 5 * u - 5 * u**3
    found = scipy.integrate.solve_ivp(slope, (0, 1), x**2 * np.cos(np.pi * x), t_eval=times, rtol=1e-9, atol=1e-10)
    return x[::4], found.y.T[:, ::4]


problem, data = scax.Problem({"equation": scax.Term(equation)}, scax.L2(0.0)), {"equation": inside}
t = np.linspace(0, 1, 41)
x, true = reference(t)
grid, true = np.stack(np.meshgrid(t, x, indexing="ij"), -1).reshape(-1, 2), true.reshape(-1)


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
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)

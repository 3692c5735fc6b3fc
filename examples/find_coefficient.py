"""How well does a rod conduct heat? u_t = D u_xx with D not known, from noisy measurements of the temperature.

The network and D are found together: one term says that the equation holds, one that the measurements are met.
Run: python examples/find_coefficient.py [steps]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import scax

jax.config.update("jax_enable_x64", True)

TRUE, NOISE = 0.3, 0.02
net = scax.MLP((2, 12, 12, 1))


def equation(params, x):
    """u_t − D u_xx at rows (t, position)."""
    u = lambda point: net.apply(params["net"], point[None])[0, 0]
    change, bend = scax.operators.derivative(u, 0), scax.operators.derivative(u, 1, order=2)
    return jax.vmap(lambda point: change(point) - params["D"] * bend(point))(x)


def temperature(params, x):
    return net.apply(params["net"], x)


def main(steps: int) -> float:
    rng = np.random.default_rng(0)
    places, measured = rng.uniform(size=(200, 2)), rng.uniform(size=(150, 2))
    exact = np.exp(-TRUE * np.pi**2 * measured[:, 0]) * np.sin(np.pi * measured[:, 1])
    data = {"equation": places, "measurements": (measured, exact + NOISE * rng.standard_normal(150))}
    terms = {"equation": scax.Term(equation), "measurements": scax.Term(temperature)}
    problem = scax.Problem(terms, scax.L2(1e-9))
    start = {"net": net.init(jax.random.key(0)), "D": jnp.asarray(1.0)}
    result = scax.train(scax.SCA(problem), start, data, steps=steps, batch_size=None, records=5)
    history = result.history
    print(
        f"{result.status} after {result.steps} steps; root mean squares: equation {history['equation'][-1] ** 0.5:.1e},"
    )
    print(f"measurements {history['measurements'][-1] ** 0.5:.4f}, to which noise of {NOISE} was added")
    print(f"D = {float(result.params['D']):.4f}, in truth {TRUE}")
    return abs(float(result.params["D"]) - TRUE)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)

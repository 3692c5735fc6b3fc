"""Rate constants of A ⇌ B → C from concentrations measured over time: a model that is no network at all.

A row is an experiment: the temperature and how much A there was at first. The model integrates the rate equations; its
parameters are the logarithm of each rate at 320 K and its activation energy. Run: python examples/chemical_kinetics.py
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import scax

jax.config.update("jax_enable_x64", True)

TIMES, STEPS, GAS = 8, 20, 8.314e-3  # measurements, integration steps between two of them, kJ/(mol K)
TRUE = {"log_rate": np.array([-0.5, -1.5, -1.0]), "energy": np.array([60.0, 75.0, 50.0])}


def rates(params, temperature):
    """k at a temperature, by Arrhenius."""
    return jnp.exp(params["log_rate"] - params["energy"] / GAS * (1 / temperature - 1 / 320))


def concentrations(params, x):
    """[n, TIMES · 2] of A and B after 0.5, 1.0, … minutes, by Runge and Kutta's method."""

    def one(row):
        there, back, on = rates(params, row[0])
        slope = lambda c: jnp.stack([back * c[1] - there * c[0], there * c[0] - (back + on) * c[1]])

        def step(c, _):
            h = 0.5 / STEPS
            a = slope(c)
            b = slope(c + h / 2 * a)
            d = slope(c + h / 2 * b)
            e = slope(c + h * d)
            return c + h / 6 * (a + 2 * b + 2 * d + e), None

        def measure(c, _):
            c = jax.lax.scan(step, c, length=STEPS)[0]
            return c, c

        return jax.lax.scan(measure, jnp.stack([row[1], 0.0]), length=TIMES)[1].reshape(-1)

    return jax.vmap(one)(x)


def main(steps: int) -> float:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(300, 340, 20), rng.uniform(0.5, 2, 20)])
    y = np.asarray(concentrations(TRUE, x))
    y = y + 0.01 * rng.standard_normal(y.shape)
    problem = scax.Problem(concentrations, scax.Squared(), scax.L2(0.0))
    start = {"log_rate": np.zeros(3), "energy": np.full(3, 40.0)}
    result = scax.train(scax.SCA(problem), start, (x, y), steps=steps, batch_size=None)
    found, left = result.params, np.asarray(concentrations(result.params, x)) - y
    for i, name in enumerate(("A → B", "B → A", "B → C")):
        print(f"{name}: rate {np.exp(found['log_rate'][i]):.3f}/min, energy {found['energy'][i]:.1f} kJ/mol", end="")
        print(f" (true {np.exp(TRUE['log_rate'][i]):.3f}, {TRUE['energy'][i]:.1f})")
    error = float(np.max(np.abs(np.exp(found["log_rate"] - TRUE["log_rate"]) - 1)))
    print(f"{result.status} after {result.steps} steps; noise {left.std():.4f} (0.01 was added)")
    print(f"largest relative error of a rate: {error:.4f}")
    return error


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)

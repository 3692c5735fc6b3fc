"""A Duffing oscillator identified from its input and output: a neural state-space model, trained by simulation.

A row is a stretch of the signal: the model starts at rest, sees the input alone, and has to say the whole output.
Run: python examples/duffing.py [steps]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import scax

jax.config.update("jax_enable_x64", True)

LENGTH, STATES, HIDDEN = 60, 2, 8


def measure(inputs):
    """What the oscillator y'' + 0.4 y' + y + y³ = u does from rest, by small steps; inputs [n, LENGTH], 0.2 s each."""
    h, (n, length) = 0.01, inputs.shape
    y, v, out = np.zeros(n), np.zeros(n), []
    slope = lambda y, v, u: (v, u - 0.4 * v - y - y**3)
    for t in range(length):
        for _ in range(20):
            a, b = slope(y, v, inputs[:, t])
            c, d = slope(y + h / 2 * a, v + h / 2 * b, inputs[:, t])
            y, v = y + h * c, v + h * d
        out.append(y)
    return np.stack(out, axis=1)


def simulate(params, inputs):
    """y_t = C s_t, s_{t+1} = s_t + A s_t + B u_t + W tanh(V [s_t, u_t] + c): a network that is met at every step."""

    def one(sequence):
        def step(s, u):
            both = jnp.append(s, u)
            s = s + params["linear"] @ both + params["out"] @ jnp.tanh(params["in"] @ both + params["bias"])
            return s, params["read"] @ s

        return jax.lax.scan(step, jnp.zeros(STATES), sequence)[1]

    return jax.vmap(one)(inputs)


def draw(rng, n):
    """Inputs that change now and then."""
    return np.repeat(rng.normal(size=(n, LENGTH // 5)), 5, axis=1)


def begin(rng):
    """Weights: about a mass on a spring, and a little more."""
    return {
        "linear": np.array([[0.0, 0.2, 0.0], [-0.2, -0.1, 0.2]]),
        "in": rng.normal(size=(HIDDEN, STATES + 1)) / 2,
        "bias": np.zeros(HIDDEN),
        "out": rng.normal(size=(STATES, HIDDEN)) / 50,
        "read": np.array([1.0, 0.0]),
    }


def main(steps: int) -> float:
    rng = np.random.default_rng(0)
    inputs, unseen = draw(rng, 20), draw(rng, 50)
    params = begin(rng)
    problem = scax.Problem(simulate, scax.Squared(), scax.L2(1e-12))
    result = scax.train(scax.SCA(problem), params, (inputs, measure(inputs)), steps=steps, batch_size=None, records=5)
    true = measure(unseen)
    error = float(np.sqrt(np.mean((np.asarray(simulate(result.params, unseen)) - true) ** 2)))
    fit = np.sqrt(result.history["objective"][-1] / LENGTH)
    print(f"{result.status} after {result.steps} steps: RMS error in training {fit:.1e}")
    print(f"RMS error of the simulation on sequences not seen: {error:.1e} (the signal: {true.std():.2f})")
    return error


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)

"""A large direct solve beside the library's own parts: one Gram product, one Cholesky, two triangular solves.

    python -m benchmarks.direct_solve [--rows 500 2000] [--weights 5000] [--repeats 7] [--out docs/results]

J is a random array, the loss squared. On a CPU everything runs on one thread and least processor seconds count, and
SciPy's cho_factor and cho_solve stand beside it; elsewhere least wall seconds. "extra" is what the solver takes beyond
the sum of its parts.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by the libraries below when they are loaded
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

import scax
from benchmarks.steps import describe_machine
from scax.linearize import Dense
from scax.solvers import Direct
from scax.solvers.linear.cholesky import by_cholesky
from scax.surrogate.datafit import Datafit
from scax.surrogate.surrogate import Surrogate


def measure(rows: int, weights: int, dtype: str, repeats: int) -> dict:
    rng = np.random.default_rng(0)
    j = jnp.asarray(rng.normal(size=(rows, 1, weights)) / np.sqrt(weights), dtype)
    w, z = jnp.asarray(rng.normal(size=weights), dtype), jnp.asarray(rng.normal(size=(rows, 1)), dtype)
    tau = jnp.asarray(0.1, dtype)

    @jax.jit
    def solve(j, w, z):
        datafit = Datafit(scax.Squared(), jnp.zeros_like(z), jnp.full(rows, 1 / rows, dtype))
        lin = Dense(z, j)
        return Direct("sample", "dense").solve(Surrogate.of(datafit, lin, w, w, None, tau, scax.L2(1e-3)))

    gram = jax.jit(lambda j: Dense(z, j).gram().reshape(rows, rows))
    matrix = gram(j) + jnp.eye(rows, dtype=dtype)
    factor = jax.jit(lambda a: jax.lax.linalg.cholesky(a, symmetrize_input=False))
    lower, right = factor(matrix), z[:, 0]
    whole = jax.jit(by_cholesky)
    runs = {
        "solve": lambda: solve(j, w, z),
        "gram": lambda: gram(j),
        "cholesky": lambda: factor(matrix),
        "two triangular solves": lambda: substitute(lower, right),
        "cholesky and substitution": lambda: whole(matrix, right),
    }
    if jax.default_backend() == "cpu":
        a, b = np.asarray(matrix), np.asarray(right)
        runs["scipy"] = lambda: scipy.linalg.cho_solve(
            scipy.linalg.cho_factor(a, lower=True, check_finite=False), b, check_finite=False
        )
    status = solve(j, w, z)
    assert status.status == scax.Status.OK, status
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    times = dict.fromkeys(runs, np.inf)
    for _ in range(repeats + 1):
        for name, run in runs.items():
            start = clock()
            jax.block_until_ready(run())
            times[name] = min(times[name], clock() - start)
    parts = times["gram"] + times["cholesky and substitution"]
    found = {name: 1e3 * value for name, value in times.items()}
    return {"rows": rows, "weights": weights, "dtype": dtype, "ms": found, "extra": times["solve"] / parts - 1}


@jax.jit
def substitute(lower, right):
    half = jax.lax.linalg.triangular_solve(lower, right[:, None], left_side=True, lower=True)
    return jax.lax.linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[500, 2000])
    parser.add_argument("--weights", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    machine = {**describe_machine(), "command": "python -m benchmarks.direct_solve"}
    results = []
    for rows in options.rows:
        for dtype in ("float32", "float64"):
            with jax.enable_x64(dtype == "float64"):
                results.append(measure(rows, options.weights, dtype, options.repeats))
            row = results[-1]
            print(f"{rows} {dtype}: ", ", ".join(f"{name} {ms:.2f}" for name, ms in row["ms"].items()), end="")
            print(f"; extra {row['extra']:.0%}", flush=True)
    path = options.out / f"direct-solve-{machine['platform']}.json"
    path.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()

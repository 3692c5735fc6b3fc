"""How the cost of a step grows with weights Q, rows L and outputs K, beside Adam's, and the exponents fitted to it.

    python -m benchmarks.growth [--repeats 5] [--out docs]

A tanh network 18/h/h/K, squared loss, float32. One of h, L and K varies, the others stay at h = 100, L = 50, K = 1.
"""

import argparse
import json
import statistics
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import scax
from benchmarks.steps import describe_machine, looped

SWEEPS = {
    "Q": {"label": "weights Q", "widths": (10, 30, 100, 300, 1000)},
    "L": {"label": "rows L", "rows": (8, 16, 32, 64, 128, 256, 512)},
    "K": {"label": "outputs K", "outputs": (1, 2, 4, 8, 16)},
}
METHODS = ("Adam", "SCA", "sample-space")
#: Above this many numbers a materialized Jacobian is left out.
LARGEST_JACOBIAN = 2e7


def points(sweep: dict) -> list[tuple[int, int, int]]:
    """(h, L, K) of every point."""
    if "widths" in sweep:
        return [(h, 50, 1) for h in sweep["widths"]]
    if "rows" in sweep:
        return [(100, rows, 1) for rows in sweep["rows"]]
    return [(100, 50, k) for k in sweep["outputs"]]


def measure(width: int, batch: int, outputs: int, repeats: int, seconds: float) -> dict:
    """Microseconds per step of every method, medians over interleaved repeats."""
    rng = np.random.default_rng(0)
    net = scax.MLP((18, width, width, outputs))
    x = jnp.asarray(rng.uniform(-0.5, 0.5, (2048, 18)), jnp.float32)
    y = jnp.asarray(np.tanh(np.asarray(x) @ rng.normal(size=(18, outputs))), jnp.float32)
    problem, params = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)), net.init(jax.random.key(0), jnp.float32)
    weights = sum(leaf.size for leaf in jax.tree.leaves(params))
    methods = {"Adam": scax.baseline(optax.adam(1e-3), problem), "SCA": scax.SCA(problem)}
    if weights * batch * outputs <= LARGEST_JACOBIAN:
        methods["sample-space"] = scax.SCA(problem, solver="sample-space")
    loops = {name: looped(method, params, x, y, batch) for name, method in methods.items()}
    counts = {name: int(min(max(seconds / loop(3)[0], 3), 5000)) for name, loop in loops.items()}
    times = {name: [] for name in loops}
    for _ in range(repeats):
        for name, loop in loops.items():
            times[name].append(1e6 * loop(counts[name])[0])
    return {"Q": weights, "L": batch, "K": outputs, "us": {n: statistics.median(t) for n, t in times.items()}}


def exponent(found: list[dict], axis: str, method: str) -> float | None:
    """The slope of log time over log size on the upper half, where fixed costs no longer count."""
    rows = [row for row in found if method in row["us"]]
    rows = rows[len(rows) // 2 :]
    if len(rows) < 2:
        return None
    return float(np.polyfit(np.log([r[axis] for r in rows]), np.log([r["us"][method] for r in rows]), 1)[0])


def draw(results: dict, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    for axes, (axis, found) in zip(figure.subplots(1, 3), results.items(), strict=True):
        for method in METHODS:
            rows = [row for row in found if method in row["us"]]
            slope = exponent(found, axis, method)
            label = method if slope is None else f"{method}, {axis}^{slope:.2f}"
            axes.loglog([r[axis] for r in rows], [r["us"][method] for r in rows], "o-", ms=3, label=label)
        axes.set_xlabel(SWEEPS[axis]["label"])
        axes.legend(frameon=False, fontsize=8)
        axes.grid(alpha=0.25, which="both")
    figure.axes[0].set_ylabel("µs per step")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="per repeat and method")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    results: dict[str, list[dict]] = {}
    for axis, sweep in SWEEPS.items():
        results[axis] = []
        for width, batch, outputs in points(sweep):
            results[axis].append(measure(width, batch, outputs, options.repeats, options.seconds))
            print(axis, results[axis][-1], flush=True)
    slopes = {axis: {m: exponent(found, axis, m) for m in METHODS} for axis, found in results.items()}
    print(json.dumps(slopes, indent=1))
    machine = describe_machine() | {"command": "python -m benchmarks.growth"}
    record = {"machine": machine, "exponents": slopes, "points": results}
    (options.out / "results").mkdir(parents=True, exist_ok=True)
    (options.out / "images").mkdir(parents=True, exist_ok=True)
    (options.out / "results" / "growth.json").write_text(json.dumps(record, indent=1) + "\n")
    draw(results, options.out / "images" / "growth.svg")


if __name__ == "__main__":
    main()

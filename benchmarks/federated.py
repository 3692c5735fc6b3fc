"""Rounds and bytes between ten sites: exact and local rounds beside FedAvg, FedProx, FedAdam and local Newton steps.

    SCAX_DATA=folder python -m benchmarks.federated [--parts paper digits] [--seeds 3] [--rounds 600] [--out docs]

Rows are sorted by their first feature (digits: by the first principal component) and cut in ten: no two sites are
alike. Baselines are tuned: of a grid of rates, local steps and proximal weights, what needs the fewest rounds on the
first seed. `--draw` makes the plot from the results.
"""

import argparse
import functools
import json
import os
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import scax
from benchmarks.defaults import CASES, load, network
from benchmarks.steps import describe_machine

SITES = 10
#: (data set, how near to U* counts)
PAPER = {"Wine": 1.02, "SkillCraft1": 1.02, "CASP": 1.01}
EXACT_ROUNDS = 40
RATES = (1.0, 0.3, 0.1)
LOCAL_STEPS = (5, 50)
PROXIMAL = (0.01, 0.1)
SERVER_RATES = (0.03, 0.01)
DAMPINGS = (1e-3, 1e-2, 1e-1)
LABELS = {
    "exact": "exact rounds",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedadam": "FedAdam",
    "newton": "local Newton",
}
DIGITS = (64, 200, 180, 10)


def cut(x: np.ndarray, y: np.ndarray, by: np.ndarray) -> list[tuple]:
    """Ten sites of rows sorted by a number."""
    return [(x[i], y[i]) for i in np.array_split(np.argsort(by, kind="stable"), SITES)]


@functools.partial(jax.jit, static_argnames=("problem", "steps", "rounds", "batch_size", "every"))
def averaging(problem, params, x, y, sizes, whole, rate, proximal, server, *, steps, rounds, batch_size, every):
    """Objectives every few rounds: SGD with a proximal term at the sites (FedAvg where it is 0); the server takes the
    mean, or, where `server` > 0, an Adam step of that rate along it (FedAdam)."""
    layout = problem.layout(params)
    at = lambda w: layout.unflatten(w, ())

    def loss(w, x, y):
        z = problem.outputs(at(w), x)
        return jnp.mean(problem.loss.value(z, problem.loss.targets(y, z.shape[1]))) + problem.regularizer.value(w)

    def site(w0, x, y, size, key):
        def step(w, key):
            i = jax.random.randint(key, (batch_size,), 0, size)
            return w - rate * (jax.grad(loss)(w, x[i], y[i]) + proximal * (w - w0)), None

        return jax.lax.scan(step, w0, jax.random.split(key, steps))[0] - w0

    def one(carry, t):
        w, m, v = carry
        keys = jax.random.split(jax.random.fold_in(jax.random.key(1), t), SITES)
        delta = sizes @ jax.vmap(site, (None, 0, 0, 0, 0))(w, x, y, sizes, keys) / jnp.sum(sizes)
        m, v = 0.9 * m + 0.1 * delta, 0.99 * v + 0.01 * delta**2
        adam = server * m / (jnp.sqrt(v) + 1e-3)
        return (w + jnp.where(server > 0, adam, delta), m, v), None

    def some(carry, t):
        carry, _ = jax.lax.scan(one, carry, t)
        return carry, loss(carry[0], *whole)

    w = layout.flatten(params)
    start = (w, jnp.zeros_like(w), jnp.zeros_like(w))
    return jax.lax.scan(some, start, jnp.arange(rounds).reshape(-1, every))[1]


def stacked(sites: list[tuple]) -> tuple:
    """(x, y, sizes) of sites padded to the largest: rows beyond a site's size are never drawn."""
    most = max(len(y) for _, y in sites)
    pad = lambda a: np.pad(a, [(0, most - len(a))] + [(0, 0)] * (a.ndim - 1))
    x, y = (jnp.stack([jnp.asarray(pad(site[i])) for site in sites]) for i in (0, 1))
    return x, y, jnp.asarray([float(len(y)) for _, y in sites], jnp.float32)


def baseline_settings(rates=RATES, local_steps=LOCAL_STEPS) -> dict[str, list[dict]]:
    grid = [{"rate": r, "steps": e, "proximal": 0.0, "server": 0.0} for r in rates for e in local_steps]
    most = max(local_steps)
    return {
        "fedavg": grid,
        "fedprox": [s | {"proximal": p} for s in grid for p in PROXIMAL if s["steps"] == most],
        "fedadam": [s | {"server": v} for s in grid for v in SERVER_RATES if s["rate"] in (0.3, 0.1)],
    }


def follow(problem, params, sites, rounds: int, every: int, batch_size: int = 32, **setting) -> np.ndarray:
    """[rounds/every] objectives of a baseline."""
    whole = tuple(jnp.concatenate([jnp.asarray(site[i]) for site in sites]) for i in (0, 1))
    steps, numbers = setting["steps"], [setting[name] for name in ("rate", "proximal", "server")]
    found = averaging(
        problem,
        params,
        *stacked(sites),
        whole,
        *numbers,
        steps=steps,
        rounds=rounds,
        batch_size=batch_size,
        every=every,
    )
    return np.asarray(found, float)


def first(objective: np.ndarray, level: float, every: int = 1) -> int | None:
    """The first round at which the objective is below a level."""
    below = np.flatnonzero(objective <= level)
    return int(every * (below[0] + 1)) if len(below) else None


def paper(name: str, seeds: int, rounds: int, every: int = 5) -> dict:
    """One data set of the paper: rounds to near U*, curves of the first seed, bytes."""
    x, y = map(np.asarray, load(os.environ["SCAX_DATA"], name))
    net, problem = network(name)
    sites, level = cut(x, y, x[:, 0]), PAPER[name] * CASES[name].best
    starts = [net.init(jax.random.key(seed)) for seed in range(seeds)]
    q = problem.layout(starts[0]).size
    row: dict = {"set": name, "weights": q, "best": CASES[name].best, "level": PAPER[name], "methods": {}}
    exact = [scax.federated.simulate(problem, params, sites, rounds=EXACT_ROUNDS) for params in starts]
    curves = [result.history["objective"] for result in exact]
    bytes_up = float(exact[0].history["bytes_up"][0]) / SITES
    row["methods"]["exact"] = {
        "rounds": [first(curve, level) for curve in curves],
        "curve": [list(range(1, len(curves[0]) + 1)), curves[0].tolist()],
        "end": [float(curve[-1]) / CASES[name].best for curve in curves],
        "bytes": bytes_up + 4 * q,
    }
    print(name, "exact", row["methods"]["exact"]["rounds"], flush=True)
    for method, settings in baseline_settings().items():
        tried = [follow(problem, starts[0], sites, rounds, every, **setting) for setting in settings]
        score = lambda u: (first(u, level, every) or np.inf, np.nan_to_num(u[-1], nan=np.inf))
        best = min(range(len(tried)), key=lambda i: score(tried[i]))
        others = [follow(problem, params, sites, rounds, every, **settings[best]) for params in starts[1:]]
        found = [tried[best], *others]
        row["methods"][method] = {
            "setting": settings[best],
            "rounds": [first(curve, level, every) for curve in found],
            "curve": [list(range(every, rounds + 1, every)), found[0].tolist()],
            "end": [float(curve[-1]) / CASES[name].best for curve in found],
            "bytes": 8 * q,
        }
        print(name, method, settings[best], row["methods"][method]["rounds"], row["methods"][method]["end"], flush=True)
    tried = {}
    for damping in DAMPINGS:
        how = scax.SCA(problem, step_size=1.0, damping=damping, carry=0.0, mean_power=None, metric=None)
        local = scax.federated.Local(steps=1, batch_size=len(x), carry=0.0, method=how)
        tried[damping] = scax.federated.simulate(
            problem, starts[0], sites, rounds=EXACT_ROUNDS, scheme="local", local=local
        ).history["objective"]
    best = min(tried, key=lambda damping: np.nan_to_num(tried[damping][-1], nan=np.inf))
    row["methods"]["newton"] = {
        "setting": {"damping": best},
        "rounds": [first(tried[best], level)],
        "curve": [list(range(1, EXACT_ROUNDS + 1)), tried[best].tolist()],
        "end": [float(tried[best][-1]) / CASES[name].best],
        "bytes": 8 * q,
    }
    print(name, "newton", best, row["methods"]["newton"]["end"], flush=True)
    return row


def robust(rounds: int = 30) -> dict:
    """Wine with a fifth of the sites missing in every round, and one more whose sums overflow."""
    x, y = map(np.asarray, load(os.environ["SCAX_DATA"], "Wine"))
    net, problem = network("Wine")
    sites = {f"site {i}": site for i, site in enumerate(cut(x, y, x[:, 0]))}
    sites["broken"] = (x[:300], y[:300] * np.float32(1e38))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = scax.federated.simulate(problem, net.init(jax.random.key(0)), sites, rounds=rounds, missing=0.2)
    good = problem.objective(result.params, x, y)
    named = [str(warning.message) for warning in told if "broken" in str(warning.message)]
    return {"over": float(good) / CASES["Wine"].best, "rounds": result.steps, "warning": named[0] if named else None}


def digits(rounds: int = 60) -> dict:
    """A network of about 50,000 weights: local rounds beside tuned FedAvg."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = (data.data / 16 - 0.5).astype(np.float32), data.target.astype(np.int32)
    centered = x - x.mean(axis=0)
    net = scax.MLP(DIGITS)
    problem = scax.Problem(net.apply, scax.Softmax(), scax.L2(1e-4))
    sites = cut(x, y, centered @ np.linalg.svd(centered, full_matrices=False)[2][0])
    params = net.init(jax.random.key(0))
    grid = baseline_settings((1.0, 0.3, 0.1), (5, 20, 50))["fedavg"]
    tried = [follow(problem, params, sites, rounds, 1, **setting) for setting in grid]
    best = min(range(len(grid)), key=lambda i: np.nan_to_num(tried[i][-1], nan=np.inf))
    print("digits fedavg", grid[best], tried[best][[rounds // 3 - 1, -1]], flush=True)
    local = scax.federated.Local(steps=20, batch_size=32, carry=0.8)
    ours = scax.federated.simulate(problem, params, sites, rounds=rounds // 2, scheme="local", local=local)
    curve = ours.history["objective"]
    return {
        "weights": problem.layout(params).size,
        "fedavg": {"setting": grid[best], "curve": tried[best].tolist()},
        "local": {"setting": {"steps": 20, "batch_size": 32, "carry": 0.8}, "curve": curve.tolist()},
        "reached": first(curve, tried[best][-1]),
        "of": rounds,
    }


def draw(results: dict, path: Path) -> None:
    """Excess over U* on CASP's network against rounds and against bytes; the objective on digits."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    row = next(row for row in results["paper"] if row["set"] == "CASP")
    for name, found in row["methods"].items():
        at, value = (np.asarray(part, float) for part in found["curve"])
        excess = np.maximum(100 * (np.minimum.accumulate(value) / row["best"] - 1), 0.1)
        axes[0].loglog(at, excess, label=LABELS[name])
        axes[1].loglog(at * found["bytes"] / 1e3, excess, label=LABELS[name])
    for axis, label in zip(axes, ("rounds", "kB of a site, up and down", "rounds"), strict=True):
        axis.set_xlabel(label)
        axis.grid(alpha=0.25, which="both")
    axes[0].set_ylabel("objective over U*, %")
    axes[0].set_title(f"CASP, {row['weights']} weights", fontsize=10)
    axes[1].set_title("the same against bytes", fontsize=10)
    axes[0].legend(frameon=False, fontsize=8)
    if "digits" in results:
        found = results["digits"]
        for name, label in (("local", "local rounds"), ("fedavg", "FedAvg")):
            curve = found[name]["curve"]
            axes[2].loglog(range(1, len(curve) + 1), curve, label=label)
        axes[2].set_title(f"digits, {found['weights']:,} weights", fontsize=10)
        axes[2].set_ylabel("objective")
        axes[2].legend(frameon=False, fontsize=8)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=[*PAPER, "robust", "digits"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=600, help="of the baselines")
    parser.add_argument("--draw", action="store_true", help="only make the plot")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    path = options.out / "results" / "federated.json"
    results = json.loads(path.read_text()) if path.exists() else {"paper": []}
    for part in [] if options.draw else options.parts:
        if part in PAPER:
            others = [row for row in results["paper"] if row["set"] != part]
            results["paper"] = [*others, paper(part, options.seeds, options.rounds)]
        else:
            results[part] = {"robust": robust, "digits": digits}[part]()
        results["machine"] = describe_machine() | {"command": "python -m benchmarks.federated"}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n")
    if any(row["set"] == "CASP" for row in results["paper"]):
        draw(results, options.out / "images" / "federated.svg")


if __name__ == "__main__":
    main()

"""What asynchronous workers and several devices do.

    python -m experiments.scaling async --data-dir DIR          4 workers on CASP against as many synchronous steps
    python -m experiments.scaling kills --data-dir DIR          the same with 20 workers killed on the way
    NPROC=8 XLA_FLAGS=--xla_force_host_platform_device_count=2 python -m experiments.scaling devices

Each part writes its section of docs/results/scaling.json.
"""

import argparse
import json
import os
import pathlib
import random
import time

import jax
import numpy as np

import scax
from scax.reproduce.configs import TABLE2
from scax.reproduce.tables import load

RESULTS = pathlib.Path(__file__).parent.parent / "docs" / "results" / "scaling.json"


def record(section: str, value: dict) -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known[section] = value | {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    RESULTS.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    print(json.dumps(value, indent=1))


def casp(data_dir):
    row = next(row for row in TABLE2 if row.dataset == "casp")
    net = scax.MLP(row.widths, activation="tanh", output="tanh")
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    return net, problem, load(row, data_dir)


def asynchronous(data_dir, steps: int, seeds: int, kills: int) -> None:
    net, problem, (x, y) = casp(data_dir)
    runs = []
    for seed in range(seeds):
        params, key = net.init(jax.random.key(seed)), jax.random.key(100 + seed)
        sca = scax.SCA(problem)
        alone = scax.train(sca, params, (x, y), steps=steps, batch_size=20, key=key, records=1)
        killed = 0
        chance = random.Random(seed)

        def kill(crew, chance=chance):
            nonlocal killed
            if killed < kills and crew.done >= steps * (killed + 1) / (kills + 2):
                import ray

                killed += 1
                ray.kill(chance.choice(crew.workers))

        began = time.perf_counter()
        spread = scax.train_async(
            sca, params, (x, y), steps=steps, workers=4, batch_size=20, key=key, callback=kill if kills else None
        )
        together, apart = float(alone.history["objective"][-1]), float(spread.history["objective"][-1])
        told = {name: float(spread.history[name][0]) for name in ("deaths", "refused", "oldest", "age")}
        runs.append({"synchronous": together, "asynchronous": apart, "killed": killed, **told})
        runs[-1] |= {"excess": apart / together - 1, "seconds": time.perf_counter() - began}
        print(runs[-1], flush=True)
    excess = [run["excess"] for run in runs]
    record(
        "kills" if kills else "async",
        {"steps": steps, "workers": 4, "mean excess": float(np.mean(excess)), "worst": max(excess), "runs": runs},
    )


def devices(widths: tuple[int, ...], rows: int, repeats: int) -> None:
    """Milliseconds of one step, one device against all, in turn so that both meet the same load; the least of several."""
    net = scax.MLP(widths, activation="tanh")
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, widths[0])).astype(np.float32)
    batch = (x, np.sin(x[:, 0]))
    params = net.init(jax.random.key(0))
    options = {"damping": 1.0, "solver": "structured"}
    schemes = {None: None} | {s: scax.Parallel(scheme=s) for s in ("exact", "data")}
    methods = {name: scax.SCA(problem, parallel=parallel, **options) for name, parallel in schemes.items()}
    states = {name: sca.step(sca.init(params), batch)[0] for name, sca in methods.items()}
    seconds = {name: [] for name in methods}
    for _ in range(repeats):
        for name, sca in methods.items():
            jax.block_until_ready(states)
            began = time.perf_counter()
            states[name], _ = sca.step(states[name], batch)
            jax.block_until_ready(states[name])
            seconds[name].append(time.perf_counter() - began)
    best = {str(name): 1e3 * min(times) for name, times in seconds.items()}
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    record(
        f"devices {jax.device_count()}",
        {"widths": widths, "weights": size, "rows": rows, "repeats": repeats, "milliseconds": best},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["async", "kills", "devices"])
    parser.add_argument("--data-dir", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--widths", type=int, nargs="+", default=[1000, 1500, 1500, 800, 1])
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    if args.part == "devices":
        devices(tuple(args.widths), args.rows, args.repeats)
    else:
        asynchronous(args.data_dir, args.steps, args.seeds, 20 if args.part == "kills" else 0)


if __name__ == "__main__":
    main()

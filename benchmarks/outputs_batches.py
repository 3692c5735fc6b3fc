"""At which batch size does a step pay for classification: time to given objectives, SCA beside tuned Adam.

python -m benchmarks.outputs_batches [--batches 32 64 … 4096] [--rows 60000] [--seconds 170] [--out DIR]
python -m benchmarks.outputs_batches --table        of the results file, by `GOALS`

Generated data of MNIST's size (784 inputs, ten classes, 784/300/100/10; benchmarks.outputs.generate, noise 0.3). For
each batch size both methods run; Adam at five rates, constant and with cosine decay to the end of the run. Objectives
are those of all rows, of SCA's solution and of Adam's last iterate. Seconds are steps times the time of a step in one
compiled scan on the same machine; Adam has the rate that is there first, for each objective its own.
"""

import argparse
import dataclasses
import json
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import scax
from benchmarks.outputs import generate
from benchmarks.outputs_loop import lowered, timed
from benchmarks.pages import table
from benchmarks.runs import follow
from benchmarks.steps import describe_machine
from scax.training.methods import optimizer, tuned

GOALS = (0.6, 0.4, 0.2, 0.1)
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
#: Steps between two looks at the objective grow by this factor.
FACTOR = 1.15


def marks(most: int) -> list[int]:
    return sorted({round(10 * FACTOR**i) for i in range(200) if 10 * FACTOR**i <= most} | {most})


def first(ends: list[int], values: np.ndarray, goal: float) -> float | None:
    """Steps until the objective is at most `goal`, between two looks by the logarithm; None where it never is."""
    below = np.flatnonzero(values <= goal)
    if not below.size:
        return None
    i = int(below[0])
    if i == 0:
        return float(ends[0])
    share = np.log(values[i - 1] / goal) / np.log(values[i - 1] / values[i])
    return float(ends[i - 1] + share * (ends[i] - ends[i - 1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", nargs="*", type=int, default=[32, 128, 512, 2048, 4096])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--passes", type=float, default=20, help="over the rows, per run")
    parser.add_argument("--least", type=int, default=600, help="steps of a run at least")
    parser.add_argument("--most", type=int, default=4000, help="and at most")
    parser.add_argument("--seconds", type=float, default=170)
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    began, machine = time.perf_counter(), describe_machine()
    machine["command"] = machine["command"].replace("benchmarks.steps", "benchmarks.outputs_batches")
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"batches-{machine['platform']}.json"
    if options.table:
        print(tabulate(json.loads(file.read_text())["rows"]))
        return
    clock = lambda: f"{time.perf_counter() - began:4.0f} s "
    problem, params, x, y = generate("softmax", 784, (300, 100), 10, 0.3, rows=options.rows)
    sca, adam = scax.SCA(problem), scax.baseline(optimizer("adam"), problem)
    key = jax.random.key(0)

    def trained(batch: int, ends: list[int]):
        run = lambda x, y: follow(sca, sca.init(params), key, (x, y), ends, batch)[0][:, 1]
        return jax.jit(run).lower(x, y)

    def tried(batch: int, ends: list[int]):
        def run(rate, cosine, x, y):
            state = adam.init(params)
            state = dataclasses.replace(state, optimizer=tuned(state.optimizer, rate, cosine, ends[-1]))
            return follow(adam, state, key, (x, y), ends, batch)[0][:, 0]

        rates, cosines = (jnp.asarray(a) for a in np.meshgrid(np.asarray(RATES, np.float32), [0.0, 1.0]))
        every = lambda x, y: jax.vmap(run, (0, 0, None, None))(rates.ravel(), cosines.ravel(), x, y)
        return jax.jit(every).lower(x, y)

    rows, jobs, pool = [], {}, ThreadPoolExecutor(options.threads)
    for batch in options.batches:
        ends = marks(int(np.clip(options.passes * options.rows / batch, options.least, options.most)))
        plain = {"SCA": sca, "Adam": scax.baseline(optax.adam(1e-3), problem)}
        timing = {name: lowered(method, params, x, y, batch, 100, ()) for name, method in plain.items()}
        runs = {"SCA": trained(batch, ends), "Adam": tried(batch, ends)}
        programs = {("time", name): program for name, (program, _) in timing.items()}
        programs |= {("run", name): program for name, program in runs.items()}
        compiling = {which: pool.submit(program.compile) for which, program in programs.items()}
        jobs[batch] = ends, {name: args for name, (_, args) in timing.items()}, compiling
        print(clock(), batch, "traced", flush=True)
    wait([future for _, _, own in jobs.values() for future in own.values()], timeout=options.seconds / 2)
    pool.shutdown(wait=False, cancel_futures=True)
    print(clock(), "compiled", flush=True)
    for batch, (ends, arguments, compiling) in jobs.items():
        if all(future.done() and not future.cancelled() for future in compiling.values()):
            row: dict = {"batch": batch, "steps": ends[-1]}
            for name, args in arguments.items():
                program = compiling["time", name].result()
                row[f"{name} µs"] = 1e6 * min(timed(program, args, 100) for _ in range(5))
            values = np.asarray(compiling["run", "SCA"].result()(x, y))
            every = np.asarray(compiling["run", "Adam"].result()(x, y))
            shown = lambda curves: [[float(f"{value:.4g}") for value in curve] for curve in curves]
            rows.append(row | {"looks": ends, "SCA": shown([values]), "Adam": shown(every)})
            file.write_text(json.dumps({"machine": machine, "rows": rows}) + "\n")
            lowest = {name: np.nanmin(rows[-1][name], axis=1).tolist() for name in ("SCA", "Adam")}
            print(clock(), json.dumps(row | {"lowest": lowest}), flush=True)
            if time.perf_counter() - began > options.seconds:
                break
    print(tabulate(rows))


def tabulate(rows: list[dict]) -> str:
    """Milliseconds to each objective, SCA / Adam."""
    head = [
        "L",
        *(f"{name}, {goal:g}" for goal in GOALS for name in ("SCA", "Adam")),
        "SCA, µs a step",
        "Adam, µs a step",
    ]
    body = []
    for row in rows:
        cells = [str(row["batch"])]
        for goal in GOALS:
            for name in ("SCA", "Adam"):
                reached = [first(row["looks"], np.asarray(curve), goal) for curve in row[name]]
                steps = min((steps for steps in reached if steps is not None), default=None)
                cells.append("–" if steps is None else f"{steps * row[f'{name} µs'] / 1e3:.0f}")
        cells += [f"{row['SCA µs']:.0f}", f"{row['Adam µs']:.0f}"]
        body.append(cells)
    return table(head, body)


if __name__ == "__main__":
    main()

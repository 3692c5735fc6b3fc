"""How many directions a row needs: objectives of SCA with r sampled directions and with exact Hessians, beside Adam's.

python -m benchmarks.outputs_study directions --part 0/5 [--seconds 480] [--out DIR]
python -m benchmarks.outputs_study damping --part 0/5 [--seconds 480] [--out DIR]
python -m benchmarks.outputs_study join [--out DIR]

Part i of n does every n-th setting, the cheap ones first, until its time is over; each setting is a line of
OUT/directions-i.jsonl or OUT/damping-i.jsonl, which `join` makes docs/results/outputs-directions.json and
docs/results/outputs-damping.json of. Generated data with noise 0.3 (`benchmarks.outputs.generate`), networks
20/64/64/K, two seeds, the averaged iterate on 4,096 rows. Adam: the lowest of four rates with cosine decay.
"""

import argparse
import dataclasses
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import scax
from benchmarks.outputs import RATES, SETS, TABLES, generate, read
from benchmarks.pages import DOCS, table, write_rows
from benchmarks.runs import follow
from scax.training.methods import optimizer, tuned

OUTPUTS = (1, 2, 3, 10, 100, 1000)
ROWS = (16, 64, 256, 1024)
LOSSES = ("softmax", "squared", "logistic", "Poisson")
DIRECTIONS = ("1", "2", "4", "quadratic", "exact")
ENDS = (100, 300, 1000)
#: Equations up to which a setting is computed.
MOST = 1024
SEEDS = 2


def settings() -> Iterator[tuple[float, str, int, int, str]]:
    """(price, loss, K, L, method)."""
    for loss, outputs, rows, method in itertools.product(LOSSES, OUTPUTS, ROWS, (*DIRECTIONS, "Adam")):
        if (loss == "softmax" and outputs == 1) or (loss == "squared" and method == "quadratic"):
            continue
        solves = 3 if method == "exact" and loss != "squared" else 1
        equations = rows * (int(method) if method.isdigit() else outputs * (method != "Adam"))
        if equations > MOST or (method.isdigit() and int(method) >= outputs):
            continue
        price = 5 + ENDS[-1] * SEEDS * (2e-4 + 4e-6 * rows + outputs * rows * 1e-8 + solves * equations**3 / 3 / 2e10)
        yield price, loss, outputs, rows, method


def direction(loss: str, outputs: int, rows: int, method: str) -> dict:
    """One setting."""
    problem, params, x, y = generate(loss, 20, (64, 64), outputs, 0.3, rows=4096)
    keys = [jax.random.key(seed) for seed in range(SEEDS)]
    if method == "Adam":
        made = [adam(problem, params, x, y, rows, key) for key in keys]
        values = np.min(np.mean(made, axis=0), axis=0)
        return {"objectives": values.tolist()}
    sca = scax.SCA(problem, curvature=int(method) if method.isdigit() else method)
    run = jax.jit(lambda key, x, y: follow(sca, sca.init(params), key, (x, y), ENDS, rows)[0][:, 1])
    began, made = time.perf_counter(), [np.asarray(run(key, x, y)) for key in keys]
    return {"objectives": np.mean(made, axis=0).tolist(), "seconds": time.perf_counter() - began}


def adam(problem: Any, params: Any, x: Any, y: Any, rows: int, key: Any) -> np.ndarray:
    """[rates, ends] with cosine decay to each end."""
    method = scax.baseline(optimizer("adam"), problem)

    @jax.jit
    def run(rate, end, x, y):
        state = method.init(params)
        state = dataclasses.replace(state, optimizer=tuned(state.optimizer, rate, 1.0, end))
        ends: Any = [jnp.minimum(mark, end) for mark in ENDS]
        return follow(method, state, key, (x, y), ends, rows)[0][-1, 0]

    return np.asarray([[run(rate, np.int32(end), x, y) for end in ENDS] for rate in RATES])


#: Shares of damping tried on sets of classes.
SHARES = (0.032, 0.016, 0.008, 0.004, 0.002)
DAMPED = (
    "digits",
    "SkillCraft1",
    "softmax 3",
    "softmax 10",
    "softmax 10, no noise",
    "softmax 10, noise 1",
    "softmax 10, 200 inputs",
    "softmax 10, 784 inputs",
    "logistic 10",
)


def dampings(name: str, folder: Path | None) -> Iterator[dict]:
    """Objectives after 100, 300 and 1,000 steps of 64 rows for shares of damping, two directions a row."""
    problem, params, x, y = read(name, folder) if name in TABLES else generate(*SETS[name])

    @jax.jit
    def run(sca, key):
        return follow(sca, sca.init(params), key, (x, y), ENDS, 64)[0]

    for share in SHARES:
        sca = scax.SCA(problem, curvature=2, damping=scax.Relative(share=share))
        last, averaged = np.asarray(run(sca, jax.random.key(0))).T
        yield {"set": name, "share": share, "objectives": averaged.tolist(), "last": last.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["directions", "damping", "join"])
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    began, (part, parts) = time.perf_counter(), map(int, options.part.split("/"))
    left = lambda: options.seconds - (time.perf_counter() - began)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{options.what}-{part}.jsonl"

    def save(row: dict) -> None:
        with file.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        print(f"{time.perf_counter() - began:4.0f} s {json.dumps(row)}", flush=True)

    if options.what == "directions":
        mixed = np.random.default_rng(0).permutation(len(every := list(settings())))
        ahead = sorted((every[i] for i in mixed), key=lambda setting: setting[0] // 10)  # of a price, in any order
        for price, loss, outputs, rows, method in ahead[part::parts]:
            if price < left():
                save({"loss": loss, "K": outputs, "L": rows, "method": method} | direction(loss, outputs, rows, method))
    elif options.what == "damping":
        for name in DAMPED[part::parts]:
            for row in dampings(name, options.data_dir):
                save(row)
                if left() < 20:
                    return
    else:  # the lines of all parts as one file for each study
        for study in ("directions", "damping"):
            lines = [line for path in options.out.glob(f"{study}-*.jsonl") for line in path.read_text().splitlines()]
            if lines:
                command = f"python -m benchmarks.outputs_study {study}"
                write_rows(DOCS / f"results/outputs-{study}.json", map(json.loads, lines), command)


def tabulate(rows: list[dict]) -> str:
    """Objectives after 1,000 steps over those of two directions, of one or two outputs over those of exact steps.

    Geometric means over the numbers of rows with which both were run, and how many these are.
    """
    found = {(row["loss"], row["K"], row["L"], row["method"]): row["objectives"][-1] for row in rows}
    body = []
    for loss, outputs in itertools.product(LOSSES, OUTPUTS):
        base = "2" if outputs > 2 else "exact"
        own = {L: end for L in ROWS if (end := found.get((loss, outputs, L, base)))}
        ratios = {
            method: [found[key] / own[L] for L in own if (key := (loss, outputs, L, method)) in found]
            for method in (*DIRECTIONS, "Adam")
        }
        if own:
            cells = [f"{np.exp(np.mean(np.log(each))):.2f} ({len(each)})" if each else "" for each in ratios.values()]
            body.append((loss, f"{outputs:,}", *cells))
    return table(("loss", "K", *DIRECTIONS, "Adam"), body)


if __name__ == "__main__":
    main()

"""What the engine costs: a step of `scax.train` over the same step in a plain `lax.scan` over batches drawn beforehand.

    python -m benchmarks.engine [--steps 4000] [--repeats 15] [--out docs/results] [--show]

All parts take turns in one process; what counts is the median of the ratios, in wall and in processor seconds. On a
machine that others use, the ratio of the least times says more.

    scan           the method's step on batches that lie ready, nothing else
    engine         the engine's loop in one call: drawing, gathering, stepping, adding up what the steps report
    + records      the same with 100 records, each of which measures the objective
    train          `scax.train` as it is called, with its 100 records: checks, start, calls, history
    train, 1 record
    compiled step      one call of jax.jit(method.step) after the other
    step               the same calls without jit; its ratio is to the compiled step
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import scax
from benchmarks import pages
from benchmarks.steps import CASES
from scax.tables.shuffle import Shuffle
from scax.training import engine
from scax.training.evaluation import Objective
from scax.training.feed import Rows

CASE, ROWS, RECORDS = "CASP 9/10/6/1", (2048, 34_297), 100
#: The most that a part may cost: `train` over the scan, a step without jit over one with it.
TARGETS = {"train": 1.25, "step": 1.5}
#: What a part is compared with, unless it is the scan.
BASES = {"step": "compiled step"}
CALLS = 200  # steps that are called one by one
METHODS = {"SCA": scax.SCA, "Adam": lambda problem: scax.baseline(optax.adam(1e-3), problem)}


def parts(method: Any, problem: Any, params: Any, x: Any, y: Any, batch: int, steps: int) -> dict[str, Callable]:
    """Functions that take all steps once, after something that is not timed."""
    order = Shuffle.start(jax.random.key(0), x.shape[0]).draw(batch * steps)[1].reshape(steps, batch)
    ready = jax.block_until_ready((x[order], y[order]))
    scan = jax.jit(lambda state, data: jax.lax.scan(lambda s, b: (method.step(s, b)[0], None), state, data)[0])
    state, feed = method.init(params), Rows(scax.Batch(x, y), batch)
    few, key = np.full(RECORDS, engine.NEVER, np.int32), jax.random.key(0)
    many = np.arange(steps // RECORDS, steps + 1, steps // RECORDS, dtype=np.int32)
    watched = Objective(feed.sample(max(512, batch * steps // RECORDS)))

    def loop(goals: np.ndarray, measure: Any):
        carry = jax.block_until_ready(engine.start(method, params, feed, key))
        return lambda: engine.run(method, measure)(carry, feed, goals, np.int32(steps))

    first = jax.block_until_ready([(ready[0][i], ready[1][i]) for i in range(CALLS)])
    compiled = jax.jit(method.step)

    def call(step: Callable):
        now = state
        for pair in first:
            now, _ = step(now, pair)
        return now

    run = lambda records: scax.train(method, params, (x, y), steps=steps, batch_size=batch, records=records).state
    return {
        "scan": lambda: lambda: scan(state, ready),
        "engine": lambda: loop(few, None),
        "+ records": lambda: loop(many, watched),
        "train": lambda: lambda: run(RECORDS),
        "train, 1 record": lambda: lambda: run(1),
        "compiled step": lambda: lambda: call(compiled),
        "step": lambda: lambda: call(method.step),
    }


def measure(rows: int, steps: int, repeats: int) -> list[dict]:
    (case,) = (c for c in CASES if c.name == CASE)
    problem, params, x, y = case.build()
    rng = np.random.default_rng(1)
    chosen = jnp.asarray(rng.integers(0, x.shape[0], rows))
    x, y = x[chosen] + jnp.asarray(0.01 * rng.normal(size=(rows, x.shape[1])), jnp.float32), y[chosen]
    table = []
    for name, make in METHODS.items():
        loops = parts(make(problem), problem, params, x, y, case.batch, steps)
        seconds: dict[str, list[tuple[float, float]]] = {part: [] for part in loops}
        for turn in range(repeats + 1):
            for part, begin in loops.items():
                run = begin()
                wall, processor = time.perf_counter(), time.process_time()
                jax.block_until_ready(run())
                if turn:  # the first turn compiles
                    seconds[part].append((time.perf_counter() - wall, time.process_time() - processor))
        for part, found in seconds.items():
            base, count = seconds[BASES.get(part, "scan")], CALLS if "step" in part else steps
            share = steps / count if part == "compiled step" else 1  # fewer calls are timed than steps of the scan
            ratios = [[share * a[clock] / b[clock] for a, b in zip(found, base, strict=True)] for clock in (0, 1)]
            table.append(
                {
                    "method": name,
                    "rows": rows,
                    "steps": steps,
                    "part": part,
                    "ratio": statistics.median(ratios[0]),
                    "processor_ratio": statistics.median(ratios[1]),
                    "least_ratio": share * min(found)[0] / min(base)[0],
                    "microseconds": 1e6 * min(found)[0] / count,
                }
            )
            print(markdown(table[-1:]).splitlines()[-1], flush=True)
    return table


def markdown(table: list[dict]) -> str:
    body = []
    for row in table:
        target, verdict = TARGETS.get(row["part"]), ""
        if target is not None:
            verdict = f", ≤ {target} {'met' if row['ratio'] <= target else 'missed'}"
        ratios = f"{row['ratio']:.2f}{verdict}", f"{row['processor_ratio']:.2f}", f"{row['least_ratio']:.2f}"
        body.append([row["method"], f"{row['rows']:,}", row["part"], f"{row['microseconds']:.1f}", *ratios])
    head = ["method", "rows", "part", "µs per step", "ratio (wall)", "(processor)", "(least)"]
    return pages.table(head, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=pages.DOCS / "results")
    parser.add_argument("--show", action="store_true", help="write the table of docs/measurements/speed.md, no more")
    options = parser.parse_args()
    if options.show:
        table = json.loads((pages.DOCS / "results/engine.json").read_text())["rows"]
        pages.write_tables(pages.DOCS / "measurements/speed.md", {"engine": markdown(table)})
        return
    table = [row for rows in ROWS for row in measure(rows, options.steps, options.repeats)]
    command = f"python -m benchmarks.engine --steps {options.steps} --repeats {options.repeats}"
    options.out.mkdir(parents=True, exist_ok=True)
    pages.write_rows(options.out / "engine.json", table, command)
    print(markdown(table))


if __name__ == "__main__":
    main()

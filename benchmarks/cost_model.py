"""How often the cost model of `solver="auto"` picks the fastest solver, and what it loses where it does not.

    python -m benchmarks.cost_model [--cases NAME ...] [--repeats 5] [--before 40] [--out docs/results]

Every direct solver and conjugate gradients take the same steps of a training, in compiled loops that are interleaved in
one process on one thread: least processor seconds on a CPU, wall seconds elsewhere. Stored are times per step, the
model's multiply-adds and its choice; multiply-adds per second, printed beside the times, should be about the same for
all solvers of a case.
"""

import argparse
import dataclasses
import json
import math
import os
import statistics
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by the libraries below when they are loaded
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import jax
import jax.numpy as jnp
import numpy as np

import scax
from benchmarks.steps import cnn, describe_machine, looped
from scax.linearize.network import NetworkFunction
from scax.solvers import cost, plan_step
from scax.solvers.choose import SOLVERS
from scax.solvers.cost import Dimensions, costs

NAMES = ("weight-space", "sample-space", "structured", "cg")
CONSTANTS = ("WRITE", "FACTORIZATION", "CG_ITERATIONS", "STIFF", "NEWTON_ITERATIONS", "SEVERAL")
#: A solver that should take this many times as long as the one chosen is not timed.
TOO_LONG = 20
#: Steps taken before timing starts: a curvature memory changes at each of the first.
BEFORE = 40


@dataclasses.dataclass(frozen=True)
class Case:
    """A network by its widths, or "cnn"; rows in a batch; the loss; with or without a curvature memory."""

    widths: tuple[int, ...] | str
    rows: int
    loss: str = "squared"
    metric: str | None = None

    @property
    def name(self) -> str:
        network = self.widths if isinstance(self.widths, str) else "/".join(map(str, self.widths))
        return f"{network} {self.loss}, L={self.rows}" + (", memory" if self.metric else "")

    def build(self):
        """(problem, params, x, y) with generated data."""
        rng = np.random.default_rng(0)
        count = max(2048, 2 * self.rows)
        if isinstance(self.widths, str):
            apply, params, shape = cnn(rng)
            outputs = 10
        else:
            net = scax.MLP(self.widths)
            apply, params, shape, outputs = net.apply, net.init(jax.random.key(0)), self.widths[:1], self.widths[-1]
        x = rng.normal(size=(count, *shape)).astype(np.float32)
        score = np.tanh(x.reshape(count, -1) @ rng.normal(size=(math.prod(shape), outputs)) / math.sqrt(x[0].size))
        score = score + 0.1 * rng.normal(size=score.shape)
        loss, y = {
            "squared": (scax.Squared(), score),
            "logistic": (scax.Logistic(), score > 0),
            "softmax": (scax.Softmax(), score.argmax(1)),
        }[self.loss]
        y = jnp.asarray(y) if self.loss == "softmax" else jnp.asarray(y, jnp.float32)
        return scax.Problem(apply, loss, scax.L2(1e-3)), params, jnp.asarray(x), y


SMALL, MIDDLE, WIDE = (9, 10, 6, 1), (10, 64, 64, 1), (20, 200, 100, 1)
CASES = [
    *(Case(SMALL, rows) for rows in (1, 20, 100, 400, 2000)),
    *(Case(SMALL, rows, metric="low-rank") for rows in (20, 100, 400)),
    *(Case((5, 50, 1), rows) for rows in (100, 1000)),
    *(Case(MIDDLE, rows) for rows in (20, 200, 800, 2000)),
    *(Case(MIDDLE, rows, "logistic") for rows in (50, 400)),
    Case(MIDDLE, 200, metric="low-rank"),
    *(Case(WIDE, rows) for rows in (20, 400)),
    *(Case((20, 64, 10), rows, "softmax") for rows in (16, 100)),
    *(Case((20, 40, 8), rows) for rows in (32, 256)),
    Case((100, 400, 200, 1), 64),
    Case((100, 400, 200, 1), 500),
    Case((784, 300, 100, 10), 8, "softmax"),
    *(Case("cnn", rows, "softmax") for rows in (8, 32)),
]


def dimensions(case: Case, problem, params, x) -> Dimensions:
    """The sizes that the model sees."""
    layout = problem.layout(params)
    network = NetworkFunction(problem, layout, layout.split(params)[1])
    rank = 16 if case.metric else 0
    return plan_step(
        SOLVERS["cg"], network, layout.flatten(params), x[: case.rows], case.rows, memory_rows=rank
    ).dimensions


def measure(case: Case, repeats: int, seconds: float, before: int) -> dict:
    """Least microseconds per step of every solver."""
    problem, params, x, y = case.build()
    sizes = dimensions(case, problem, params, x)
    table = costs(sizes)
    longest = TOO_LONG * table[scax.solvers.Auto().choose(sizes).solver.name].multiply_adds
    loops = {}
    for name in NAMES:
        if table[name].multiply_adds <= longest:
            method = scax.SCA(problem, solver=name, metric=case.metric)
            loops[name] = looped(method, params, x, y, case.rows, before)
    counts = {name: int(min(max(seconds / loop(1)[0], 1), 5000)) for name, loop in loops.items()}
    times = {name: [] for name in loops}
    clock = 1 if jax.default_backend() == "cpu" else 0  # (wall, processor)
    for _ in range(repeats):
        for name, loop in loops.items():
            times[name].append(1e6 * loop(counts[name])[clock])
    return {"case": case.name, "us": {name: min(t) for name, t in times.items()}}


def assess(found: list[dict]) -> list[dict]:
    """What `auto` takes for every case that was measured, and its time over the fastest solver's."""
    by_name = {case.name: case for case in CASES}
    rows = []
    for row in found:
        case = by_name[row["case"]]
        problem, params, x, _ = case.build()
        sizes = dimensions(case, problem, params, x)
        us, chosen = row["us"], scax.solvers.Auto().choose(sizes).solver.name
        model = {name: value.multiply_adds for name, value in costs(sizes).items()}
        fastest = min(us, key=us.get)
        rows.append({**row, "model": model, "chosen": chosen, "fastest": fastest, "ratio": us[chosen] / us[fastest]})
    return rows


def summarize(rows: list[dict]) -> dict:
    ratios = [row["ratio"] for row in rows]
    right = sum(row["chosen"] == row["fastest"] for row in rows)
    return {
        "cases": len(rows),
        "fastest_chosen": right,
        "within_a_fifth": sum(r <= 1.2 for r in ratios),
        "mean_ratio": math.exp(statistics.mean(map(math.log, ratios))),
        "largest_ratio": max(ratios),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", help="substrings of case names; all by default")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="per repeat and solver")
    parser.add_argument("--before", type=int, default=BEFORE, help="steps of the training before timing starts")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    path = options.out / "cost-model.json"
    stored = json.loads(path.read_text())["results"] if path.exists() else []
    machine = {**describe_machine(), "command": "python -m benchmarks.cost_model"}
    results = {row["case"]: row for row in stored}
    for case in CASES:
        if options.cases and not any(part in case.name for part in options.cases):
            continue
        (row,) = assess([measure(case, options.repeats, options.seconds, options.before)])
        results[case.name] = row
        print(f"{row['case']:36s} {row['chosen']:13s} {row['ratio']:5.2f}", end="  ")
        speed = {name: row["model"][name] / us / 1e3 for name, us in row["us"].items()}
        print("  ".join(f"{name} {us:,.0f} µs {speed[name]:.0f} G/s" for name, us in row["us"].items()), flush=True)
        ordered = [results[c.name] for c in CASES if c.name in results]
        constants = {name: getattr(cost, name) for name in CONSTANTS}
        whole = {"machine": machine, "constants": constants, "summary": summarize(ordered), "results": ordered}
        path.write_text(json.dumps(whole, indent=1) + "\n")
    print(summarize(assess(list(results.values()))))


if __name__ == "__main__":
    main()

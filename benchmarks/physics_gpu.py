"""Equations against the clock, and the parts of a large step; `python -m benchmarks.physics gpu` and `… parts` run it.

Records have the steps, seconds since the first step without compilation, errors on points not trained on, and what the
steps reported. Every record is written at once, beside those of other problems and methods.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import scax
from benchmarks.equations import EQUATIONS, Equation
from benchmarks.natural_gradient import NaturalGradient
from benchmarks.steps import describe_machine
from scax._struct import static, struct
from scax.rules.acceptance import Descent
from scax.rules.damping import GainRatio
from scax.training import engine
from scax.training.method import for_all_rows, for_fresh_points
from scax.training.term_feed import term_feed

FILE = Path(__file__).parent.parent / "docs/results/physics-gpu.json"
#: A record every tenth of the steps so far.
GROWTH, MOST_STEPS = 1.1, 10_000_000
#: Steps of Adam's cosine schedule.
ADAM_STEPS = 50_000

#: (problem, options) -> method
METHODS: dict[str, Callable[..., Any]] = {
    "scax": lambda problem, **options: scax.SCA(problem, **options),
    "full": lambda problem, **options: scax.SCA(problem, metric="full", **options),
    "noisy": lambda problem, **options: scax.SCA(problem, metric=None, **options),
    "levenberg": lambda problem, carry=0.3, **options: scax.SCA(
        problem, metric=None, step_size=1.0, carry=carry, damping=GainRatio(), acceptance=Descent(), **options
    ),
    "spring": lambda problem, damping=2.086e-10, carry=0.0633, **options: NaturalGradient(
        problem, damping, carry, **options
    ),
    "engd": lambda problem, damping=3.173e-12, **options: NaturalGradient(problem, damping, **options),
    "adam": lambda problem, rate=1e-3: scax.baseline(
        optax.adam(optax.cosine_decay_schedule(rate, ADAM_STEPS)), problem
    ),
}


@struct
class Errors:
    """Errors of what would be deployed."""

    equation: Equation = static()

    def __call__(self, method: Any, state: Any) -> dict[str, jax.Array]:
        return self.equation.errors(method.solution(state))


def goals() -> list[int]:
    steps, made = 1.0, []
    while steps < MOST_STEPS:
        steps = max(steps + 1, steps * GROWTH)
        made.append(int(steps))
    return made


def solve(name: str, method: str, seconds: float, options: dict[str, Any], start: int, file: Path, label: str) -> None:
    """One run, ended by the clock."""
    equation = EQUATIONS[name]()
    key = jax.random.key(start)
    params = jax.tree.map(lambda leaf: leaf.astype(float), equation.begin(key))
    made = METHODS[method](equation.problem, **options)
    feed = term_feed(equation.problem, params, equation.data, None)
    made, until = for_all_rows(made, params) if feed.is_whole else (made, None)
    made = for_fresh_points(made, params, feed.rows) if feed.is_fresh else made
    run = engine.run(made, Errors(equation), until=until)
    began = time.perf_counter()
    carry = engine.prepare(run, engine.start(made, params, feed, key, until=until), feed)
    compiled = time.perf_counter() - began
    found: dict[str, Any] = {"options": options, "start": start, "compile_seconds": round(compiled, 1), "records": []}
    found |= {"weights": sum(leaf.size for leaf in jax.tree.leaves(params)), "rows": feed.rows}
    shown = 0.0
    for part in engine.drive(run, carry, feed, goals()):
        for record in part.records:
            found["records"].append({k: v if k == "step" else float(f"{float(v):.4g}") for k, v in record.items()})
        if part.records and part.records[-1]["seconds"] > shown:
            write(file, name, label, found)
            last = found["records"][-1]
            shown = max(last["seconds"] + 5, shown)
            parts = [f"{k} {last[k]:.2g}" for k in ("seconds", "rms", "relative", "batch_loss", "clock") if k in last]
            print(name, label, f"step {last['step']}", *parts, flush=True)
        if time.perf_counter() - began - compiled > seconds:
            break
    write(file, name, label, found)


def write(file: Path, name: str, label: str, found: dict[str, Any]) -> None:
    """Beside what other runs have written."""
    whole = json.loads(file.read_text()) if file.exists() else {}
    whole.setdefault("machine", describe_machine())
    runs = whole.setdefault("runs", {}).setdefault(name, {})
    runs[label] = found
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{name}.tmp")
    temporary.write_text(json.dumps(whole) + "\n")
    temporary.replace(file)


def clocked(function: Callable, *arguments: Any, repeats: int = 10) -> float:
    """Milliseconds of a call, the median of several, each waited for."""
    function = jax.jit(function)
    jax.block_until_ready(function(*arguments))
    took = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        took.append(1e3 * (time.perf_counter() - began))
    return float(np.median(took))


def parts(file: Path, name: str) -> None:
    """The parts of a step, each alone."""
    from scax.linearize.base import symmetric_product
    from scax.linearize.network import NetworkFunction
    from scax.linearize.stacked import stack_dense
    from scax.solvers.linear.cholesky import by_cholesky

    equation, key = EQUATIONS[name](), jax.random.key(0)
    params = jax.tree.map(lambda leaf: leaf.astype(float), equation.begin(key))
    feed = term_feed(equation.problem, params, equation.data, None)
    plan = feed.plan(feed.start(key), 64)
    draw = lambda i: equation.problem.conform(params, feed.batch(plan, i), jnp.float64)
    batch = jax.jit(draw)(0)
    layout = equation.problem.layout(params)
    network, w = NetworkFunction(equation.problem, layout, ()), layout.flatten(params)
    jacobian = lambda w: stack_dense(network, w, batch.x).matrix[:, 0]
    j = jax.jit(jacobian)(w)
    m, q = j.shape
    k, r = jax.jit(lambda j: j @ j.T + 1e-3 * jnp.eye(m))(j), j[:, 0]
    a = jax.jit(lambda j: j.T @ j + 1e-3 * jnp.eye(q))(j)
    triangle = lambda l, r, t: jax.lax.linalg.triangular_solve(l, r[:, None], left_side=True, lower=True, transpose_a=t)
    one = lambda x: jax.lax.linalg.symmetric_product(x, jnp.zeros((x.shape[0], x.shape[0])), symmetrize_output=True)
    cases: dict[str, Callable[[], float]] = {
        "draw points": lambda: clocked(draw, 0),
        "outputs": lambda: clocked(lambda w: network(w, batch.x), w),
        "J": lambda: clocked(jacobian, w),
        "J d": lambda: clocked(lambda j, w: j @ w, j, w),
        "JJ^T, in parts": lambda: clocked(symmetric_product, j),
        "JJ^T, one product": lambda: clocked(lambda j: j @ j.T, j),
        "JJ^T, library": lambda: clocked(one, j),
        "Cholesky of JJ^T": lambda: clocked(jax.lax.linalg.cholesky, k),
        "triangular solve": lambda: clocked(lambda l, r: triangle(l, r, False), k, r),
        "transposed solve": lambda: clocked(lambda l, r: triangle(l, r, True), k, r),
        "Cholesky and both solves": lambda: clocked(by_cholesky, k, r),
        "J^TJ, in parts": lambda: clocked(lambda j: symmetric_product(j.T), j),
        "J^TJ, one product": lambda: clocked(lambda j: j.T @ j, j),
        "J^TJ, library": lambda: clocked(lambda j: one(j.T), j),
        "Cholesky of J^TJ": lambda: clocked(jax.lax.linalg.cholesky, a, repeats=4),
        "J^TJ: Cholesky and both solves": lambda: clocked(by_cholesky, a, w, repeats=4),
    }
    times: dict[str, Any] = {"rows": m, "weights": q}
    for case, measure in cases.items():
        try:
            times[case] = round(measure(), 3)
        except Exception as error:  # a library that lacks a product ends no other measurement
            times[case] = f"{type(error).__name__}: {error}"[:200]
        print(f"{case:32} {times[case]}", flush=True)
        whole = json.loads(file.read_text()) if file.exists() else {}
        whole.setdefault("parts_ms", {}).setdefault(name, {}).update(times)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(whole) + "\n")


#: What the page calls a run of each label.
NAMES = {"scax": "scax", "engd": "ENGD-W", "spring": "SPRING", "levenberg": "one batch, gain ratio"}
#: Of the runs of a problem.
DRAWN = ("scax", "spring", "ENGD-W, damping 1e-10", "levenberg", "scax, one CPU core")
#: Errors to which times are given, by problem, and the measure of them.
GOALS = {
    "poisson5": ("rms", (1e-4, 1e-5, 2e-6, 1e-6)),
    "heat": ("relative", (1e-4, 1e-5, 7e-7)),
    "burgers": ("relative", (1e-3, 2e-5, 5e-6)),
    "allen_cahn": ("relative", (1e-2, 1e-3, 2e-5)),
}


def table(whole: dict[str, Any]) -> str:
    """Seconds to given errors, of every run."""
    lines = []
    for problem, (measure, errors) in GOALS.items():
        if problem not in whole["runs"]:
            continue
        lines += [
            f"| {problem}, {measure} | ms a step | compile | " + " | ".join(f"{e:.0e}" for e in errors) + " | last |"
        ]
        lines += ["|---|" + "---|" * (len(errors) + 3)]
        for label, run in whole["runs"][problem].items():
            records = run["records"]
            reached = [next((r["seconds"] for r in records if r[measure] <= e), None) for e in errors]
            last, first = records[-1], records[len(records) // 2]
            each = 1e3 * (last["seconds"] - first["seconds"]) / (last["step"] - first["step"])
            cells = ["–" if s is None else f"{s:.3g} s" for s in reached]
            end = f"{last[measure]:.1e} after {last['step']:,} steps, {last['seconds']:.0f} s"
            name, each = NAMES.get(label, label), f"{each:.0f}" if each > 99.5 else f"{each:.2g}"
            lines += [f"| {name} | {each} | {run['compile_seconds']:.0f} s | {' | '.join(cells)} | {end} |"]
        lines += [""]
    return "\n".join(lines)


def plot(whole: dict[str, Any], out: Path) -> None:
    """Error over time."""
    import matplotlib.pyplot as plt

    shown = [problem for problem in GOALS if problem in whole["runs"]]
    plt.rcParams |= {"svg.hashsalt": "physics", "font.size": 9}
    figure, axes = plt.subplots(1, len(shown), figsize=(3.2 * len(shown), 3.4), layout="constrained", squeeze=False)
    for axis, problem in zip(axes[0], shown, strict=True):
        measure, errors = GOALS[problem]
        for label, run in whole["runs"][problem].items():
            if label in DRAWN:
                records = [r for r in run["records"] if r["step"] > 4]
                axis.loglog(
                    [r["seconds"] for r in records], [r[measure] for r in records], label=NAMES.get(label, label)
                )
        axis.axhline(errors[-1], color="gray", linewidth=0.8, linestyle=":")
        axis.set(title=problem, xlabel="seconds", ylabel={"rms": "RMS error", "relative": "relative L2 error"}[measure])
        axis.legend(fontsize=7, frameon=False, loc="lower left")
    figure.savefig(out, metadata={"Date": None})

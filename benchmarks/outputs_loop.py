"""What a step with many outputs costs where steps are compiled into one loop of known length, and its parts.

python -m benchmarks.outputs_loop [--cases NAME ...] [--count 200] [--parts] [--seconds 150] [--out DIR]

Programs are compiled side by side; every row is printed as it is measured. Results go to OUT/loop-PLATFORM.json.
"""

import argparse
import contextlib
import json
import re
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import jax
import jax.numpy as jnp
import optax

import scax
from benchmarks.outputs import STEPS
from benchmarks.steps import CASES, Case, describe_machine
from scax.rules import damping, iterate_average
from scax.solvers.linear import cholesky


@contextlib.contextmanager
def replaced(*changes: tuple):
    """Other values of module attributes, for as long as a program is traced."""
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def branching(needed, compute, otherwise):
    """`rules.base.where_needed` as a branch on every platform."""
    return jax.lax.cond(needed, compute, lambda: otherwise)


BRANCHES = ((damping, "where_needed", branching), (iterate_average, "where_needed", branching))
LIBRARY = ((cholesky, "LARGEST_KERNEL", 0),)
#: Measured of every case.
MAIN = ("Adam", "auto")


def methods(problem: scax.Problem, case: Case, parts: bool) -> dict[str, tuple]:
    """name -> (method, what is replaced while it is traced)."""
    made: dict[str, tuple] = {
        "Adam": (scax.baseline(optax.adam(1e-3), problem), ()),
        "auto": (scax.SCA(problem), ()),
    }
    if not parts:
        return made
    made |= {
        "auto, no acceptance": (scax.SCA(problem, acceptance=False), ()),
        "auto, last iterate": (scax.SCA(problem, mean_power=None), ()),
        "auto, branches": (scax.SCA(problem), BRANCHES),
        "auto, neither, steps counted": (
            scax.SCA(problem, acceptance=False, mean_power=None, clock=scax.rules.StepCount()),
            (),
        ),
    }
    if case.loss == "softmax":
        made["one direction"] = (scax.SCA(problem, curvature=1), ())
    if case.batch <= cholesky.LARGEST_KERNEL:
        made["auto, library's Cholesky"] = (scax.SCA(problem), LIBRARY)
    if case.loss == "logistic":
        made["exact"] = (scax.SCA(problem, curvature="exact"), ())
    return made


def lowered(method, params, x, y, batch: int, count: int, changes: tuple):
    """(the program of `count` steps, its arguments)."""
    order = jax.random.randint(jax.random.key(1), (count, batch), 0, x.shape[0])

    def run(method, state, x, y, order):
        return jax.lax.scan(lambda state, rows: (method.step(state, (x[rows], y[rows]))[0], None), state, order)[0]

    state = method.init(params)
    if changes:
        jax.clear_caches()  # a step that was traced with other parts must not be found again
    with replaced(*changes):
        program = jax.jit(run).lower(method, state, x, y, order)
    if changes:
        jax.clear_caches()
    return program, (method, state, x, y, order)


def describe(text: str) -> dict[str, int]:
    """Instructions of a compiled program by kind."""
    kinds = re.findall(r"= \S+(?: \S+)*? ([a-z][\w\-]*)\(", text)
    count = {kind: kinds.count(kind) for kind in ("fusion", "custom-call", "while", "conditional", "copy", "sort")}
    return count | {"command buffers": len(set(re.findall(r"to_apply=%?(command_buffer[\w.]*)", text)))}


def timed(program: Callable, arguments: tuple, count: int) -> float:
    began = time.perf_counter()
    jax.block_until_ready(program(*arguments))
    return (time.perf_counter() - began) / count


def large_systems(sizes: tuple[int, ...], repeats: int, on_row: Callable[[dict], None]) -> None:
    """Cholesky and solve of m equations by the library alone, and an exact step that solves as many."""
    for m in sizes:
        for dtype in (jnp.float32, jnp.float64):
            with jax.enable_x64(True):
                rows = jax.random.normal(jax.random.key(0), (m, m), dtype)
                matrix, right = rows @ rows.T / m + jnp.eye(m, dtype=dtype), jnp.ones(m, dtype)

                def alone(matrix, right):
                    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(matrix), right)

                net = scax.MLP((50, 200, 200, 10))
                problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
                x = jax.random.normal(jax.random.key(1), (m // 10, 50), dtype)
                y = jnp.sin(x[:, :10])
                method = scax.SCA(problem, curvature="exact", solver="structured")
                state = method.init(net.init(jax.random.key(2), dtype))
                programs = {
                    "cho_factor, cho_solve": (jax.jit(alone), (matrix, right)),
                    "step": (jax.jit(lambda state, x, y, method=method: method.step(state, (x, y))[0]), (state, x, y)),
                }
                row: dict = {"equations": m, "dtype": jnp.dtype(dtype).name}
                for name, (program, arguments) in programs.items():
                    compiled = program.lower(*arguments).compile()
                    timed(compiled, arguments, 1)
                    row[name] = statistics.median(timed(compiled, arguments, 1) for _ in range(repeats))
                    if name == "step":
                        row |= describe(compiled.as_text())
                on_row(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", default=list(STEPS))
    parser.add_argument("--count", type=int, default=200, help="steps of a program")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--parts", nargs="*", default=[], help="cases whose step is measured without its parts, too")
    parser.add_argument("--systems", nargs="*", type=int, default=[], help="equations of large systems")
    parser.add_argument("--compiling", type=float, default=100, help="seconds; programs that take longer are left out")
    parser.add_argument("--seconds", type=float, default=150, help="no case is begun after so many")
    parser.add_argument("--threads", type=int, default=4, help="programs compiled at once")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    began, machine = time.perf_counter(), describe_machine()
    machine["command"] = machine["command"].replace("benchmarks.steps", "benchmarks.outputs_loop")
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"loop-{machine['platform']}.json"
    results: dict = {"machine": machine, "steps": [], "systems": []}

    def save(part: str, row: dict) -> None:
        results[part].append(row)
        file.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{time.perf_counter() - began:5.0f} s  {json.dumps(row)}", flush=True)

    wanted = [case for case in CASES if case.name in options.cases]
    wanted.sort(key=lambda case: options.cases.index(case.name))
    built = {case.name: case.build() for case in wanted}
    every = {case.name: methods(built[case.name][0], case, case.name in options.parts) for case in wanted}
    # in every case Adam and the default first: what is not compiled in time is left out
    ahead = [
        (case, name)
        for whole in (True, False)
        for case in wanted
        for name in every[case.name]
        if (name in MAIN) is whole
    ]
    jobs: dict[tuple[str, str], tuple] = {}
    pool = ThreadPoolExecutor(options.threads)
    for case, name in ahead:
        if time.perf_counter() - began > options.compiling:
            break
        (_, params, x, y), (method, changes) = built[case.name], every[case.name][name]
        try:
            program, arguments = lowered(method, params, x, y, case.batch, options.count, changes)
        except Exception as error:  # a kernel that does not lower is no reason to lose the others
            print(f"{case.name}, {name}: {error}"[:500], flush=True)
            continue
        jobs[case.name, name] = pool.submit(program.compile), arguments
    print(f"{time.perf_counter() - began:5.0f} s  {len(jobs)} programs traced", flush=True)
    futures = [future for future, _ in jobs.values()]
    done, _ = wait(futures, timeout=max(options.compiling - (time.perf_counter() - began), 0))
    pool.shutdown(wait=False, cancel_futures=True)
    print(f"{time.perf_counter() - began:5.0f} s  {len(done)} of them compiled", flush=True)
    for case in wanted:
        own = {}
        for (owner, name), (future, arguments) in jobs.items():
            if owner != case.name or future not in done:
                continue
            if failed := future.exception():
                print(f"{owner}, {name}: {failed}"[:500], flush=True)
            else:
                own[name] = future.result(), arguments
        if "Adam" not in own or time.perf_counter() - began > options.seconds:
            continue
        times: dict[str, list[float]] = {name: [] for name in own}
        for program, arguments in own.values():
            timed(program, arguments, options.count)
        for _ in range(options.repeats):
            for name, (program, arguments) in own.items():
                times[name].append(timed(program, arguments, options.count))
        for name, (program, _) in own.items():
            ratios = [a / b for a, b in zip(times[name], times["Adam"], strict=True)]
            row: dict = {"case": case.name, "method": name, "microseconds": 1e6 * statistics.median(times[name])}
            row |= {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
            save("steps", row | describe(program.as_text()))
    if options.systems and time.perf_counter() - began < options.seconds:
        large_systems(tuple(options.systems), 5, lambda row: save("systems", row))


if __name__ == "__main__":
    main()

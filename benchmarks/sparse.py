"""Sparse surrogates: semismooth Newton against FISTA at one duality gap, and a sparse step against Adam's.

python -m benchmarks.sparse [--repeats 5] [--out docs/results]
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import scax
from benchmarks.steps import describe_machine, looped
from scax.datafit import Datafit
from scax.layout import Layout
from scax.linearize import linearize
from scax.network import Network
from scax.solvers import Fista, Semismooth
from scax.surrogate import Surrogate

NETWORKS = {"9/10/6/1": ((9, 10, 6, 1), 20), "18/100/100/1": ((18, 100, 100, 1), 50)}
PENALTIES = {
    "l1": lambda s, params: scax.L1(s),
    "group": lambda s, params: scax.GroupLasso(s, scax.neuron_groups(params)),
}
TAUS = (1e-1, 1e-2, 1e-3)
STRENGTH, GAP = 1e-3, 1e-6


def rows(widths, count, dtype, seed=0):
    """Inputs and a target that depends on a third of them."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-0.5, 0.5, size=(count, widths[0]))
    y = 0.9 * np.tanh(x[:, : widths[0] // 3] @ rng.normal(size=(widths[0] // 3,)))
    return jnp.asarray(x, dtype), jnp.asarray(y, dtype)


def surrogate(widths, batch, penalty, tau):
    """The convex problem of a first iteration, in float64."""
    net = scax.MLP(widths, output="tanh")
    params = net.init(jax.random.key(0))
    layout = Layout.of(params)
    w = layout.flatten(params)
    x, y = rows(widths, batch, w.dtype)
    problem = scax.Problem(net.apply, scax.Squared(), PENALTIES[penalty](STRENGTH, params))

    def build(w, x, y, tau):
        lin = linearize(Network(problem, layout, ()), w, x, "structured")
        datafit = Datafit(problem.loss, y[:, None], jnp.full(batch, 1 / batch))
        return Surrogate.build(datafit, lin, w, None, None, tau, problem.regularizer)

    return build, (w, x, y, jnp.asarray(tau))


def timed(function, arguments, seconds=0.2):
    """Seconds of one call, the least of several: others may be using the machine."""
    jax.block_until_ready(function(*arguments))
    best, began = np.inf, time.perf_counter()
    while time.perf_counter() - began < seconds:
        clock = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        best = min(best, time.perf_counter() - clock)
    return best


def solvers(repeats: int) -> list[dict]:
    """Both solvers on the same surrogate to the same gap, interleaved."""
    table = []
    with jax.enable_x64(True):
        for network, (widths, batch) in NETWORKS.items():
            for penalty in PENALTIES:
                for tau in TAUS:
                    build, arguments = surrogate(widths, batch, penalty, tau)
                    solver = {
                        "fista": Fista(tolerance=GAP, max_iterations=100_000),
                        "semismooth": Semismooth(tolerance=GAP),
                    }
                    run = {name: jax.jit(lambda *a, s=s, build=build: s.solve(build(*a))) for name, s in solver.items()}
                    ends = {name: f(*arguments) for name, f in run.items()}
                    times = [{name: timed(f, arguments) for name, f in run.items()} for _ in range(repeats)]
                    value = {name: float(build(*arguments).value(end.delta)) for name, end in ends.items()}
                    row = {"network": network, "batch": batch, "penalty": penalty, "tau": tau}
                    for name, end in ends.items():
                        row[name] = {
                            "iterations": int(end.iterations),
                            "gap": float(end.optimality),
                            "milliseconds": 1e3 * min(t[name] for t in times),
                            "value": value[name],
                            "zeros": float(jnp.mean(arguments[0] + end.delta == 0)),
                        }
                    row["faster"] = statistics.median(t["fista"] / t["semismooth"] for t in times)
                    table.append(row)
                    print(json.dumps(row), flush=True)
    return table


def steps(repeats: int, seconds: float = 0.4) -> list[dict]:
    """A step of SCA with sparse penalties over Adam's on the same problem, both in compiled loops, float32."""
    widths, batch = NETWORKS["18/100/100/1"]
    net = scax.MLP(widths)
    params = net.init(jax.random.key(0))
    x, y = rows(widths, 4096, jnp.float32)
    table = []
    for penalty, strength in (("l1", 1e-3), ("l1", 1e-4), ("group", 1e-3), ("group", 1e-4)):
        problem = scax.Problem(net.apply, scax.Squared(), PENALTIES[penalty](strength, params))
        for when in ("start", "sparse"):
            at = params
            if when == "sparse":
                at = scax.train(scax.SCA(problem), params, (x, y), steps=500, batch_size=batch, records=1).params
            methods = {"adam": scax.baseline(optax.adam(1e-3), problem), "sca": scax.SCA(problem)}
            methods |= {"fista": scax.SCA(problem, solver="fista")}
            loops = {name: looped(method, at, x, y, batch) for name, method in methods.items()}
            counts = {name: int(min(max(seconds / loop(3)[0], 3), 20000)) for name, loop in loops.items()}
            times = [{name: loop(counts[name]) for name, loop in loops.items()} for _ in range(repeats)]
            row = {"network": "18/100/100/1", "batch": batch, "penalty": penalty, "strength": strength, "from": when}
            row["adam_microseconds"] = 1e6 * min(t["adam"][0] for t in times)
            for name in ("sca", "fista"):
                row[name] = statistics.median(t[name][0] / t["adam"][0] for t in times)
            table.append(row)
            print(json.dumps(row), flush=True)
    return table


def markdown(results: dict) -> str:
    """Both tables, targets beside them."""
    lines = [
        "| network | L | penalty | τ | FISTA: iterations | ms | semismooth: Newton steps | ms | faster | target ≥ 10 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results["solvers"]:
        f, s = r["fista"], r["semismooth"]
        lines.append(
            f"| {r['network']} | {r['batch']} | {r['penalty']} | {r['tau']:g} | {f['iterations']} | "
            f"{f['milliseconds']:.2f} | {s['iterations']} | {s['milliseconds']:.2f} | {r['faster']:.1f}× | "
            f"{'met' if r['faster'] >= 10 else 'missed'} |"
        )
    lines += [
        "",
        "| network | L | penalty | strength | weights | Adam, µs | SCA step / Adam's | with FISTA | target ≤ 5 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results["steps"]:
        verdict = "met" if r["sca"] <= 5 else "missed"
        when = "first ones" if r["from"] == "start" else "after 500 steps"
        lines.append(
            f"| {r['network']} | {r['batch']} | {r['penalty']} | {r['strength']:g} | {when} | "
            f"{r['adam_microseconds']:.0f} | {r['sca']:.1f} | {r['fista']:.1f} | {verdict} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=["solvers", "steps"], help="one of the two tables")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    command = "python -m benchmarks.sparse" + (f" --only {options.only}" if options.only else "")
    machine = describe_machine() | {"command": f"{command} --repeats {options.repeats}", "load": os.getloadavg()[0]}
    results = {"machine": machine, "gap": GAP, "strength": STRENGTH, "solvers": [], "steps": []}
    if options.only != "steps":
        results["solvers"] = solvers(options.repeats)
    if options.only != "solvers":
        results["steps"] = steps(options.repeats)
    print(markdown(results))
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.out / ("sparse-solvers" if options.only != "steps" else "sparse-steps")
    name.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    name.with_suffix(".md").write_text(markdown(results) + "\n")


if __name__ == "__main__":
    main()

"""Sparse surrogates: semismooth Newton against FISTA and generic lasso solvers at one duality gap, and a sparse step
against Adam's.

python -m benchmarks.sparse [--repeats 5] [--out docs/results]
python -m benchmarks.sparse --only enough --data-dir DIR

celer and skglm take part where they are installed. They are given J (forming it is not in their time, as it is in
ours), and each runs with the loosest of its tolerances that reaches the gap.
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
from benchmarks.runs import Given, reported
from benchmarks.steps import describe_machine, looped
from scax.layout import Layout
from scax.linearize import linearize
from scax.linearize.network import NetworkFunction
from scax.solvers import Fista, Semismooth
from scax.solvers.choose import ENOUGH
from scax.surrogate.datafit import Datafit
from scax.surrogate.surrogate import Surrogate

NETWORKS = {"9/10/6/1": ((9, 10, 6, 1), 20), "18/100/100/1": ((18, 100, 100, 1), 50)}
PENALTIES = {
    "l1": lambda s, params: scax.L1(s),
    "group": lambda s, params: scax.GroupLasso(s, scax.neuron_groups(params)),
}
TAUS = (1e-1, 1e-2, 1e-3)
STRENGTH, GAP = 1e-3, 1e-6
COUNT = 200  # steps timed


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
        lin = linearize(NetworkFunction(problem, layout, ()), w, x, "structured")
        datafit = Datafit(problem.loss, y[:, None], jnp.full(batch, 1 / batch))
        return Surrogate.of(datafit, lin, w, None, None, tau, problem.regularizer)

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
                    row |= generic(build, arguments) if penalty == "l1" else {}
                    row["faster"] = statistics.median(t["fista"] / t["semismooth"] for t in times)
                    table.append(row)
                    print(json.dumps(row), flush=True)
    return table


def generic(build, arguments) -> dict:
    """The ℓ1 surrogate by celer and skglm, as a lasso in u = w + δ with the proximal term as rows of its own:

    ‖[√s(e + Jw); √τ w] − [√s J; √τ I] u‖² + λ‖u‖₁,  divided by twice the number of rows.
    """
    import scipy.sparse

    try:
        import celer
        import skglm
    except ImportError:
        return {}
    problem = build(*arguments)
    w = np.asarray(problem.w)
    j = np.asarray(problem.lin.jacobian()).reshape(-1, w.size)
    z, y = np.asarray(problem.lin.outputs)[:, 0], np.asarray(problem.datafit.y)[:, 0]
    s, tau = 1 / len(y), float(problem.curvature)
    x = scipy.sparse.vstack([np.sqrt(s) * j, np.sqrt(tau) * scipy.sparse.eye(w.size)], format="csc")
    right = np.concatenate([np.sqrt(s) * (y - z + j @ w), np.sqrt(tau) * w])
    alpha = STRENGTH / (2 * len(right))
    made = {
        "celer": lambda tol: celer.Lasso(alpha=alpha, tol=tol, fit_intercept=False, max_iter=1000),
        "skglm": lambda tol: skglm.Lasso(alpha=alpha, tol=tol, fit_intercept=False, max_iter=1000),
    }

    @jax.jit
    def gap(u):
        delta = u - problem.w
        v = problem.datafit.gradient(problem.lin.outputs + problem.lin.jvp(delta))
        value = problem.value(delta)
        return (value - problem.dual(v, problem.lin.outputs + problem.lin.jvp(delta))) / jnp.abs(value), value

    out = {}
    for name, make in made.items():
        for tol in 10.0 ** np.arange(1, -14, -1.0):
            reached, value = gap(jnp.asarray(make(tol).fit(x, right).coef_))  # the first one compiles
            if reached <= GAP:
                break
        times = []
        for _ in range(3):
            clock = time.perf_counter()
            make(tol).fit(x, right)
            times.append(time.perf_counter() - clock)
        out[name] = {"milliseconds": 1e3 * min(times), "gap": float(reached), "tol": tol, "value": float(value)}
    return out


def steps(repeats: int, seconds: float = 0.4) -> list[dict]:
    """A step of SCA with sparse penalties over Adam's on the same problem, both in compiled loops, float32: the first
    `COUNT` of a training, and those after 500."""
    widths, batch = NETWORKS["18/100/100/1"]
    net = scax.MLP(widths)
    params = net.init(jax.random.key(0))
    x, y = rows(widths, 4096, jnp.float32)
    table = []
    for penalty, strength in (("l1", 1e-3), ("l1", 1e-4), ("group", 1e-3), ("group", 1e-4)):
        problem = scax.Problem(net.apply, scax.Squared(), PENALTIES[penalty](strength, params))
        for when, before in (("start", 0), ("sparse", 500)):
            methods = {"adam": scax.baseline(optax.adam(1e-3), problem), "sca": scax.SCA(problem)}
            methods |= {"exact": scax.SCA(problem, solver="semismooth")}
            methods |= {"fista": scax.SCA(problem, solver=Fista(enough=ENOUGH))}
            loops = {name: looped(method, params, x, y, batch, before) for name, method in methods.items()}
            counts = {name: int(min(max(seconds / loop(3)[0], 3), COUNT)) for name, loop in loops.items()}
            times = [{name: loop(counts[name]) for name, loop in loops.items()} for _ in range(repeats)]
            row = {"network": "18/100/100/1", "batch": batch, "penalty": penalty, "strength": strength, "from": when}
            row["adam_microseconds"] = 1e6 * min(t["adam"][0] for t in times)
            row["newton_steps"] = {
                name: newton_steps(methods[name], params, x, y, batch, before) for name in ("sca", "exact")
            }
            for name in ("sca", "exact", "fista"):
                row[name] = statistics.median(t[name][0] / t["adam"][0] for t in times)
            table.append(row)
            print(json.dumps(row), flush=True)
    return table


def newton_steps(method, params, x, y, batch: int, before: int) -> float:
    """How many a step takes on average."""
    order = jax.random.randint(jax.random.key(1), (1024, batch), 0, x.shape[0])
    ends = [before + COUNT] if before == 0 else [before, before + COUNT]
    return float(reported(method, params, Given(scax.Batch(x, y), order), ends)["iterations"][-1])


def trainings(folder: str, seeds: int = 8, ends: tuple[int, ...] = (50, 500, 2000)) -> list[dict]:
    """The objective on all rows after some steps: solved as `auto` does, over solved to the end, percent."""
    from sklearn.datasets import load_breast_cancer

    from benchmarks.defaults import CASES, load, network, over_seeds, starts

    x, y = load_breast_cancer(return_X_y=True)
    cancer = jnp.asarray((x - x.mean(0)) / x.std(0), jnp.float32), jnp.asarray(y, jnp.float32)
    usual = ("l1 3e-4", "l1 3e-3", "group 1e-3", "log 1e-3")
    cases = [(name, network(name)[0], scax.Squared(), load(folder, name), 20, usual) for name in CASES]
    cases += [("Wine", network("Wine")[0], scax.Squared(), load(folder, "Wine"), 2, usual[:2])]
    cases += [("breast cancer", scax.MLP((30, 16, 16, 1)), scax.Logistic(), cancer, 32, ("l1 1e-6", "l1 1e-4", *usual))]
    table = []
    for name, net, loss, data, batch, penalties in cases:
        params, keys = starts(net, seeds)
        groups = scax.neuron_groups(jax.tree.map(lambda a: a[0], params))
        made = {"l1": scax.L1, "group": lambda s, groups=groups: scax.GroupLasso(s, groups), "log": scax.LogSum}
        for penalty in penalties:
            kind, strength = penalty.split()
            problem = scax.Problem(net.apply, loss, made[kind](float(strength)))
            methods = {"auto": scax.SCA(problem), "exact": scax.SCA(problem, solver="semismooth")}
            found = {
                how: np.asarray(over_seeds(method, params, keys, data, ends, batch))[..., 1]
                for how, method in methods.items()
            }
            change = 100 * (found["auto"] / found["exact"] - 1)  # [seeds, ends]
            row = {"set": name, "loss": type(loss).__name__, "batch": batch, "penalty": penalty, "steps": ends}
            row |= {"exact": found["exact"].mean(0).tolist(), "change": change.mean(0).tolist()}
            row["error"] = (change.std(0, ddof=1) / np.sqrt(seeds)).tolist()
            table.append(row)
            print(json.dumps(row), flush=True)
    return table


def markdown_trainings(table: list[dict]) -> str:
    steps = table[0]["steps"]
    head = "| set | loss | rows | penalty | "
    lines = [head + " | ".join(f"after {n}" for n in steps) + " |", "|---" * (4 + len(steps)) + "|"]
    for r in table:
        told = [f"{c:+.2f} ± {e:.2f}" for c, e in zip(r["change"], r["error"], strict=True)]
        lines.append(f"| {r['set']} | {r['loss']} | {r['batch']} | {r['penalty']} | " + " | ".join(told) + " |")
    return "\n".join(lines)


def forward(repeats: int) -> list[dict]:
    """Networks with a share of their neurons alive, before and after `compact`: multiply-adds and time of a pass."""
    table = []
    for widths in ((9, 10, 6, 1), (18, 100, 100, 1), (50, 500, 500, 1)):
        net = scax.MLP(widths)
        for share in (0.5, 0.25):
            params = net.init(jax.random.key(0))
            for layer, width in zip(params[1:], widths[1:-1], strict=True):
                layer["weight"] = layer["weight"].at[int(share * width) :].set(0)  # nothing leaves these neurons
            small = scax.compact(net, params)
            for rows_ in (1, 4096, 65536):
                before, after = small.seconds(rows=rows_, repeats=(20 if rows_ <= 4096 else 4) * repeats)
                row = {"network": "/".join(map(str, widths)), "rows": rows_}
                row["neurons"] = small.after.neurons / small.before.neurons
                row["multiply_adds"] = small.after.multiply_adds / small.before.multiply_adds
                row |= {"microseconds": 1e6 * before, "time": after / before}
                table.append(row)
                print(json.dumps(row), flush=True)
    return table


def markdown_forward(table: list[dict]) -> str:
    lines = [
        "| network | rows in a pass | before, µs | multiply-adds left | neurons left | time left | within 30% of |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in table:
        fine = "multiply-adds" if r["time"] <= 1.3 * r["multiply_adds"] else "neurons"
        lines.append(
            f"| {r['network']} | {r['rows']:,} | {r['microseconds']:,.0f} | {r['multiply_adds']:.0%} | "
            f"{r['neurons']:.0%} | {r['time']:.0%} | {fine if r['time'] <= 1.3 * r['neurons'] else 'neither'} |"
        )
    return "\n".join(lines)


def markdown(results: dict) -> str:
    """Both tables, targets beside them."""
    lines = [
        "| network | L | penalty | τ | FISTA: iterations | ms | semismooth: Newton steps | ms | faster | target ≥ 10 | "
        "celer, ms | skglm, ms |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results["solvers"]:
        f, s = r["fista"], r["semismooth"]
        lines.append(
            f"| {r['network']} | {r['batch']} | {r['penalty']} | {r['tau']:g} | {f['iterations']} | "
            f"{f['milliseconds']:.2f} | {s['iterations']} | {s['milliseconds']:.2f} | {r['faster']:.1f}× | "
            f"{'met' if r['faster'] >= 10 else 'missed'} | {_other(r, 'celer')} | {_other(r, 'skglm')} |"
        )
    lines += [
        "",
        "| network | L | penalty | strength | steps | Adam, µs | SCA step / Adam's | target ≤ 5 | exact | with FISTA |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results["steps"]:
        verdict = "met" if r["sca"] <= 5 else "missed"
        when = f"first {COUNT}" if r["from"] == "start" else "after 500"
        lines.append(
            f"| {r['network']} | {r['batch']} | {r['penalty']} | {r['strength']:g} | {when} | "
            f"{r['adam_microseconds']:.0f} | {r['sca']:.1f} | {verdict} | {r['exact']:.1f} | {r['fista']:.1f} |"
        )
    return "\n".join(lines)


def _other(row: dict, name: str) -> str:
    if name not in row:
        return "–"
    return f"{row[name]['milliseconds']:.2f}" + ("" if row[name]["gap"] <= GAP else f" (gap {row[name]['gap']:.0e})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=["solvers", "steps", "compact", "enough"], help="one of the tables")
    parser.add_argument("--data-dir", help="where the tables of the paper are: for `enough`")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    if options.only == "enough" and options.data_dir is None:
        parser.error("--only enough needs --data-dir, the folder of the paper's tables")
    command = "python -m benchmarks.sparse" + (f" --only {options.only}" if options.only else "")
    command += " --data-dir DIR" if options.only == "enough" else f" --repeats {options.repeats}"
    machine = describe_machine() | {"command": command, "load": os.getloadavg()[0]}
    if options.only in ("compact", "enough"):
        table = forward(options.repeats) if options.only == "compact" else trainings(options.data_dir)
        options.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"machine": machine, "rows": table}, indent=1) + "\n"
        (options.out / f"sparse-{options.only}.json").write_text(text)
        print(markdown_forward(table) if options.only == "compact" else markdown_trainings(table))
        return
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

"""Equations on points drawn anew: the default beside others' methods, each tuned on the problem, from the same weights.

python -m benchmarks.physics run [--steps N]     writes docs/results/physics.json after every method
python -m benchmarks.physics duffing [--steps N]        the same for an oscillator, simulated
python -m benchmarks.physics show                prints the table of docs/guides/physics.md
python -m benchmarks.physics picture NAME [--steps N]   solves examples/NAME.py and draws docs/images/NAME.svg
python -m benchmarks.physics gpu --problem poisson5 --method scax --seconds 120    a run of benchmarks/equations.py that
                                                the clock ends, into docs/results/physics-gpu.json after every record
python -m benchmarks.physics times              the tables of docs/measurements/physics.md, and its picture
python -m benchmarks.physics parts              milliseconds of the parts of a step

2-d Poisson, −Δu = f on the unit square, u = sin(πx) sin(πy), 2-16-16-1, 120 + 30 points, float64. ENGD-W and SPRING:
benchmarks/natural_gradient.py. Adam and SOAP have a cosine schedule. Each has the best of its grid by the error of the
first start at the end. L-BFGS (SciPy) keeps one set of points, four times as many, and has five evaluations for each
step of the others; Adam, then L-BFGS starts it where Adam ended. `duffing`: examples/duffing.py, three starts, Adam
with the best of its rates, alone and followed by L-BFGS.
"""

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent.parent / "docs/results/physics.json"
STARTS, INSIDE, EDGE, WEIGHT = 3, 120, 30, 10.0
DAMPING, CARRIES = (1e-5, 1e-7, 1e-9, 1e-11, 1e-13), (0.06, 0.3, 0.7)
STEP_SIZES = ({}, {"step_size": 0.03}, {"step_size": 0.1}, {"step_size": 0.3})  # the first: found on each batch
GRIDS = {
    "ENGD-W": [{"damping": d} | a for a, d in itertools.product(STEP_SIZES, DAMPING)],
    "SPRING": [{"damping": d, "carry": b} | a for a, d, b in itertools.product(STEP_SIZES, DAMPING, CARRIES)],
    "Adam": [{"rate": r} for r in (1e-2, 3e-2, 1e-1, 3e-1)],
    "SOAP": [{"rate": r} for r in (3e-3, 1e-2, 3e-2, 1e-1)],
}
#: Steps of Adam and evaluations of L-BFGS for each step of scax on sequences.
ADAM_TIMES, LBFGS_TIMES = 10, 10


def setup():
    """(network, problem, samplers, relative error of parameters)."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    import scax

    net = scax.MLP((2, 16, 16, 1))
    exact = lambda x: jnp.prod(jnp.sin(jnp.pi * x), axis=-1)

    def equation(params, x):
        u = lambda point: net.apply(params, point[None])[0, 0]
        return jax.vmap(scax.operators.laplacian(u))(x) + 2 * jnp.pi**2 * exact(x)

    def edge(key, count=EDGE):
        along, side = jax.random.uniform(key, (count,)), jnp.arange(count) % 4
        low = (side % 2).astype(float)
        return jnp.where((side < 2)[:, None], jnp.stack([along, low], 1), jnp.stack([low, along], 1))

    inside = lambda key, count=INSIDE: jax.random.uniform(key, (count, 2))
    terms = {"equation": scax.Term(equation), "edge": scax.Term(net.apply, weight=WEIGHT)}
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 51), np.linspace(0, 1, 51)), -1).reshape(-1, 2)
    true = exact(grid)
    error = jax.jit(lambda p: jnp.linalg.norm(net.apply(p, grid)[:, 0] - true) / jnp.linalg.norm(true))
    return net, scax.Problem(terms, scax.L2(0.0)), {"equation": inside, "edge": edge}, error


def method(name: str, problem, options: dict, steps: int):
    import optax

    import scax

    if name == "scax":
        return scax.SCA(problem)
    if name in ("Adam", "SOAP"):
        from benchmarks.soap import soap

        rate = optax.cosine_decay_schedule(options["rate"], steps)
        return scax.baseline(optax.adam(rate) if name == "Adam" else soap(rate), problem)
    from benchmarks.natural_gradient import NaturalGradient

    return NaturalGradient(problem, **({"carry": 0.0} | options))


def lbfgs(problem, params, rows, evaluations: int) -> tuple:
    """(params, seconds, evaluations) of SciPy's, compiled before."""
    import jax
    import scipy.optimize
    from jax.flatten_util import ravel_pytree

    w, unravel = ravel_pytree(params)
    objective = jax.jit(jax.value_and_grad(lambda w: problem.objective(unravel(w), *rows)))
    jax.block_until_ready(objective(w))
    began = time.perf_counter()
    value = lambda w: tuple(np.asarray(part, float) for part in objective(w))
    options = {"maxfun": evaluations, "maxiter": evaluations, "maxcor": 50, "ftol": 0, "gtol": 0}
    found = scipy.optimize.minimize(value, np.asarray(w), jac=True, method="L-BFGS-B", options=options)
    return unravel(found.x), time.perf_counter() - began, int(found.nfev)


def run(steps: int) -> None:
    import jax

    import scax

    net, problem, data, error = setup()
    results: dict = (json.loads(FILE.read_text()) if FILE.exists() else {}) | {
        "command": f"python -m benchmarks.physics run --steps {steps}",
        "steps": steps,
        "methods": {},
    }

    def train(name: str, options: dict, start: int) -> tuple:
        params = jax.tree.map(lambda leaf: leaf.astype(float), net.init(jax.random.key(start)))
        result = scax.train(
            method(name, problem, options, steps), params, data, steps=steps, records=5, key=jax.random.key(start)
        )
        marks = result.history["seconds"]
        return result.params, float(marks[-1] - marks[0]) * 1.25  # the first of five has the compilation in it

    def once(name: str, options: dict, start: int) -> dict:
        found, seconds = train(name, options, start)
        return {"error": float(f"{error(found):.3g}"), "seconds": round(seconds, 3), "start": start}

    def fixed(start: int, params, before: float) -> dict:
        keys = jax.random.split(jax.random.key(start))
        rows = {"equation": data["equation"](keys[0], 4 * INSIDE), "edge": data["edge"](keys[1], 4 * EDGE)}
        found, seconds, count = lbfgs(problem, params, (rows,), 5 * steps)
        seconds = round(seconds + before, 3)
        return {"error": float(f"{error(found):.3g}"), "seconds": seconds, "start": start, "evaluations": count}

    for name, grid in ({"scax": [{}]} | GRIDS).items():
        tried = [(options, once(name, options, 0)) for options in grid]
        best, first = min(tried, key=lambda pair: pair[1]["error"] if np.isfinite(pair[1]["error"]) else np.inf)
        runs = [first] + [once(name, best, start) for start in range(1, STARTS)]
        results["methods"][name] = {"options": best, "runs": runs}
        FILE.write_text(json.dumps(results, indent=1) + "\n")
        print(name, best, runs, flush=True)
    begin = lambda start: jax.tree.map(lambda leaf: leaf.astype(float), net.init(jax.random.key(start)))
    runs = [fixed(start, begin(start), 0.0) for start in range(STARTS)]
    results["methods"]["L-BFGS"] = {"options": {"evaluations": 5 * steps}, "runs": runs}
    adam = results["methods"]["Adam"]["options"]
    runs = [fixed(start, *train("Adam", adam, start)) for start in range(STARTS)]
    results["methods"]["Adam, then L-BFGS"] = {"options": adam | {"evaluations": 5 * steps}, "runs": runs}
    FILE.write_text(json.dumps(results, indent=1) + "\n")
    show()


def duffing(steps: int) -> None:
    """Simulation errors on sequences not seen, and seconds without compilation."""
    import jax
    import optax

    jax.config.update("jax_enable_x64", True)
    import scax
    from benchmarks.least_squares import duffing as setup

    rows = []
    for start in range(STARTS):
        apply, params, x, y, error = setup(start)
        problem = scax.Problem(apply, scax.Squared(), scax.L2(0.0))

        def fit(made, count, problem=problem, params=params, data=(x, y)) -> tuple:
            goals = [max(20, count // 20), count]  # the first has the compilation before it
            result = scax.train(made, params, data, steps=count, batch_size=None, records=goals)
            marks = result.history["seconds"]
            share = 1 if len(marks) < 2 else (marks[-1] - marks[0]) * result.steps / (result.steps - goals[0])
            return result.params, float(share), result.steps

        note = lambda name, found, seconds, count, start=start, error=error: rows.append(
            {"method": name, "start": start, "error": float(f"{error(found):.3g}"), "seconds": round(seconds, 2)}
            | {"steps": count}
        )
        note("scax", *fit(scax.SCA(problem), steps))
        count, best = ADAM_TIMES * steps, None
        for rate in (3e-4, 1e-3, 3e-3, 1e-2):
            tried = fit(scax.baseline(optax.adam(optax.cosine_decay_schedule(rate, count)), problem), count)
            if best is None or error(tried[0]) < error(best[0]):
                best = tried
        assert best is not None
        note("Adam", *best)
        found, seconds, evaluations = lbfgs(problem, best[0], (x, y), LBFGS_TIMES * steps)
        note("Adam, then L-BFGS", found, best[1] + seconds, best[2] + evaluations)
        for row in rows[-3:]:
            print(json.dumps(row), flush=True)
        whole = json.loads(FILE.read_text())
        whole["duffing"] = {"command": f"python -m benchmarks.physics duffing --steps {steps}", "runs": rows}
        FILE.write_text(json.dumps(whole, indent=1) + "\n")


def show() -> None:
    results = json.loads(FILE.read_text())
    print(f"| method | chosen | relative L2 after {results['steps']} steps, each start |\n|---|---|---|")
    for name, found in results["methods"].items():
        chosen = ", ".join(f"{key} {value:g}" for key, value in found["options"].items()) or "defaults"
        errors = ", ".join(f"{one['error']:.1e}" for one in found["runs"])
        print(f"| {name} | {chosen} | {errors} |")


def solve_example(script: Path, steps: int) -> tuple:
    """(first axis, second axis, what was found on their grid, the solution there)."""
    import runpy

    import jax

    import scax

    example = runpy.run_path(str(script))
    params = jax.tree.map(lambda leaf: leaf.astype(float), example["net"].init(jax.random.key(0)))
    params = scax.train(scax.SCA(example["problem"]), params, example["data"], steps=steps, records=1).params
    first, second = (example["x"], example["y"]) if script.stem == "poisson" else (example["t"], example["x"])
    found, true = (np.asarray(part).reshape(len(first), len(second)) for part in example["compare"](params))
    print(f"{script.stem}: {np.linalg.norm(found - true) / np.linalg.norm(true):.2e} after {steps} steps", flush=True)
    return first, second, found, true


def picture(name: str, steps: int, values: Path | None) -> None:
    """Solution, network and error of a worked problem in two dimensions; `values` keeps what was found."""
    folder = Path(__file__).parent.parent
    if values is None or not values.exists():
        first, second, found, true = solve_example(folder / f"examples/{name}.py", steps)
        if values is not None:
            np.savez(values, first=first, second=second, found=found, true=true)
            return
    else:
        first, second, found, true = (np.load(values)[part] for part in ("first", "second", "found", "true"))
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    error, wrong = np.linalg.norm(found - true) / np.linalg.norm(true), np.abs(found - true)
    labels = ("x", "y") if name == "poisson" else ("t", "x")
    plt.rcParams |= {"svg.hashsalt": name, "font.size": 9}
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.7), layout="constrained")
    floor = wrong.max() * 1e-4
    shown = ((true, "solution", None), (found, "network", None), (np.maximum(wrong, floor), "error", LogNorm()))
    for axis, (values, title, norm) in zip(axes, shown, strict=True):
        limits = {"norm": norm} if norm else {"vmin": true.min(), "vmax": true.max()}
        drawn = axis.pcolormesh(first, second, values.T, cmap="cividis", rasterized=True, **limits)
        axis.set(xlabel=labels[0], ylabel=labels[1], title=title)
        figure.colorbar(drawn, ax=axis)
    figure.savefig(folder / f"docs/images/{name.replace('_', '-')}.svg", metadata={"Date": None}, dpi=150)
    print(f"relative L2 error {error:.1e} after {steps} steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "duffing", "show", "picture", "gpu", "parts", "times"])
    parser.add_argument("name", nargs="?", choices=["poisson", "burgers", "allen_cahn"], default="poisson")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--problem", default="poisson5", help="of benchmarks/equations.py")
    parser.add_argument("--method", default="scax", help="of benchmarks/physics_gpu.py")
    parser.add_argument("--options", type=json.loads, default={}, help="of the method, as JSON")
    parser.add_argument("--label", help="the name under which a run is written; that of the method")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=None, help="another file than physics-gpu.json; of a picture, its values"
    )
    given = parser.parse_args()
    if given.what == "picture":
        picture(given.name, given.steps, given.out)
    elif given.what in ("run", "duffing"):
        (run if given.what == "run" else duffing)(given.steps)
    elif given.what == "show":
        show()
    else:
        import jax

        jax.config.update("jax_enable_x64", True)
        from benchmarks import physics_gpu as gpu

        file = given.out or gpu.FILE
        if given.what == "times":
            whole = json.loads(file.read_text())
            gpu.plot(whole, FILE.parent.parent / "images/physics-gpu.svg")
            print(gpu.table(whole))
        elif given.what == "parts":
            gpu.parts(file, given.problem)
        else:
            label = given.label or given.method
            gpu.solve(given.problem, given.method, given.seconds, given.options, given.start, file, label)


if __name__ == "__main__":
    main()

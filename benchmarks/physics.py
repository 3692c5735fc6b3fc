"""Equations on points drawn anew: the default beside others' methods, each tuned on the problem, from the same weights.

python -m benchmarks.physics run [--steps N]     writes docs/results/physics.json after every method
python -m benchmarks.physics show                prints the table of docs/guides/physics.md
python -m benchmarks.physics picture NAME [--steps N]   solves examples/NAME.py and draws docs/images/NAME.svg
python -m benchmarks.physics gpu --problem poisson5 --method scax --seconds 120    a run of benchmarks/equations.py that
                                                the clock ends, into docs/results/physics-gpu.json after every record
python -m benchmarks.physics parts              milliseconds of the parts of a step

2-d Poisson, −Δu = f on the unit square, u = sin(πx) sin(πy), 2-16-16-1, 120 + 30 points, float64. ENGD-W is a step of
one batch in sample space with fixed damping, SPRING the same with the last step carried on; Adam has a cosine schedule.
Each has the best of its grid by the error of the first start at the end. L-BFGS (SciPy) keeps one set of points, four
times as many, and has five evaluations for each step of the others.
"""

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent.parent / "docs/results/physics.json"
STARTS, INSIDE, EDGE, WEIGHT = 2, 120, 30, 10.0
DAMPING, STEP_SIZES, CARRIES = (1e-4, 1e-5, 1e-7, 1e-9, 1e-11), (0.01, 0.03, 0.1, 0.3), (0.2, 0.4, 0.7, 0.9)
GRIDS = {
    "ENGD-W": [{"damping": d, "step_size": a} for d, a in itertools.product(DAMPING, STEP_SIZES)],
    "SPRING": [
        {"damping": d, "step_size": a, "carry": b} for d, a, b in itertools.product(DAMPING, STEP_SIZES, CARRIES)
    ],
    "Adam": [{"rate": r} for r in (1e-2, 3e-2, 1e-1, 3e-1)],
}


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
    if name == "Adam":
        return scax.baseline(optax.adam(optax.cosine_decay_schedule(options["rate"], steps)), problem)
    return scax.SCA(problem, metric=None, mean_power=None, acceptance=False, **({"carry": 0.0} | options))


def lbfgs(start: int, steps: int, net, problem, data, error) -> dict:
    import jax
    import scipy.optimize
    from jax.flatten_util import ravel_pytree

    keys = jax.random.split(jax.random.key(start))
    rows = {"equation": data["equation"](keys[0], 4 * INSIDE), "edge": data["edge"](keys[1], 4 * EDGE)}
    params = jax.tree.map(lambda leaf: leaf.astype(float), net.init(jax.random.key(start)))
    w, unravel = ravel_pytree(params)
    objective = jax.jit(jax.value_and_grad(lambda w: problem.objective(unravel(w), rows)))
    objective(w)
    began = time.perf_counter()
    value = lambda w: tuple(np.asarray(part, float) for part in objective(w))
    found = scipy.optimize.minimize(
        value, np.asarray(w), jac=True, method="L-BFGS-B", options={"maxfun": steps, "maxiter": steps, "maxcor": 50}
    )
    seconds = time.perf_counter() - began
    return {"error": float(error(unravel(found.x))), "seconds": seconds, "start": start, "evaluations": int(found.nfev)}


def run(steps: int) -> None:
    import jax

    import scax

    net, problem, data, error = setup()
    results: dict = {"command": f"python -m benchmarks.physics run --steps {steps}", "steps": steps, "methods": {}}

    def once(name: str, options: dict, start: int) -> dict:
        params = jax.tree.map(lambda leaf: leaf.astype(float), net.init(jax.random.key(start)))
        sca = method(name, problem, options, steps)
        result = scax.train(sca, params, data, steps=steps, records=5, key=jax.random.key(start))
        marks = [float(f"{v:.3g}") for v in result.history["seconds"]]
        return {"error": float(f"{error(result.params):.3g}"), "seconds": marks[-1] - marks[0], "start": start}

    for name, grid in ({"scax": [{}]} | GRIDS).items():
        tried = [(options, once(name, options, 0)) for options in grid]
        best, first = min(tried, key=lambda pair: pair[1]["error"] if np.isfinite(pair[1]["error"]) else np.inf)
        runs = [first] + [once(name, best, start) for start in range(1, STARTS)]
        results["methods"][name] = {"options": best, "runs": runs}
        FILE.write_text(json.dumps(results, indent=1) + "\n")
        print(name, best, runs, flush=True)
    runs = [lbfgs(start, 5 * steps, net, problem, data, error) for start in range(STARTS)]
    results["methods"]["L-BFGS"] = {"options": {"evaluations": 5 * steps}, "runs": runs}
    FILE.write_text(json.dumps(results, indent=1) + "\n")
    show()


def show() -> None:
    results = json.loads(FILE.read_text())
    print(f"| method | chosen | relative L2 after {results['steps']} steps, each start |\n|---|---|---|")
    for name, found in results["methods"].items():
        chosen = ", ".join(f"{key} {value:g}" for key, value in found["options"].items()) or "defaults"
        errors = ", ".join(f"{one['error']:.1e}" for one in found["runs"])
        print(f"| {name} | {chosen} | {errors} |")


def picture(name: str, steps: int) -> None:
    """Solution, network and error of a worked problem in two dimensions."""
    import runpy

    import jax
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    import scax

    folder = Path(__file__).parent.parent
    example = runpy.run_path(str(folder / f"examples/{name}.py"))
    params = jax.tree.map(lambda leaf: leaf.astype(float), example["net"].init(jax.random.key(0)))
    params = scax.train(scax.SCA(example["problem"]), params, example["data"], steps=steps, records=1).params
    first, second = (example["x"], example["y"]) if name == "poisson" else (example["t"], example["x"])
    found, true = (np.asarray(values).reshape(len(first), len(second)) for values in example["compare"](params))
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
    parser.add_argument("what", choices=["run", "show", "picture", "gpu", "parts"])
    parser.add_argument("name", nargs="?", choices=["poisson", "burgers", "allen_cahn"], default="poisson")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--problem", default="poisson5", help="of benchmarks/equations.py")
    parser.add_argument("--method", default="scax", help="of benchmarks/physics_gpu.py")
    parser.add_argument("--options", type=json.loads, default={}, help="of the method, as JSON")
    parser.add_argument("--label", help="the name under which a run is written; that of the method")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="another file than physics-gpu.json")
    given = parser.parse_args()
    if given.what == "picture":
        picture(given.name, given.steps)
    elif given.what in ("run", "show"):
        run(given.steps) if given.what == "run" else show()
    else:
        import jax

        jax.config.update("jax_enable_x64", True)
        from benchmarks import physics_gpu as gpu

        file = given.out or gpu.FILE
        if given.what == "parts":
            gpu.parts(file, given.problem)
        else:
            label = given.label or given.method
            gpu.solve(given.problem, given.method, given.seconds, given.options, given.start, file, label)


if __name__ == "__main__":
    main()

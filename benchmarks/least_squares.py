"""All rows in every step: the default beside the Levenberg–Marquardt of SciPy and of optimistix at equal evaluations.

python -m benchmarks.least_squares run [--methods scax optimistix scipy] [--problems …] [--starts N]
python -m benchmarks.least_squares show                  writes the table of docs/measurements/defaults.md

float64, no penalty, each from the same weights, exact Jacobians, every tolerance at 1e-15. Franke: 1,000 rows,
2/20/20/1, 300 evaluations and 1,000 ("franke, long"). Duffing: examples/duffing.py, 20 sequences of 60 values, 56
weights, 300 evaluations. SciPy: `least_squares(method="lm")`, which is MINPACK. What a start has already in
docs/results/least-squares.json is kept. Errors are relative L2 (Franke) and RMS (Duffing), both on data not seen.
"""

import argparse
import importlib.metadata
import json
import time
from pathlib import Path

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import scax
from benchmarks import noise, pages

FILE = pages.DOCS / "results/least-squares.json"
METHODS = ("scax", "optimistix", "scipy")
EVALUATIONS = {"franke": 300, "franke, long": 1000, "duffing": 300}
TOLERANCE = 1e-15


def franke(start: int) -> tuple:
    """(apply, params, x, y, error of params)."""
    (x, y), (x_test, y_test) = noise.data("franke", 0.0, 1000)
    net = scax.MLP(noise.WIDTHS["franke"])
    params = jax.tree.map(lambda leaf: leaf.astype(np.float64), net.init(jax.random.key(start)))
    error = lambda p: float(np.linalg.norm(net.apply(p, x_test)[:, 0] - y_test) / np.linalg.norm(y_test))
    return net.apply, params, x, y, error


def duffing(start: int) -> tuple:
    from examples import duffing as example

    rng = np.random.default_rng(0)
    inputs, unseen = example.draw(rng, 20), example.draw(rng, 50)
    true = example.measure(unseen)
    params = example.begin(np.random.default_rng(1000 + start))
    error = lambda p: float(np.sqrt(np.mean((np.asarray(example.simulate(p, unseen)) - true) ** 2)))
    return example.simulate, params, inputs, example.measure(inputs), error


PROBLEMS = {"franke": franke, "franke, long": franke, "duffing": duffing}


def by_scax(apply, params, x, y, steps: int):
    problem = scax.Problem(apply, scax.Squared(), scax.L2(0.0))
    result = scax.train(scax.SCA(problem), params, (x, y), steps=steps, batch_size=None, records=1)
    return result.params, result.steps


def by_optimistix(apply, params, x, y, steps: int):
    import optimistix

    y = y.reshape(len(x), -1)
    method = optimistix.LevenbergMarquardt(rtol=TOLERANCE, atol=TOLERANCE)

    @jax.jit
    def fit(params):
        found = optimistix.least_squares(lambda p, _: apply(p, x) - y, method, params, max_steps=steps, throw=False)
        return found.value, found.stats["num_steps"]

    value, count = jax.block_until_ready(fit(params))
    return value, int(count)


def by_scipy(apply, params, x, y, steps: int):
    import scipy.optimize

    w, unravel = ravel_pytree(params)
    y = y.reshape(len(x), -1)
    residual = jax.jit(lambda w: (apply(unravel(w), x) - y).ravel())
    jacobian = jax.jit(jax.jacfwd(residual))
    tolerances = dict.fromkeys(("xtol", "ftol", "gtol"), TOLERANCE)
    found = scipy.optimize.least_squares(
        lambda w: np.asarray(residual(w)), np.asarray(w), lambda w: np.asarray(jacobian(w)),
        method="lm", max_nfev=steps, **tolerances,
    )  # fmt: skip
    return unravel(found.x), int(found.nfev)


FITS = {"scax": by_scax, "optimistix": by_optimistix, "scipy": by_scipy}


def run(problems, methods, starts: range, out: Path) -> None:
    jax.config.update("jax_enable_x64", True)
    results = json.loads(out.read_text()) if out.exists() else {"rows": []}
    rows = {(r["problem"], r["method"], r["start"]): r for r in results["rows"]}
    for name in problems:
        for start in starts:
            for method in methods:
                if (name, method, start) in rows:
                    continue
                apply, params, x, y, error = PROBLEMS[name](start)
                began = time.perf_counter()
                fitted, steps = FITS[method](apply, params, x, y, EVALUATIONS[name])
                seconds = time.perf_counter() - began
                rows[name, method, start] = {
                    "problem": name, "method": method, "start": start, "error": float(f"{error(fitted):.4g}"),
                    "evaluations": steps, "seconds": round(seconds, 2),
                }  # fmt: skip
                print(json.dumps(rows[name, method, start]), flush=True)
                write(rows, results, out)


def write(rows: dict, results: dict, out: Path) -> None:
    versions = results.get("packages", {})
    for package in ("scipy", "optimistix"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    order = [(p, m, s) for p in PROBLEMS for m in METHODS for s in range(100) if (p, m, s) in rows]
    pages.write_rows(out, map(rows.get, order), "python -m benchmarks.least_squares run", packages=versions)


def markdown(results: dict) -> str:
    body = []
    for name in PROBLEMS:
        for method in METHODS:
            group = [r for r in results["rows"] if (r["problem"], r["method"]) == (name, method)]
            if not group:
                continue
            errors = [r["error"] for r in group]
            cells = [f"{v:.1e}" for v in (np.median(errors), min(errors), max(errors))]
            seconds = np.median([r["seconds"] for r in group])
            body.append([name, method, str(len(group)), *cells, f"{seconds:.3g}"])
    return pages.table(["problem", "method", "starts", "error, median", "from", "to", "seconds, median"], body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first of these starts")
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    if options.what == "run":
        run(options.problems, options.methods, range(options.first, options.first + options.starts), options.out)
    made = markdown(json.loads(options.out.read_text()))
    pages.write_tables(pages.DOCS / "measurements/defaults.md", {"least-squares": made})
    print(made)


if __name__ == "__main__":
    main()

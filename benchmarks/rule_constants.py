"""The neighborhood of the rules' constants: each changed alone, or a few together, on all kinds of problems at once.

python -m benchmarks.rule_constants run --data-dir DIR [--parts paper noise random wide] [--seconds S] [--out FILE]
python -m benchmarks.rule_constants show

Parts: `paper`, the sets of `benchmarks.defaults`; `noise`, some of `benchmarks.noise`; `random`, those of
`benchmarks.unseen` with 1 and 8 rows; `wide`, the sets of the paper with hidden layers of 100 and 50, 32 rows and a
ridge of 1e-4. `noise` computes in float64, so give it a process of its own. Variants are run in the order below until
the seconds are over; what they have in common compiles once.
"""

import argparse
import functools
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import scax
from benchmarks import defaults, noise, pages, unseen
from scax.rules import Progress
from scax.rules.sequences import OnClock

from .runs import follow

FILE = Path(__file__).parent.parent / "docs/results/rule-constants.json"
#: What is changed: a constant and its value, by the part of the rules it belongs to.
VARIANTS: dict[str, dict[str, dict[str, float]]] = {
    "default": {},
    "τ grows with .75": {"damping": {"growth": 0.75}},
    "τ grows with .85": {"damping": {"growth": 0.85}},
    "τ grows with .55": {"damping": {"growth": 0.55}},
    "share of τ × 1.4": {"damping": {"share": 0.0224}},
    "share of τ / 1.4": {"damping": {"share": 0.0114}},
    "ς × 2": {"metric": {"share": 10.0}},
    "ς / 2": {"metric": {"share": 2.5}},
    "bound .25": {"clock": {"tolerance": 0.25}},
    "bound .6": {"clock": {"tolerance": 0.6}},
    "α falls with .5": {"step": {"exponent": 0.5}},
    "α falls with .6": {"step": {"exponent": 0.6}},
    "25 free steps": {"clock": {"free_steps": 25.0}},
    "100 free steps": {"clock": {"free_steps": 100.0}},
    "β later by 2": {"carry": {"scale": 12.0}},
    "average n⁶": {"mean": {"power": 6.0}},
    "average n¹²": {"mean": {"power": 12.0}},
    "ς grows with 1": {"metric": {"growth": 1.0}},
    "τ and ς grow with .75, .9": {"damping": {"growth": 0.75}, "metric": {"growth": 0.9}},
    "τ grows with .75, share / 1.2": {"damping": {"growth": 0.75, "share": 0.0133}},
}


def method(problem: scax.Problem, variant: dict[str, dict[str, float]]) -> scax.SCA:
    """The default with these constants: one structure for all, so that nothing compiles anew."""
    given = lambda part, **usual: usual | variant.get(part, {})
    step, carry = given("step", exponent=0.55), given("carry", scale=6.0)
    return scax.SCA(
        problem,
        clock=Progress(**given("clock", tolerance=0.4, free_steps=50.0)),
        damping=scax.Relative(**given("damping")),
        metric=scax.LowRank(automatic=True, **given("metric")),
        step_size=OnClock(scax.PowerDecay(0.5, step["exponent"], scale=1.5)),
        carry=OnClock(scax.Approach(0.65, scale=carry["scale"])),
        mean_power=given("mean", power=8.0)["power"],
    )


# -- parts: (piece, a function of the variant that gives its scores by name) ---------------------------


def paper(folder: str):
    ends, seeds = (50, 200, 500, 1333, 4000), 6
    for name, case in defaults.CASES.items():
        net, problem = defaults.network(name)
        given = (*defaults.starts(net, seeds), defaults.load(folder, name), ends, 20)

        def score(variant, problem=problem, given=given, case=case):
            u = np.asarray(defaults.over_seeds(method(problem, variant), *given), float)[:, :, 1].mean(0)
            return {str(n): 100 * (v / case.best - 1) for n, v in zip(ends, u, strict=True)}

        yield name, score


def noisy(folder: str):
    jax.config.update("jax_enable_x64", True)
    for name, level, size, steps, starts in (
        ("sinc", 0.0, 20, 4000, 3),
        ("franke", 0.0, 100, 10_000, 1),
        ("friedman", 0.0, 100, 10_000, 1),
        ("friedman", 0.01, 20, 10_000, 1),
        ("friedman", 0.3, 20, 10_000, 1),
    ):
        rows, unseen_rows = (tuple(map(jnp.asarray, part)) for part in noise.data(name, level, noise.ROWS[name]))
        net = scax.MLP(noise.WIDTHS[name])
        problem = scax.Problem(net.apply, scax.Squared(), scax.L2(0.0))
        test = jax.jit(jax.vmap(lambda p, net=net, t=unseen_rows: jnp.mean((net.apply(p, t[0])[:, 0] - t[1]) ** 2)))
        begin = defaults.starts(net, starts, jnp.float64)

        def score(variant, problem=problem, begin=begin, rows=rows, steps=steps, size=size, test=test):
            u, params = solutions(method(problem, variant), *begin, rows, (steps,), size)
            geometric = lambda v: float(np.exp(np.mean(np.log(np.asarray(v, float)))))
            return {"objective": geometric(u[:, 0, 1]), "test": geometric(test(params))}

        yield f"{name}, noise {level:g}, {size} rows", score


def random(folder: str):
    for name in unseen.NAMES:
        for size in (1, 8):
            net, loss, x, y, floor = unseen.make(name)
            problem = scax.Problem(net.apply, loss, scax.L2(1e-8))
            given = (*defaults.starts(net, unseen.STARTS), (jnp.asarray(x), jnp.asarray(y)), unseen.ENDS, size)

            def score(variant, problem=problem, given=given, floor=floor):
                u = np.asarray(defaults.over_seeds(method(problem, variant), *given), float)[:, :, 1] - floor
                return dict(zip(map(str, unseen.ENDS), np.exp(np.log(u).mean(0)).tolist(), strict=True))

            yield f"{name}, {size}", score


def wide(folder: str):
    ends = (2000, 20_000)
    for name in defaults.CASES:
        (x, y), (x_test, y_test) = _standardized(folder, name)
        net = scax.MLP((x.shape[1], 100, 50, 1))
        problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-4))
        test = jax.jit(jax.vmap(lambda p, net=net, x=x_test, y=y_test: jnp.mean((net.apply(p, x)[:, 0] - y) ** 2)))
        begin = defaults.starts(net, 1)

        def score(variant, problem=problem, begin=begin, rows=(x, y), test=test):
            u, params = solutions(method(problem, variant), *begin, rows, ends, 32)
            at = dict(zip(map(str, ends), np.asarray(u, float)[0, :, 1].tolist(), strict=True))
            return at | {"test": float(test(params)[0])}

        yield name, score


def _standardized(folder: str, name: str) -> list[tuple]:
    """Three quarters of the rows for training, the others for the test."""
    from benchmarks import sparse_training

    key = "winequality-white" if name == "Wine" else name.lower()
    x, y = sparse_training.table(key, Path(folder))
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[: 3 * len(x) // 4], order[3 * len(x) // 4 :]
    scale = lambda a: (a - a[train].mean(0)) / np.where((sd := a[train].std(0)) > 0, sd, 1)
    x, y = scale(x), scale(y)
    return [(jnp.asarray(x[part], jnp.float32), jnp.asarray(y[part], jnp.float32)) for part in (train, test)]


@functools.partial(jax.jit, static_argnames=("ends", "size"))
def solutions(sca, params, keys, data, ends, size):
    """([starts, ends, 2] objectives of the last iterate and the solution, the solutions)."""
    u, state = jax.vmap(lambda p, k: follow(sca, sca.init(p), k, data, ends, size))(params, keys)
    return u, jax.vmap(sca.solution)(state)


PARTS = {"paper": paper, "noise": noisy, "random": random, "wide": wide}


def run(parts: list[str], folder: str, seconds: float, out: Path) -> None:
    if "noise" in parts and len(parts) > 1:
        raise SystemExit("noise computes in float64: run it alone, into a file of its own.")
    began = time.perf_counter()
    results = json.loads(out.read_text()) if out.exists() else {}
    pieces = [(part, *piece) for part in parts for piece in PARTS[part](folder)]
    for variant, changes in VARIANTS.items():
        for part, piece, score in pieces:
            if time.perf_counter() - began > seconds:
                return
            scores = {name: float(f"{v:.4g}") for name, v in score(changes).items()}
            results.setdefault(part, {}).setdefault(piece, {})[variant] = scores
            out.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n")
        print(f"{time.perf_counter() - began:.0f} s: {variant}", flush=True)


def markdown(results: dict) -> str:
    """Ratios to the default: geometric mean over a part's pieces and marks, and the largest."""
    is_complete = lambda part, variant: all(variant in scores for scores in results[part].values())
    parts = [part for part in PARTS if part in results and sum(is_complete(part, v) for v in VARIANTS) > 1]
    size = lambda ratio: f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
    body = []
    for variant in VARIANTS:
        cells = []
        for part in parts:
            ratios = [
                scores[variant][name] / scores["default"][name]
                for scores in results[part].values()
                if variant in scores
                for name in scores["default"]
            ]
            mean = np.exp(np.mean(np.log(ratios))) if ratios else np.nan
            cells.append(f"{mean:.2f} ({size(max(ratios))})" if is_complete(part, variant) else "–")
        body.append([variant, *cells])
    return pages.table(["", *parts], body)


#: Objective after 20,000 steps and test error of wide networks that are aimed at.
AIMS = {"CASP": (0.39, 0.43), "Parkinsons": (0.027, 0.15), "SkillCraft1": (0.016, 1.1), "Wine": (0.042, 1.1)}


def wide_markdown(results: dict) -> str:
    """The default's wide networks beside what is aimed at."""
    body = []
    for name, scores in results["wide"].items():
        mine = scores["default"]["20000"], scores["default"]["test"]
        marked = [f"{v:.2g}" + ("" if v <= aim else " ✗") for v, aim in zip(mine, AIMS[name], strict=True)]
        body.append([name, marked[0], f"{AIMS[name][0]:g}", marked[1], f"{AIMS[name][1]:g}"])
    return pages.table(["", "objective", "aimed at", "test error", "aimed at"], body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--data-dir", default=".")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    if options.what == "run":
        run(options.parts, options.data_dir, options.seconds, options.out)
    results = json.loads(options.out.read_text())
    tables = {"constants": markdown(results)} | ({"wide": wide_markdown(results)} if "wide" in results else {})
    print("\n\n".join(tables.values()))
    if options.out == FILE:
        pages.write_tables(pages.DOCS / "measurements" / "defaults.md", tables)


if __name__ == "__main__":
    main()

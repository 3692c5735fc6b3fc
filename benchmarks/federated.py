"""Rounds and bytes between ten sites: exact and local rounds beside FedAvg, FedProx, FedAdam and local Newton steps.

    SCAX_DATA=folder python -m benchmarks.federated [--parts paper digits] [--seeds 3] [--rounds 200] [--out docs]

Rows are sorted by their first feature (digits: by the first principal component) and cut in ten: no two sites are
alike. Baselines start from the first seed and are tuned there: what needs the fewest rounds of FedAvg's rates and local
steps, then of FedProx's proximal weights and FedAdam's rates, from these steps on. Where a best setting is at the edge
of its grid, the results say so. `--draw` makes the plot alone.
"""

import argparse
import functools
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import scax
from benchmarks.defaults import CASES, load, network
from benchmarks.pages import table, write_tables
from benchmarks.steps import describe_machine
from scax.cluster.statistics import numbers_sent

SITES = 10
#: (data set, how near to U* counts)
PAPER = {"Wine": 1.02, "SkillCraft1": 1.02, "CASP": 1.01}
EXACT_ROUNDS = 40
BATCH = 32
#: Rounds of a baseline between two looks at its objective, where rounds have fewer steps than that.
EVERY, MANY = 5, 400
#: Steps of a site in a round, and where tuning begins.
STEPS = (12, 25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600)
FIRST_STEPS = 200
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
PROXIMAL = (0.0001, 0.001, 0.01, 0.1, 1.0)
SERVER_RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: Those of FedAdam's sites and of FedProx's, beside FedAvg's best.
SHARES = (0.03, 0.1, 0.3, 1.0, 3.0)
PROXIMAL_SHARES = (0.1, 0.3, 1.0, 3.0)
SETTING = ("rate", "proximal", "server", "steps")
NEWTON_ROUNDS = 20
DAMPINGS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
#: (steps, rows of each) of local rounds on the paper's data.
LOCAL = ((10, 32), (10, 256), (50, 32))
LOCAL_ROUNDS = 40
#: Local rounds before exact ones.
FIRST = 2
#: What may be run apart; the baselines are much faster on a GPU.
METHODS = ("exact", "both", "newton", "local", "baselines")
LABELS = {
    "exact": "exact rounds",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedadam": "FedAdam",
    "newton": "local Newton",
    "both": "local, then exact",
    "local": "local rounds",
}
#: The order of the page's table.
COLUMNS = ("both", "exact", "local", "newton", "fedavg", "fedprox", "fedadam")
NAMES = {"proximal": "weight", "server": "server rate", "batch_size": "rows"}
DIGITS = (64, 200, 180, 10)
#: Steps of a site in a round that are tried there, of FedAvg and of local rounds.
DIGITS_STEPS = (20, 60, 120, 240, 480)
DIGITS_LOCAL = (20, 60, 120, 240)
DIGITS_RATES = (0.03, 0.1, 0.3, 1.0)
DIGITS_ROUNDS = 30


def cut(x: np.ndarray, y: np.ndarray, by: np.ndarray) -> list[tuple]:
    """Ten sites of rows sorted by a number."""
    return [(x[i], y[i]) for i in np.array_split(np.argsort(by, kind="stable"), SITES)]


@functools.partial(jax.jit, static_argnames=("problem", "every"))
def averaging(problem, params, carry, x, y, sizes, whole, settings, steps, *, every):
    """`every` more rounds with each setting (rate, proximal weight, server rate), and the objectives after them.

    Sites take steps of SGD with a proximal term (FedAvg where it is 0); the server takes their mean, or, where its rate
    is not 0, an Adam step of that rate along it (FedAdam).
    """
    layout = problem.layout(params)

    def loss(w, x, y):
        z = problem.outputs(layout.unflatten(w, ()), x)
        return jnp.mean(problem.loss.value(z, problem.loss.targets(y, z.shape[1]))) + problem.regularizer.value(w)

    def site(w0, x, y, size, key, rate, proximal):
        def step(i, w):
            rows = jax.random.randint(jax.random.fold_in(key, i), (BATCH,), 0, size)
            return w - rate * (jax.grad(loss)(w, x[rows], y[rows]) + proximal * (w - w0))

        return jax.lax.fori_loop(0, steps, step, w0) - w0

    def follow(carry, setting):
        rate, proximal, server = setting

        def one(carry, _):
            w, m, v, t = carry
            keys = jax.random.split(jax.random.fold_in(jax.random.key(1), t), SITES)
            moved = jax.vmap(site, (None, 0, 0, 0, 0, None, None))(w, x, y, sizes, keys, rate, proximal)
            delta = sizes @ moved / jnp.sum(sizes)
            m, v = 0.9 * m + 0.1 * delta, 0.99 * v + 0.01 * delta**2
            adam = server * m / (jnp.sqrt(v) + 1e-3)
            return (w + jnp.where(server > 0, adam, delta), m, v, t + 1), None

        carry, _ = jax.lax.scan(one, carry, length=every)
        return carry, loss(carry[0], *whole)

    return jax.vmap(follow)(carry, settings)


def stacked(sites: list[tuple]) -> tuple:
    """(x, y, sizes) of sites padded to the largest: rows beyond a site's size are never drawn."""
    most = max(len(y) for _, y in sites)
    pad = lambda a: np.pad(a, [(0, most - len(a))] + [(0, 0)] * (a.ndim - 1))
    x, y = (jnp.stack([jnp.asarray(pad(site[i])) for site in sites]) for i in (0, 1))
    return x, y, jnp.asarray([float(len(y)) for _, y in sites], jnp.float32)


def look_every(steps: int) -> int:
    """Rounds between two looks."""
    return EVERY if steps < MANY else 1


def race(problem, params, sites, settings, steps, rounds, *, every=None, level=None) -> np.ndarray:
    """[settings, rounds/every] objectives of a baseline; the race is over where one of them reaches the level."""
    every = look_every(steps) if every is None else every
    whole = tuple(jnp.concatenate([jnp.asarray(site[i]) for site in sites]) for i in (0, 1))
    w = jnp.tile(problem.layout(params).flatten(params), (len(settings), 1))
    carry = (w, jnp.zeros_like(w), jnp.zeros_like(w), jnp.zeros(len(settings), jnp.int32))
    table, numbers, curves = stacked(sites), jnp.asarray(settings, w.dtype).T, []
    for _ in range(0, rounds, every):
        carry, result = averaging(problem, params, carry, *table, whole, tuple(numbers), steps, every=every)
        curves.append(np.nan_to_num(np.asarray(result, float), nan=np.inf))
        if level is not None and curves[-1].min() <= level:
            break
    return np.array(curves).T


def tune(problem, params, sites, settings, ladder, rounds, *, begin, level=None) -> dict:
    """The setting that needs the fewest rounds to the level, else has the lowest objective after all of them.

    The number of local steps starts at `begin` on the ladder, rises for as long as that helps, then falls. `edges` are
    the parts of the setting that are the least or the most that was tried.
    """
    best: dict | None = None

    def helps(steps: int) -> bool:
        nonlocal best, rounds
        curves = race(problem, params, sites, settings, steps, rounds, level=level)
        i = int(np.argmin(curves[:, -1]))
        needed = first(curves[i], level, look_every(steps)) if level is not None else None
        print(f"  {steps} steps: {settings[i]}, {needed} rounds, {curves[i, -1]:.6g}", flush=True)
        score = (needed or np.inf, curves[i, -1])
        if best is not None and score >= best["score"]:
            return False
        best = {"score": score, "setting": settings[i], "steps": steps}
        rounds = needed or rounds  # the next has to be faster
        return True

    middle = ladder.index(begin)
    helps(begin)
    for more in (ladder[middle + 1 :], ladder[:middle][::-1]):
        for steps in more:
            if not helps(steps):
                break
    assert best is not None
    tried = dict(zip(SETTING, (*zip(*settings, strict=True), ladder), strict=True))
    chosen = dict(zip(SETTING, (*best["setting"], best["steps"]), strict=True))
    at_edge = lambda name: len(set(tried[name])) > 1 and chosen[name] in (min(tried[name]), max(tried[name]))
    return best | {"edges": [name for name in SETTING if at_edge(name)]}


def first(objective: np.ndarray, level: float, every: int = 1) -> int | None:
    """The first round at which the objective is below a level."""
    below = np.flatnonzero(objective <= level)
    return int(every * (below[0] + 1)) if len(below) else None


def spent(result: dict, level: float) -> float | None:
    """Bytes of a site until a method is at this objective."""
    needed = first(np.asarray(result["curve"][1]), level)
    return None if needed is None else float(traffic(result)[needed - 1])


def traffic(result: dict) -> np.ndarray:
    """Bytes of a site after each round."""
    each = np.full(len(result["curve"][0]), result["bytes"], float)
    each[: result.get("begun", 0)] = result.get("begun_bytes", 0)
    return np.cumsum(each)


def paper(name: str, seeds: int, rounds: int, methods: list[str], row: dict, save: Callable[[dict], None]) -> None:
    """One data set of the paper: rounds to near U*, curves of the first seed, bytes; saved after every method."""
    x, y = map(np.asarray, load(os.environ["SCAX_DATA"], name))
    net, problem = network(name)
    sites, best, q = cut(x, y, x[:, 0]), CASES[name].best, problem.layout(net.init(jax.random.key(0))).size
    level = PAPER[name] * best
    starts = [net.init(jax.random.key(seed)) for seed in range(seeds)]
    row |= {"set": name, "weights": q, "best": best, "level": PAPER[name]}
    row.setdefault("methods", {})

    def keep(method: str, curves: list, size: float, **more: Any) -> None:
        row["methods"][method] = {
            "rounds": [first(curve, level) for curve in curves],
            "curve": [list(range(1, len(curves[0]) + 1)), np.asarray(curves[0], float).tolist()],
            "end": [float(curve[-1]) / best for curve in curves],
            "bytes": size,
        } | more
        print(name, method, *(row["methods"][method][part] for part in ("rounds", "end")), *more.values(), flush=True)
        save(row)

    sums = 4 * (numbers_sent(q) + q)
    if "exact" in methods:
        runs = [scax.federated.simulate(problem, params, sites, rounds=EXACT_ROUNDS) for params in starts]
        keep("exact", [run.history["objective"] for run in runs], sums)
    if "both" in methods:
        curves = []
        for params in starts:
            how = {"rounds": FIRST, "scheme": "local"}
            begun = scax.federated.simulate(problem, params, sites, **how)
            run = scax.federated.simulate(problem, begun.params, sites, rounds=EXACT_ROUNDS - FIRST)
            curves.append(np.concatenate([result.history["objective"] for result in (begun, run)]))
        keep("both", curves, sums, begun=FIRST, begun_bytes=8 * q)
    if "newton" in methods:
        tried = {}
        for damping in DAMPINGS:
            how = scax.SCA(problem, step_size=1.0, damping=damping, carry=0.0, mean_power=None, metric=None)
            local = scax.federated.Local(steps=1, batch_size=len(x), carry=0.0, method=how)
            tried[damping] = scax.federated.simulate(
                problem, starts[0], sites, rounds=NEWTON_ROUNDS, scheme="local", local=local
            ).history["objective"]
        best_damping = min(tried, key=lambda damping: score(tried[damping], level))
        edges = ["damping"] if best_damping in (min(DAMPINGS), max(DAMPINGS)) else []
        keep("newton", [tried[best_damping]], 8 * q, setting={"damping": best_damping}, edges=edges)
    if "local" in methods:
        tried = {}
        for steps, batch_size in LOCAL:
            how = scax.federated.Local(steps=steps, batch_size=batch_size)
            run = scax.federated.simulate(problem, starts[0], sites, rounds=LOCAL_ROUNDS, scheme="local", local=how)
            tried[steps, batch_size] = run.history["objective"]
        steps, batch_size = min(tried, key=lambda how: score(tried[how], level))
        keep("local", [tried[steps, batch_size]], 8 * q, setting={"steps": steps, "batch_size": batch_size})
    if "baselines" in methods:
        how = {"rounds": rounds, "begin": FIRST_STEPS, "level": level}
        average = tune(problem, starts[0], sites, [(rate, 0.0, 0.0) for rate in RATES], STEPS, **how)
        near, how["begin"] = average["setting"][0], average["steps"]
        for method, settings in {
            "fedavg": None,
            "fedprox": [(near * share, proximal, 0.0) for share in PROXIMAL_SHARES for proximal in PROXIMAL],
            "fedadam": [(near * share, 0.0, server) for share in SHARES for server in SERVER_RATES],
        }.items():
            chosen = average if settings is None else tune(problem, starts[0], sites, settings, STEPS, **how)
            setting = dict(zip(SETTING, (*chosen["setting"], chosen["steps"]), strict=True))
            one = [chosen["setting"]], chosen["steps"], rounds
            curve = race(problem, starts[0], sites, *one, every=1, level=level)[0]
            keep(method, [curve], 8 * q, setting=setting, edges=chosen["edges"])


def score(curve: np.ndarray, level: float) -> tuple:
    """Less is better: rounds to the level, then the objective at the end."""
    return first(curve, level) or np.inf, np.nan_to_num(curve[-1], nan=np.inf)


def robust(rounds: int = 30) -> dict:
    """Wine with a fifth of the sites missing in every round, and one more whose sums overflow."""
    x, y = map(np.asarray, load(os.environ["SCAX_DATA"], "Wine"))
    net, problem = network("Wine")
    sites = {f"site {i}": site for i, site in enumerate(cut(x, y, x[:, 0]))}
    sites["broken"] = (x[:300], y[:300] * np.float32(1e38))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = scax.federated.simulate(problem, net.init(jax.random.key(0)), sites, rounds=rounds, missing=0.2)
    good = problem.objective(result.params, x, y)
    named = [str(warning.message) for warning in caught if "broken" in str(warning.message)]
    return {"over": float(good) / CASES["Wine"].best, "rounds": result.steps, "warning": named[0] if named else None}


def digits() -> dict:
    """A network of about 50,000 weights: local rounds beside tuned FedAvg, the steps of a site tuned for both."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = (data.data / 16 - 0.5).astype(np.float32), data.target.astype(np.int32)
    centered = x - x.mean(axis=0)
    net = scax.MLP(DIGITS)
    problem = scax.Problem(net.apply, scax.Softmax(), scax.L2(1e-4))
    sites = cut(x, y, centered @ np.linalg.svd(centered, full_matrices=False)[2][0])
    params = net.init(jax.random.key(0))
    settings = [(rate, 0.0, 0.0) for rate in DIGITS_RATES]
    best = tune(problem, params, sites, settings, DIGITS_STEPS, DIGITS_ROUNDS, begin=DIGITS_STEPS[2])
    curve = race(problem, params, sites, [best["setting"]], best["steps"], DIGITS_ROUNDS, every=1)[0]
    print("digits fedavg", best, flush=True)
    tried = {}
    for steps in DIGITS_LOCAL:
        how = scax.federated.Local(steps=steps)
        run = scax.federated.simulate(problem, params, sites, rounds=DIGITS_ROUNDS // 2, scheme="local", local=how)
        ours = run.history["objective"]
        reached = first(ours, curve[-1])
        setting = {"steps": steps, "batch_size": BATCH}
        tried[steps] = {"setting": setting, "curve": ours.tolist(), "reached": reached}
        print("digits local", steps, reached, ours[[-6, -1]], flush=True)
    return {
        "weights": problem.layout(params).size,
        "fedavg": {
            "setting": {"rate": best["setting"][0], "steps": best["steps"]},
            "edges": best["edges"],
            "curve": curve.tolist(),
        },
        "local": min(tried.values(), key=lambda result: (result["reached"] or np.inf, result["curve"][-1])),
        "tried": [{name: result[name] for name in ("setting", "reached")} for result in tried.values()],
        "of": DIGITS_ROUNDS,
    }


def draw(results: dict, path: Path) -> None:
    """Excess over U* on CASP's network against rounds and against bytes; the objective on digits."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.7), layout="constrained")
    axes = figure.subplots(1, 3)
    colors = {name: f"C{i}" for i, name in enumerate(COLUMNS)}
    row = next(row for row in results["paper"] if row["set"] == "CASP")
    for name, result in row["methods"].items():
        at, value = (np.asarray(part, float) for part in result["curve"])
        excess = np.maximum(100 * (np.minimum.accumulate(value) / row["best"] - 1), 0.1)
        how = {"color": colors[name], "linestyle": "--" if name == "fedprox" else "-"}  # often that of FedAvg
        axes[0].loglog(at, excess, **how, label=LABELS[name])
        axes[1].loglog(traffic(result) / 1e3, excess, **how)
    for axis, label in zip(axes, ("rounds", "kB of a site, up and down", "rounds"), strict=True):
        axis.set_xlabel(label)
        axis.grid(alpha=0.25, which="both")
    axes[0].set_ylabel("least objective so far over U*, %")
    axes[0].set_title(f"CASP, {row['weights']} weights", fontsize=10)
    axes[1].set_title("the same against bytes", fontsize=10)
    figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=len(row["methods"]))
    if "digits" in results:
        result = results["digits"]
        for name in ("local", "fedavg"):
            curve = result[name]["curve"]
            axes[2].loglog(range(1, len(curve) + 1), curve, color=colors[name])
        axes[2].set_title(f"digits, {result['weights']:,} weights", fontsize=10)
        axes[2].set_ylabel("objective")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def tell(row: dict) -> None:
    """Rounds of one set; and the bytes to where FedAvg, FedProx and FedAdam ended, beside those of ours to there."""
    for name, result in row["methods"].items():
        over = ", ".join(f"{100 * (end - 1):.2g}%" for end in result["end"])
        edges = f" (at the grid's edge: {', '.join(result['edges'])})" if result.get("edges") else ""
        setting = ", ".join(f"{part} {value:g}" for part, value in result.get("setting", {}).items())
        print(f"{row['set']:12} {LABELS[name]:13} rounds {result['rounds']}, end {over}; {setting}{edges}")
        if name in ("fedavg", "fedprox", "fedadam"):
            level = min(result["curve"][1])
            cost = {
                other: spent(row["methods"][other], level)
                for other in (name, "exact", "both", "local")
                if other in row["methods"]
            }
            shown = ", ".join(
                f"{LABELS[other]} {kb / 1e3:.0f}" if kb else f"{LABELS[other]} –" for other, kb in cost.items()
            )
            print(f"{'':26} kB of a site to there: {shown}")


def cell(result: dict | None) -> str:
    """Rounds from each start; where a run ended that did not get there."""
    if result is None:
        return "–"
    ends = zip(result["rounds"], result["end"], strict=True)
    return ", ".join(f"none ({100 * (end - 1):.3g}%)" if needed is None else str(needed) for needed, end in ends)


def setting_of(result: dict | None) -> str:
    """The best setting; in bold what is at its grid's edge."""
    parts = []
    for part, value in ({} if result is None else result["setting"]).items():
        if value:
            text = f"{NAMES.get(part, part)} {value:.3g}" if value < 1 else f"{NAMES.get(part, part)} {value:g}"
            parts.append(f"**{text}**" if part in result.get("edges", ()) else text)
    return ", ".join(parts) or "–"


def tables(results: dict) -> dict[str, str]:
    """Those of docs/guides/federated.md, by their marks."""
    rows = sorted(results["paper"], key=lambda row: list(PAPER).index(row["set"]))
    heads = LABELS | {"both": "two local, then exact", "exact": "exact", "local": "local"}
    tuned = [name for name in COLUMNS if any("setting" in row["methods"].get(name, ()) for row in rows)]
    rounds = [[row["set"], str(row["weights"]), *(cell(row["methods"].get(name)) for name in COLUMNS)] for row in rows]
    settings = [[row["set"], *(setting_of(row["methods"].get(name)) for name in tuned)] for row in rows]
    return {
        "federated rounds": table(["data", "weights", *(heads[name] for name in COLUMNS)], rounds),
        "federated settings": table(["data", *(heads[name] for name in tuned)], settings),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=[*PAPER, "robust", "digits"])
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, help="of the paper's sets")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=200, help="of the baselines")
    parser.add_argument("--draw", action="store_true", help="only make the plot")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    path = options.out / "results" / "federated.json"
    results = json.loads(path.read_text()) if path.exists() else {"paper": []}

    def save(row: dict | None = None) -> None:
        if row is not None:
            results["paper"] = [*(other for other in results["paper"] if other["set"] != row["set"]), row]
        results["machine"] = describe_machine() | {"command": "python -m benchmarks.federated"}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n")

    for part in [] if options.draw else options.parts:
        if part in PAPER:
            row = next((row for row in results["paper"] if row["set"] == part), {})
            paper(part, options.seeds, options.rounds, options.methods, row, save)
        else:
            results[part] = {"robust": robust, "digits": digits}[part]()
            save()
    for row in results["paper"]:
        tell(row)
    page = options.out / "guides" / "federated.md"
    if page.exists():
        write_tables(page, tables(results))
    if any(row["set"] == "CASP" for row in results["paper"]):
        draw(results, options.out / "images" / "federated.svg")


if __name__ == "__main__":
    main()

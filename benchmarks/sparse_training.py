"""Whole trainings to sparse networks: SCA's paths against gradient methods that prune, at equal sparsity.

python -m benchmarks.sparse_training --prepare splits.npz --data-dir DIR [--splits 20]
python -m benchmarks.sparse_training --splits-file splits.npz [--jobs 16] [--sets casp] [--networks paper]
python -m benchmarks.sparse_training --splits-file splits.npz --networks wide --methods dense log l1 --splits 8
python -m benchmarks.sparse_training --show docs/results/sparse-training-paper.json [--picture docs/images/NAME.svg]

The first command reads the tables and stores the splits; the second needs nothing but JAX, optax and this package, and
spreads (set, network, some splits) over processes of one core each. Per split a quarter of the rows is for the test; a
fifth of the others is held out and makes every choice: strength, learning rate, ridge, refit or not. Each method gives
its best network with at most a quarter of the weights. "Dense" is SCA with the best of some ridges, and with the same
steps on all rows at the end that the sparse runs get. "Long" are SCA's networks with steps that fall more slowly, LONG,
and each strength trained from the first weights, as the gradient methods do it. With --methods only these are run, and
their numbers, and those of --sets, replace what the results file has of them; the others stay.
"""

import argparse
import dataclasses
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SETS = {
    "casp": (9, 10, 6, 1),
    "parkinsons": (19, 15, 5, 1),
    "skillcraft1": (18, 15, 10, 1),
    "winequality-white": (11, 10, 4, 1),
}
SHARE = 0.25
BATCH = 32


@dataclasses.dataclass(frozen=True)
class Plan:
    """Hidden layers, steps with the first and with each further strength, and what is tried. A refit has as many steps
    as the first strength."""

    hidden: tuple[int, ...] | None
    first: int
    next: int
    strengths: dict[str, np.ndarray]
    ridges: tuple[float, ...]
    refits: tuple[float, ...]
    enough: float  # a path ends with fewer weights than this share of those allowed

    @property
    def steps(self) -> int:
        """Those of a path without STRONGER strengths, which every other method has too."""
        return self.first + (len(self.strengths["log"]) - 1) * self.next

    @property
    def parts(self) -> list[str]:
        """What it has strengths for."""
        needs = {"l1": "l1", "group": "group", "long-dense": "long", "long-l1": "long"}
        return [part for part in PARTS if needs.get(part, "log") in self.strengths]


NETWORKS = {
    "paper": Plan(
        None,
        4000,
        500,
        {
            "l1": np.geomspace(3e-4, 1.2e-2, 15),
            "group": np.geomspace(3e-4, 2e-2, 15),
            "log": np.geomspace(3e-4, 2e-1, 15),
            "gradients": np.geomspace(5e-4, 2e-2, 15),
        },
        ridges=(1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
        refits=(1e-4, 1e-3),
        enough=1 / 3,
    ),
    "wide": Plan(
        (100, 50),
        20000,
        5000,
        {
            "log": 3e-5 * 10 ** (3 * np.arange(19) / 14),
            "l1": np.geomspace(1e-4, 1.2e-2, 19),
            "long": np.geomspace(1e-4, 1.2e-2, 15)[::2],  # of ℓ1, each from the first weights and with LONG steps
            "gradients": np.concatenate([[1e-5, 3e-5], np.geomspace(1e-4, 1.2e-2, 15)]),
        },
        ridges=(1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
        refits=(1e-4,),
        enough=1 / 16,
    ),
}
WEAKEST = {"casp": 3e-3}  # where the log penalty begins: better there on rows held out (the first three splits)
STRONGER = {"parkinsons": 4}  # further strengths, but for the log, where not every split gets below a quarter otherwise
RATES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
DECAYS = (0.0, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1)  # ridges of Adam, dense and pruned
LONG = (0.5, 0.25, 1.5)  # of PowerDecay
OURS = ("scax log", "scax log, no refit", "scax l1", "scax group", "scax l1, long")
DENSE = ("dense", "dense, long", "dense, adam")
OTHERS = ("proximal adam", "proxsgd", "adam, pruned", "lassonet")
PARTS = ("dense", "log", "l1", "group", "long-dense", "long-l1", "others")


# -- the splits --------------------------------------------------------------------------------------


def table(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and target of one of the sets, rows with missing values left out."""
    import polars

    from scax.tables import datasets

    about = datasets.REMOTE[name]
    source = datasets.find(name, folder) or datasets.fetch(name, folder)
    frame = polars.read_csv(
        source, separator=";" if name == "winequality-white" else ",", null_values=["?"], infer_schema_length=None
    ).drop_nulls()
    frame = frame.drop([c for c in about.drop if c in frame.columns])
    y = frame[about.target].to_numpy().astype(float)
    return frame.drop(about.target).to_numpy().astype(float), y


def prepare(file: Path, folder: Path | None, splits: int) -> None:
    """Tables and, for every split, an order of their rows: test, held out, training."""
    arrays = {}
    for name in SETS:
        x, y = table(name, folder)
        arrays[f"{name}/x"], arrays[f"{name}/y"] = x, y
        orders = [np.random.default_rng(seed).permutation(len(x)) for seed in range(splits)]
        arrays[f"{name}/orders"] = np.array(orders, np.uint32)
    np.savez_compressed(file, **arrays)


def split_of(x: np.ndarray, y: np.ndarray, order: np.ndarray) -> dict:
    """Standardized rows of one split."""
    test, rest = np.split(order, [len(x) // 4])
    held, train = np.split(rest, [len(rest) // 5])
    x = (x - x[rest].mean(0)) / np.where((sd := x[rest].std(0)) > 0, sd, 1)
    y = (y - y[rest].mean()) / y[rest].std()
    put = lambda rows: (x[rows].astype(np.float32), y[rows].astype(np.float32))
    return {"train": put(train), "held": put(held), "test": put(test)}


# -- one split ---------------------------------------------------------------------------------------


def compared(
    widths: tuple[int, ...], plan: Plan, split: dict, seed: int, parts: list[str], lassonet: bool, name: str
) -> dict:
    """Some methods on one split of the set `name`."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    import scax

    net, clock = scax.MLP(widths), time.perf_counter()
    start = net.init(jax.random.key(seed))
    flat, back = ravel_pytree(start)
    limit = int(SHARE * flat.size)
    train, held, test = (split[name] for name in ("train", "held", "test"))

    def error(params, rows) -> float:
        return float(jnp.mean((net.apply(params, rows[0])[:, 0] - rows[1]) ** 2))

    def judged(params) -> float:
        """The error on the rows held out, infinite where it is not a number."""
        return float(np.nan_to_num(error(params, held), nan=np.inf))

    def best(candidates: list) -> dict:
        """The least error on the rows held out among networks with at most `limit` weights."""
        sizes = [int(jnp.sum(ravel_pytree(p)[0] != 0)) for p, _ in candidates]
        fit = [i for i, size in enumerate(sizes) if 0 < size <= limit]
        if not fit:
            return {"weights": min(sizes), "test": None}
        i = min(fit, key=lambda i: judged(candidates[i][0]))
        small = scax.compact(net, candidates[i][0])
        same = float(jnp.max(jnp.abs(small.apply(test[0]) - net.apply(candidates[i][0], test[0]))))
        return {
            "weights": sizes[i],
            "held": error(candidates[i][0], held),
            "test": error(candidates[i][0], test),
            "setting": candidates[i][1],
            "widths": list(small.net.widths),
            "same": same,
        }

    row: dict = {"seed": seed, "weights": int(flat.size), "limit": limit, "seconds": {}}

    def timed(name: str, value) -> None:
        nonlocal clock
        row[name] = value
        row["seconds"][name] = round(time.perf_counter() - clock, 1)
        clock = time.perf_counter()

    squared = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    everything = scax.Support(np.ones(flat.size, bool))
    slower = {"step_size": scax.PowerDecay(*LONG)}
    for kind, options in {"dense": {}, "long-dense": slower}.items():
        if kind not in parts:
            continue
        dense = []
        for ridge in plan.ridges:
            problem = dataclasses.replace(squared, regularizer=scax.L2(ridge))
            method = scax.SCA(problem, **options)
            end = scax.train(method, start, train, steps=plan.steps, batch_size=BATCH, records=1).params
            dense.append((end, ridge))
            further = dataclasses.replace(squared, regularizer=scax.L2(ridge) + everything)
            dense.append((scax.finish(further, end, train), ridge))
        one = min(dense, key=lambda c: judged(c[0]))
        told = {"test": error(one[0], test), "held": error(one[0], held), "ridge": one[1], "weights": int(flat.size)}
        timed("dense" if kind == "dense" else "dense, long", told)

    if "long-l1" in parts:
        candidates = []
        for strength in plan.strengths["long"]:
            method = scax.SCA(dataclasses.replace(squared, regularizer=scax.L1(strength)), **slower)
            end = scax.train(
                method, start, train, steps=plan.steps, batch_size=BATCH, records=1, key=jax.random.key(seed)
            ).params
            candidates.append((end, float(strength)))
            if int(jnp.sum(ravel_pytree(end)[0] != 0)) < plan.enough * limit:
                break
        timed("scax l1, long", best(candidates) | {"candidates": len(candidates)})

    units = {
        "log": scax.LogSum(1.0), "l1": scax.L1(1.0), "group": scax.GroupLasso(1.0, scax.neuron_groups(start)),
    }  # fmt: skip
    for kind, unit in units.items():
        if kind not in parts:
            continue
        problem = dataclasses.replace(squared, regularizer=unit)
        strengths = plan.strengths[kind]
        if kind != "log":
            further = strengths[-1] * (strengths[-1] / strengths[-2]) ** np.arange(1, STRONGER.get(name, 0) + 1)
            strengths = np.concatenate([strengths, further])
        elif plan.hidden is None and name in WEAKEST:
            strengths = np.geomspace(WEAKEST[name], strengths[-1], len(strengths))
        path = scax.path(
            problem, strengths, params=start, data=train, validation=held, steps=plan.next, first_steps=plan.first,
            batch_size=BATCH, key=jax.random.key(seed), on_record=lambda now: now["weights"] < plan.enough * limit,
        )  # fmt: skip
        candidates: list[tuple[Any, Any]] = list(zip(path.params, [float(s) for s in path.strengths], strict=True))
        small = [c for c, size in zip(candidates, path.weights, strict=True) if 0 < size <= limit]
        for params, strength in small:
            for ridge in plan.refits:
                end = scax.refit(problem, params, train, steps=plan.first, batch_size=BATCH, ridge=ridge)
                candidates.append((end, [strength, ridge]))
                kept = scax.L2(ridge) + scax.Support(np.asarray(ravel_pytree(params)[0] != 0))
                further = dataclasses.replace(squared, regularizer=kept)
                candidates.append((scax.finish(further, end, train), [strength, ridge]))
        row[f"scax {kind}, no refit"] = best(candidates[: len(path.params)])
        timed(f"scax {kind}", best(candidates) | {"path": path.weights.tolist(), "candidates": len(candidates)})

    if "others" not in parts:
        return row
    grid = jnp.asarray([(r, s) for r in RATES for s in plan.strengths["gradients"]], jnp.float32)
    given = flat, tuple(map(jnp.asarray, train)), jax.random.key(seed)
    for kind in ("proximal adam", "proxsgd"):
        ends = gradients(net, kind, plan.steps)(grid, *given)
        timed(kind, best([(back(w), g) for w, g in zip(ends, np.asarray(grid).tolist(), strict=True)]))

    settings = [(rate, ridge) for rate in RATES for ridge in DECAYS]
    whole = gradients(net, "dense adam", plan.steps)(jnp.asarray(settings, jnp.float32), *given)
    end, setting = min(((back(w), s) for w, s in zip(whole, settings, strict=True)), key=lambda c: judged(c[0]))
    told = {"test": error(end, test), "held": error(end, held), "setting": list(setting), "weights": int(flat.size)}
    timed("dense, adam", told)
    pruned = gradients(net, "adam, pruned", plan.steps)(jnp.asarray(settings, jnp.float32), *given)
    timed("adam, pruned", best([(back(w), list(s)) for w, s in zip(pruned, settings, strict=True)]))
    if lassonet:
        timed("lassonet", lasso_network(widths, split, limit, seed))
    return row


@functools.cache
def gradients(net, name: str, steps: int):
    """(settings, first weights, rows, key) to the last weights of each setting, compiled once for all splits."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    import scax
    from benchmarks.proximal import Proximal
    from benchmarks.runs import follow

    back = ravel_pytree(net.init(jax.random.key(0)))[1]
    apply = lambda w, x: net.apply(back(w), x)
    nothing = lambda method, state: {"objective": jnp.zeros(())}

    def run(w, data, key, rate, mask, count, strength=0.0, ridge=0.0):
        problem = scax.Problem(apply, scax.Squared(), scax.L2(ridge))
        method = Proximal(problem, rate, strength, mask, count, "proxsgd" if name == "proxsgd" else "proximal adam")
        return method.solution(follow(method, method.init(w), key, data, (count,), BATCH, nothing)[1])

    def one(setting, w, data, key):
        rate, other = setting
        ones = jnp.ones_like(w)
        if name == "dense adam":
            return run(w, data, key, rate, ones, steps, ridge=other)
        if name != "adam, pruned":
            return run(w, data, key, rate, ones, steps, strength=other)
        w = run(w, data, key, rate, ones, steps * 2 // 3, ridge=other)
        mask = (jnp.abs(w) >= jnp.sort(jnp.abs(w))[-int(SHARE * w.size)]).astype(w.dtype)
        return run(w, data, jax.random.fold_in(key, 1), rate / 3, mask, steps // 3, ridge=other)

    return jax.jit(jax.vmap(one, in_axes=(0, None, None, None)))


def lasso_network(widths: tuple[int, ...], split: dict, limit: int, seed: int) -> dict:
    """LassoNet's path with its own defaults; it removes inputs, so that its sizes are those of whole inputs."""
    import torch
    from lassonet import LassoNetRegressor

    torch.set_num_threads(1)
    (x, y), held, test = split["train"], split["held"], split["test"]
    model = LassoNetRegressor(hidden_dims=widths[1:-1], random_state=seed, torch_seed=seed, verbose=0)
    path = model.path(x, y, X_val=held[0], y_val=held[1], return_state_dicts=True)
    found = []
    for entry in path:
        state = entry.state_dict
        kept = int(sum(int((v != 0).sum()) for v in state.values()))
        model.load(state)
        wrong = lambda rows: float(np.mean((model.predict(rows[0]).ravel() - rows[1]) ** 2))
        found.append((wrong(held), wrong(test), kept, int(entry.selected.sum())))
    total = max(f[2] for f in found)
    fit = [f for f in found if 0 < f[2] <= limit]
    if not fit:
        return {"test": None, "weights": min(f[2] for f in found), "of": total}
    one = min(fit)
    return {"test": one[1], "weights": one[2], "of": total, "inputs": one[3], "dense": min(found)[1]}


# -- all of them -------------------------------------------------------------------------------------


def work(options: argparse.Namespace) -> None:
    """Some splits of one set and network, in this process; a line of JSON each."""
    arrays = np.load(options.splits_file)
    (name,), (network,) = options.sets, options.networks
    plan = NETWORKS[network]
    widths = SETS[name] if plan.hidden is None else (SETS[name][0], *plan.hidden, 1)
    x, y = arrays[f"{name}/x"], arrays[f"{name}/y"]
    for seed in options.only:
        split = split_of(x, y, arrays[f"{name}/orders"][seed])
        row = compared(widths, plan, split, seed, options.methods or plan.parts, options.lassonet, name)
        print(json.dumps({"set": name, "network": network, "widths": widths} | row), flush=True)


def spread(options: argparse.Namespace) -> tuple[list[dict], list[tuple]]:
    """(rows, failed tasks): processes of one core each, `jobs` at a time, with some splits of one set and network."""
    count = np.load(options.splits_file)[f"{options.sets[0]}/orders"].shape[0]
    seeds = list(range(min(count, options.splits)))
    # each process compiles for a minute: several splits each, but for the largest set, which comes first
    parts = 4 if len(seeds) >= 8 else 1
    pieces = {name: [seeds[i::parts] for i in range(parts)] for name in options.sets}
    if "casp" in pieces:
        pieces["casp"] = [[seed] for seed in seeds]
    order = sorted(options.sets, key=lambda name: name != "casp")
    tasks = [(n, network, piece) for network in options.networks for n in order for piece in pieces[n]]
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    quiet = os.environ | {"XLA_FLAGS": flags, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NPROC": "1"}
    running: list[tuple[subprocess.Popen, tuple]] = []
    rows: list[dict] = []
    failed: list[tuple] = []

    def collect(process, task) -> None:
        out = process.communicate()[0]
        rows.extend(json.loads(line) for line in out.splitlines() if line.startswith("{"))
        if process.returncode:
            failed.append(task)
        print(f"{len(rows)} splits done, {task[0]} {task[1]}", flush=True)

    for task in tasks:
        while len(running) >= options.jobs:
            done = [r for r in running if r[0].poll() is not None]
            for r in done:
                running.remove(r)
                collect(*r)
            time.sleep(0.2)
        name, network, piece = task
        command = [
            sys.executable, "-m", "benchmarks.sparse_training", "--splits-file", str(options.splits_file),
            "--sets", name, "--networks", network, *(["--lassonet"] if options.lassonet else []),
            "--methods", *(options.methods or NETWORKS[network].parts), "--only", *map(str, piece),
        ]  # fmt: skip
        # lines go to a file's worth of pipe: a few kilobytes per split, below a pipe's buffer
        running.append((subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet), task))
    for r in running:
        collect(*r)
    return rows, failed


def chosen(row: dict) -> dict:
    """SCA's result on one split: of the penalties, the one with the least error on the rows held out."""
    found = [row[m] for m in OURS if row.get(m, {}).get("held") is not None]
    return min(found, key=lambda told: told["held"], default={"test": np.nan, "weights": np.nan})


def over_dense(rows: list[dict]) -> float:
    """SCA's mean error over the dense network's, on the splits of both; of the dense networks the best one."""
    ratios = []
    for kind in DENSE:
        both = [(chosen(row)["test"], row[kind]["test"]) for row in rows if kind in row]
        ratios += [float(np.divide(*np.mean(both, axis=0)))] if both else []
    return max(ratios, default=np.nan)


def markdown(results: dict) -> str:
    """Mean test MSE at no more than a quarter of the weights, and the paired differences to "scax", its penalty chosen
    on the rows held out. What was not run has no column."""
    ran = lambda m: any(m in row for row in results["rows"])
    others = OTHERS if any(map(ran, OTHERS)) else ()
    methods = (*filter(ran, OURS), *others)
    denses = tuple(filter(ran, DENSE))
    heads = ("network", "set", "splits", *denses, "scax", *methods, "weights kept", "over dense", "≤ 1%")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    pairs = ["| network | set | " + " | ".join(OTHERS) + " | at or below all |", "|---|---|" + "---|" * 5]
    for network in NETWORKS:
        for name in SETS:
            rows = [r for r in results["rows"] if r["set"] == name and r["network"] == network]
            if not rows:
                continue
            value = lambda r, m: np.nan if m not in r or r[m]["test"] is None else r[m]["test"]
            errors = {m: np.array([value(r, m) for r in rows]) for m in (*denses, *methods)}
            ours = [chosen(r) for r in rows]
            share = np.mean([one["weights"] / r["weights"] for one, r in zip(ours, rows, strict=True)])
            own = np.array([one["test"] for one in ours])
            dense = " | ".join(_mean(errors[m]) for m in denses)
            cells = [_mean(errors[m]) for m in methods]
            over = over_dense(rows) - 1
            widths = "/".join(map(str, rows[0]["widths"]))
            lines.append(
                f"| {widths} | {name} | {len(rows)} | {dense} | {own.mean():.4f} | {' | '.join(cells)} | "
                f"{share:.0%} | {over:+.1%} | {'met' if over <= 0.01 else 'missed'} |"
            )
            cells, fine = [], []
            for m in others:
                gap = errors[m] - own
                gap = gap[~np.isnan(gap)]
                if not len(gap):
                    cells.append("none")
                    continue
                half = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
                cells.append(f"{gap.mean():+.4f} ± {half:.4f}")
                fine.append(gap.mean() >= 0)
            pairs.append(
                f"| {widths} | {name} | {' | '.join(cells)} | {'–' if not fine else 'yes' if all(fine) else 'no'} |"
            )
    return "\n".join([*lines, "", *pairs] if others else lines)


def _mean(errors: np.ndarray) -> str:
    """Over the splits on which a method was run, and how many if not all."""
    known = errors[~np.isnan(errors)]
    if not len(known):
        return "none"
    return f"{known.mean():.4f}" + ("" if len(known) == len(errors) else f" ({len(known)})")


def picture(results: dict, file: Path) -> None:
    """Test error over that of the dense network, mean and 95% interval over the splits, one panel for each set."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    names = [name for name in SETS if any(r["set"] == name for r in results["rows"])]
    methods = [m for m in (OURS + OTHERS)[::-1] if any(r.get(m, {}).get("test") is not None for r in results["rows"])]
    figure, panels = plt.subplots(
        1, len(names), figsize=(2.6 * len(names) + 1.2, 3.0), sharey=True, squeeze=False, layout="constrained"
    )
    for panel, name in zip(panels[0], names, strict=True):
        rows = [r for r in results["rows"] if r["set"] == name]
        for i, method in enumerate(methods):
            over = [
                r[method]["test"] / r["dense"]["test"] for r in rows if method in r and r[method]["test"] is not None
            ]
            if len(over) < len(rows):
                continue
            half = 1.96 * np.std(over, ddof=1) / np.sqrt(len(over))
            color = "#c2410c" if method.startswith("scax") else "#475569"
            panel.errorbar(np.mean(over), i, xerr=half, fmt="o", color=color, markersize=5, capsize=3)
        panel.axvline(1, color="#94a3b8", linewidth=1, linestyle="--")
        panel.set_title(f"{name}\nat most {rows[0]['limit']} of {rows[0]['weights']} weights", fontsize=9)
        panel.grid(axis="x", color="#e2e8f0", linewidth=0.6)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_yticks(range(len(methods)), methods)
    figure.supxlabel("test MSE / that of the dense network (dashed)", fontsize=9)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", type=Path, default=None)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--splits-file", type=Path, default=None)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=["paper"])
    parser.add_argument("--methods", nargs="*", choices=PARTS, default=None, help="all, if left out")
    parser.add_argument("--only", nargs="*", type=int, default=None, help="these splits, in this process")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--lassonet", action="store_true", help="LassoNet too: needs the packages lassonet and torch")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--show", type=Path, default=None, help="print the tables of a results file")
    parser.add_argument("--picture", type=Path, default=None, help="with --show: draw them, too")
    options = parser.parse_args()
    if options.show is not None:
        results = json.loads(options.show.read_text())
        print(markdown(results))
        if options.picture is not None:
            picture(results, options.picture)
        return
    if options.prepare is not None:
        prepare(options.prepare, options.data_dir, options.splits)
        return
    if options.splits_file is None:
        parser.error("give --splits-file, made with --prepare")
    for network in options.networks:
        if missing := set(options.methods or ()) - set(NETWORKS[network].parts):
            rest = " ".join(NETWORKS[network].parts)
            parser.error(
                f"--networks {network} has no strengths for {', '.join(sorted(missing))}: use --methods {rest}"
            )
    if options.only is not None:
        work(options)
        return
    from benchmarks.steps import describe_machine

    began = time.perf_counter()
    rows, failed = spread(options)
    command = "python -m benchmarks.sparse_training --splits-file FILE --networks " + " ".join(options.networks)
    command += f" --splits {options.splits} --sets " + " ".join(options.sets)
    if options.lassonet:
        command += " --lassonet"
    if options.methods:
        command += " --methods " + " ".join(options.methods)
    machine = describe_machine() | {"command": command, "minutes": round((time.perf_counter() - began) / 60, 1)}
    options.out.mkdir(parents=True, exist_ok=True)
    for network in options.networks:
        file = options.out / f"sparse-training-{network}.json"
        known = json.loads(file.read_text()) if file.exists() else {"machines": [], "rows": []}
        merged = {(row["set"], row["seed"]): row for row in known["rows"]}
        for row in (r for r in rows if r["network"] == network):
            old = merged.get((row["set"], row["seed"]), {})
            merged[row["set"], row["seed"]] = old | row | {"seconds": old.get("seconds", {}) | row["seconds"]}
        if not any(r["network"] == network for r in rows):
            continue
        results = {
            "machines": [*known["machines"], machine],
            "share": SHARE,
            "rows": [merged[key] for key in sorted(merged)],
        }
        lines = ",\n".join(json.dumps(row) for row in results["rows"])  # a split per line
        text = f'{{"machines": {json.dumps(results["machines"])},\n"share": {SHARE},\n"rows": [\n{lines}\n]}}\n'
        file.write_text(text)
        print(markdown(results))
    if failed:
        sys.exit(f"These failed, and are not in the results: {failed}")


if __name__ == "__main__":
    main()

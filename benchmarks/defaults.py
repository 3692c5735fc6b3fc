"""How good the defaults are.

    python -m benchmarks.defaults run --data-dir DIR
    python -m benchmarks.defaults plot

Parts of the run, each a section of the results file (docs/results/defaults.json):

    targets     excess over the best known objective U*, the default beside itself with one part changed; seeds vmapped
    baselines   first-order methods and L-BFGS, the learning rate of each tuned per data set, constant and with cosine
                decay, last iterate and averaged: what they reach with 3 times SCA's iterations
    time        seconds per step of SCA and Adam
    batches     batch sizes 8 … 1024
    robustness  random configurations (data, units, widths, activations, batch sizes, losses, precision) against Adam,
                its learning rate tuned for each
    fresh       the same with configurations that were drawn after all rules had been fixed
    longer      networks and batches as tables have them, 2,000 iterations

`--ours` computes SCA's own numbers again, and keeps those of the other methods. `--most N` stops after the first N
pieces of each part.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import gzip
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.optimize
from jax.flatten_util import ravel_pytree

import scax
from scax._struct import struct
from scax.rules.damping import Recovering
from scax.training.evaluation import Objective, evaluate
from scax.training.methods import tunable
from scax.training.methods import tuned as tune

from . import pages
from .runs import follow
from .soap import soap

RESULTS = pathlib.Path(__file__).parent.parent / "docs" / "results" / "defaults.json"
LAMBDA = 1e-3


# -- the data sets of the paper ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    file: str
    target: str
    dropped: tuple[str, ...]
    widths: tuple[int, ...]
    best: float  # U*, the lowest objective known: L-BFGS from several starts
    wanted: tuple[float, float, float]  # excess over U* aimed at, percent, after 50, 500 and 4000 iterations
    separator: str = ","


CASES = {
    "CASP": Case("casp.csv.gz", "RMSD", (), (9, 10, 6, 1), 0.19451, (4.5, 2, 1)),
    "Parkinsons": Case(
        "parkinsons.csv.gz", "total_UPDRS", ("subject#", "motor_UPDRS"), (19, 15, 5, 1), 0.1025, (32, 12, 4)
    ),
    "SkillCraft1": Case("skillcraft1.csv.gz", "LeagueIndex", ("GameID",), (18, 15, 10, 1), 0.066545, (5, 1, 0.2)),
    "Wine": Case("winequality-white.csv.gz", "quality", (), (11, 10, 4, 1), 0.051519, (4, 0.5, 0.1), ";"),
}


@functools.cache
def load(folder: str, name: str):
    """Inputs in [−½, ½], targets in [−.9, .9], missing values at the median; the first 75% of a fixed permutation."""
    case = CASES[name]
    with gzip.open(pathlib.Path(folder) / case.file, "rt") as file:
        names = [column.strip('"\n') for column in file.readline().split(case.separator)]
        table = np.genfromtxt((line.replace('"', "") for line in file), delimiter=case.separator)  # "?" becomes NaN
    y = table[:, names.index(case.target)]
    x = table[:, [i for i, column in enumerate(names) if column not in (case.target, *case.dropped)]]
    x = np.where(np.isnan(x), np.nanmedian(x, axis=0), x)
    unit = lambda a: (a - a.min(0)) / np.where(np.ptp(a, axis=0) > 0, np.ptp(a, axis=0), 1)
    keep = np.random.default_rng(0).permutation(len(x))[: int(0.75 * len(x))]
    return jnp.asarray(unit(x)[keep] - 0.5, jnp.float32), jnp.asarray(1.8 * unit(y)[keep] - 0.9, jnp.float32)


def network(name: str) -> tuple[scax.MLP, scax.Problem]:
    net = scax.MLP(CASES[name].widths, activation="tanh", output="tanh")
    return net, scax.Problem(net.apply, scax.Squared(), scax.L2(LAMBDA))


# -- runs over seeds -----------------------------------------------------------------------------------


def starts(net: scax.MLP, seeds: int, dtype=jnp.float32):
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds))
    return jax.vmap(lambda k: net.init(k, dtype))(keys), keys


@functools.partial(jax.jit, static_argnames=("ends", "batch_size"))
def over_seeds(method, params, keys, data, ends, batch_size):
    """[seeds, ends, 2] objectives of the last iterate and of the averaged one."""
    return jax.vmap(lambda p, k: follow(method, method.init(p), k, data, ends, batch_size)[0])(params, keys)


# -- targets, and what each part of the default is for -------------------------------------------------

ENDS = (10, 20, 50, 100, 200, 500, 1000, 2000, 4000)
SHOWN = (50, 500, 4000)

WITHOUT = "no memory of curvature"
COUNTED = "a clock that counts steps"
VARIANTS = {
    "default": {},
    COUNTED: {"clock": scax.rules.StepCount()},
    "damping that does not grow": {"damping": scax.Relative(scale=1e9)},
    "constant carry β = 0.9": {"carry": scax.Approach(0.9, scale=1e9)},
    "no carry": {"carry": scax.Approach(0.0, scale=1e9)},
    WITHOUT: {"metric": None},
    "step size .3/√(1 + n/20)": {"step_size": scax.PowerDecay(0.3, 0.5, scale=20.0)},
    "damping by the curvature with its common direction": {
        "damping": scax.Relative(share=2.4e-3, noise=0.0, centered=False)
    },
    "share × 3": {"damping": scax.Relative(share=0.048)},
    "share / 3": {"damping": scax.Relative(share=0.016 / 3)},
    "fixed: τ = .03, β = .9, α = .3/√(1 + n/20)": {
        "damping": Recovering(base=0.03),
        "carry": scax.Approach(0.9, scale=1e9),
        "step_size": scax.PowerDecay(0.3, 0.5, scale=20.0),
    },
}


def target(folder: str, seeds: int, name: str, variant: str) -> dict:
    net, problem = network(name)
    some = seeds if variant in ("default", COUNTED, WITHOUT) else min(seeds, 5)
    u = over_seeds(scax.SCA(problem, **VARIANTS[variant]), *starts(net, some), load(folder, name), ENDS, 20)
    excess = 100 * (np.asarray(u, float) / CASES[name].best - 1)
    shown = excess[:, [ENDS.index(n) for n in SHOWN], 1]
    return {
        "each": [[float(f"{v:.4g}") for v in seed] for seed in shown],
        "mean": excess[:, :, 1].mean(0).tolist(),
        "sd": excess[:, :, 1].std(0, ddof=1).tolist(),
        "last iterate": excess[:, :, 0].mean(0).tolist(),
    }


# -- baselines -----------------------------------------------------------------------------------------

RATES = {
    "Adam": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "AdamW": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "NAdam": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "Lion": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    "Muon": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "SOAP": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    "schedule-free AdamW": (3e-3, 1e-2, 3e-2, 1e-1, 3e-1),
    "SGD, momentum .9": (3e-3, 1e-2, 3e-2, 1e-1, 3e-1),
}
MARKS = (50, 200, 500, 1333)  # SCA's iterations that the baselines are compared with
HORIZONS = (0, *(3 * n if n < 1333 else 4000 for n in MARKS))  # of the cosine decay; 0: constant


@functools.cache
def optimizer(name: str) -> optax.GradientTransformation:
    return tunable(
        {
            "Adam": optax.adam,
            "AdamW": optax.adamw,  # its decay comes on top of the ridge
            "NAdam": optax.nadam,
            "Lion": lambda rate: optax.lion(rate, weight_decay=0.0),
            "Muon": optax.contrib.muon,
            "SOAP": soap,
            "schedule-free AdamW": lambda rate: optax.contrib.schedule_free_adamw(rate(0), weight_decay=0.0),
            "SGD, momentum .9": lambda rate: optax.sgd(rate, momentum=0.9),
        }[name]
    )


@struct
class FreeOfSchedule:
    """As `Both`, for an optimizer whose last iterate is not where it takes its gradients."""

    rows: scax.Batch

    def __call__(self, method, state):
        last = optax.contrib.schedule_free_eval_params(state.optimizer.inner_state, state.params)
        value = lambda params: evaluate(method.problem, params, self.rows)
        return {"objective": jnp.stack([value(last), value(method.solution(state))])}


@functools.partial(jax.jit, static_argnames=("name", "ends", "batch_size"))
def over_grid(name, problem, grid, params, keys, data, ends, batch_size):
    """[grid, seeds, ends, 2] for pairs (learning rate, horizon)."""

    method = scax.baseline(optimizer(name), problem, mean_power=8.0)
    measure = FreeOfSchedule(scax.Batch(*data)) if name.startswith("schedule-free") else None

    def one(setting, params, key):
        (rate, horizon), state = setting, method.init(params)
        state = dataclasses.replace(state, optimizer=tune(state.optimizer, rate, horizon > 0, horizon))
        return follow(method, state, key, data, ends, batch_size, measure)[0]

    return jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, None))(grid, params, keys)


def at_marks(folder: str, seeds: int, name: str, metric: str | None = "auto") -> list[float]:
    """SCA's excess at the marks."""
    net, problem = network(name)
    u = over_seeds(scax.SCA(problem, metric=metric), *starts(net, min(seeds, 4)), load(folder, name), MARKS, 20)
    return (100 * (np.asarray(u, float)[:, :, 1].mean(0) / CASES[name].best - 1)).tolist()


def plain_at_marks(folder: str, seeds: int, name: str) -> list[float]:
    """The same without a memory of curvature."""
    return at_marks(folder, seeds, name, None)


def tuned(folder: str, seeds: int, name: str, method: str) -> list[dict]:
    """The best setting after each of three times as many iterations as the marks, and its excess."""
    net, problem = network(name)
    horizons = (0,) if method.startswith("schedule-free") else HORIZONS
    grid = jnp.asarray([(r, h) for r in RATES[method] for h in horizons], jnp.float32)
    ends = HORIZONS[1:]
    u = over_grid(method, problem, grid, *starts(net, min(seeds, 4)), load(folder, name), ends, 20)
    excess = 100 * (np.asarray(u, float).mean(1) / CASES[name].best - 1)  # [grid, ends, last or averaged]
    excess = np.nan_to_num(excess, nan=np.inf)
    best = []
    for i in range(len(ends)):
        g, kind = np.unravel_index(np.argmin(excess[:, i]), excess[:, i].shape)
        setting = [float(grid[g, 0]), int(grid[g, 1]), ("last", "averaged")[kind]]
        best.append({"excess": float(excess[g, i, kind]), "setting": setting})
    return best


def lbfgs(folder: str, seeds: int, name: str) -> dict:
    """Full-batch L-BFGS: iterations, and passes in units of one mini-batch, until each mark is reached."""
    net, problem = network(name)
    data, case, marks = load(folder, name), CASES[name], at_marks(folder, seeds, name)
    start, back = ravel_pytree(net.init(jax.random.key(0)))
    both = jax.jit(jax.value_and_grad(lambda w: evaluate(problem, back(w), scax.Batch(*data))))
    values: list[float] = []

    def fun(w):
        value, gradient = both(jnp.asarray(w, jnp.float32))
        values.append(float(value))
        return float(value), np.asarray(gradient, float)

    iterates: list[int] = []
    scipy.optimize.minimize(
        fun, np.asarray(start, float), jac=True, method="L-BFGS-B",
        callback=lambda _: iterates.append(len(values)), options={"maxiter": 1000, "maxcor": 20, "ftol": 0, "gtol": 0},
    )  # fmt: skip
    excess = 100 * (np.minimum.accumulate(values) / case.best - 1)
    out = {}
    for n, mark in zip(MARKS, marks, strict=True):
        hit = np.flatnonzero(excess <= mark)
        calls = int(hit[0]) + 1 if len(hit) else None
        iterations = None if calls is None else int(np.searchsorted(iterates, calls) + 1)
        out[str(n)] = {"iterations": iterations, "mini-batches": None if calls is None else calls * len(data[0]) // 20}
    return out


# -- time ----------------------------------------------------------------------------------------------

PLAIN = "SCA without the memory"


def seconds(folder: str, seeds: int, name: str) -> dict[str, float]:
    """Seconds per step in one compiled loop, SCA and Adam in turn, the fastest of seven."""
    net, problem = network(name)
    params, data = net.init(jax.random.key(0)), load(folder, name)
    best = {}
    methods = {"SCA": scax.SCA(problem), "Adam": scax.baseline(optax.adam(1e-2), problem)}
    methods[PLAIN] = scax.SCA(problem, metric=None)
    for turn in range(8):
        for label, method in methods.items():
            began = time.perf_counter()
            scax.train(method, params, data, steps=2000, batch_size=20, records=1)
            spent = (time.perf_counter() - began) / 2000
            if turn:  # the first turn compiles
                best[label] = min(best.get(label, math.inf), spent)
    return best


# -- batch sizes ---------------------------------------------------------------------------------------


SIZES, SIZES_AT = (8, 20, 64, 256, 1024), (50, 200, 500)


def batch_size(folder: str, seeds: int, name: str, size: str, known: dict | None = None) -> dict:
    net, problem = network(name)
    params, keys = starts(net, min(seeds, 3))
    data = load(folder, name)
    u = over_seeds(scax.SCA(problem), params, keys, data, SIZES_AT, int(size))
    percent = lambda v: (100 * (v / CASES[name].best - 1)).tolist()
    mine = percent(np.asarray(u, float)[:, :, 1].mean(0))
    if known is not None:
        return known | {"SCA": mine}
    grid = jnp.asarray([(r, h) for r in RATES["Adam"] for h in (0, SIZES_AT[-1])], jnp.float32)
    adam = over_grid("Adam", problem, grid, params, keys, data, SIZES_AT, int(size))
    adam = np.nan_to_num(np.asarray(adam, float).mean(1), nan=np.inf).min(axis=(0, 2))
    return {"steps": SIZES_AT, "SCA": mine, "Adam, tuned": percent(adam)}


# -- robustness ----------------------------------------------------------------------------------------


STRUCTURES, FRESH, DRAWS, ROBUST_STEPS = 60, 20, 5, 200
LONGER, LONGER_DRAWS, LONGER_STEPS = 24, 3, 2000


def structure(folder: str, seeds: int, index: str, known: list[dict] | None = None, **options) -> list[dict]:
    """One random structure, some draws of units and starts. Adam's learning rate is tuned for each of them. The options
    are SCA's."""
    rng = np.random.default_rng((1, int(index)))
    name = str(rng.choice(list(CASES)))
    width = int(4 * 250 ** rng.random())  # 4 … 1000
    depth = int(rng.integers(1, 3)) if width <= 128 else 1
    activation = str(rng.choice(["tanh", "relu", "gelu"]))
    kind = str(rng.choice(["squared", "logistic", "softmax"]))
    size = int(8 * 128 ** rng.random())  # 8 … 1024
    outputs = {"squared": int(rng.choice([1, 1, 3, 30])), "logistic": 1, "softmax": int(rng.choice([3, 10, 100]))}
    k, dtype = outputs[kind], (jnp.float32, jnp.float64)[int(rng.random() < 0.3)]
    scales = 10.0 ** rng.uniform(-3, 3, (DRAWS, 2))
    size = max(8, min(size, 512 // k))  # minutes, not hours; larger batches are in the part `batches`
    with jax.enable_x64(dtype == jnp.float64):
        given = folder, int(index), name, (width,) * depth, activation, kind, k, size, dtype, scales, known
        return _structure(*given, **options)


def longer(folder: str, seeds: int, index: str, known: list[dict] | None = None, **options) -> list[dict]:
    """The same for networks and batches as tables have them, over ten times as many iterations."""
    rng = np.random.default_rng((2, int(index)))
    name = str(rng.choice(list(CASES)))
    hidden = (int(8 * 8 ** rng.random()),) * int(rng.integers(1, 3))  # 8 … 64
    activation = str(rng.choice(["tanh", "relu", "gelu"]))
    kind = str(rng.choice(["squared", "squared", "logistic", "softmax"]))
    size = int(16 * 8 ** rng.random())  # 16 … 128
    scales = 10.0 ** rng.uniform(-3, 3, (LONGER_DRAWS, 2))
    k = 3 if kind == "softmax" else 1
    given = folder, int(index), name, hidden, activation, kind, k, size, jnp.float32, scales, known
    return _structure(*given, steps=LONGER_STEPS, **options)


def _structure(
    folder, index, name, hidden, activation, kind, k, size, dtype, scales, known, steps=ROBUST_STEPS, **options
):
    x, y = (np.asarray(a, float) for a in load(folder, name))
    rng = np.random.default_rng(index)
    if kind == "logistic":
        y = (y > np.median(y)).astype(float)
    elif kind == "softmax":
        y = np.minimum(np.argsort(np.argsort(y)) * k // len(y), k - 1)
    else:
        y = np.stack([y] + [np.tanh(x @ rng.standard_normal(x.shape[1])) for _ in range(k - 1)], 1)
    loss = {"squared": scax.Squared(), "logistic": scax.Logistic(), "softmax": scax.Softmax()}[kind]
    net = scax.MLP((x.shape[1], *hidden, k), activation=activation)
    problem = scax.Problem(net.apply, loss, scax.L2(1e-4))
    params, keys = starts(net, len(scales), dtype)
    standard = lambda a: (a - a.mean(0)) / np.where(a.std(0) > 0, a.std(0), 1)
    tables = []
    for a, b in scales:  # any units, standardized as the estimators do, in the precision of the run
        tx = standard((a * x).astype(dtype))
        ty = standard((b * y).astype(dtype)) if kind == "squared" else y.astype(int if kind == "softmax" else dtype)
        tables.append((tx, ty))
    data = tuple(jnp.asarray(np.stack(part)) for part in zip(*tables, strict=True))

    def descend(method, state, key, d):
        return follow(method, state, key, d, (steps,), size, Objective(scax.Batch(*d)))[0][0]

    def adam(p, key, d, rate):
        method = scax.baseline(optimizer("Adam"), problem)
        state = method.init(p)
        state = dataclasses.replace(state, optimizer=tune(state.optimizer, rate, True, steps))
        return descend(method, state, key, d)

    def every(method):
        run = jax.jit(lambda p, key, d: jax.lax.map(lambda c: descend(method, method.init(c[0]), *c[1:]), (p, key, d)))
        return np.asarray(run(params, keys, data), float)

    mine = every(scax.SCA(problem, **options))
    about = {"data": name, "hidden": hidden, "activation": activation, "loss": kind, "outputs": k, "batch": size}
    about["dtype"] = jnp.dtype(dtype).name
    if known is not None:
        theirs = np.array([run["Adam"] for run in known])
    else:
        rates = jnp.asarray([1e-3, 3e-3, 1e-2, 3e-2, 1e-1], dtype)
        sweep = jax.jit(lambda p, key, d: jax.lax.map(lambda c: jax.vmap(lambda r: adam(*c, r))(rates), (p, key, d)))
        theirs = np.nanmin(np.asarray(sweep(params, keys, data), float), axis=1)
    return [
        about | {"SCA": float(u), "Adam": float(v), "ratio": float(u / v)} for u, v in zip(mine, theirs, strict=True)
    ]


# -- pictures ------------------------------------------------------------------------------------------


def plot(results: dict, folder: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 4, figsize=(15, 3.8), constrained_layout=True)
    for ax, (name, seen) in zip(axes, results["targets"].items(), strict=True):
        curves = {
            "SCA, default": ("default", "C0-o"),
            "SCA, no memory of curvature": (WITHOUT, "k-"),
            "SCA, counting steps": (COUNTED, "C7--"),
        }
        for label, (variant, style) in curves.items():
            ax.loglog(ENDS, seen[variant]["mean"], style, ms=3, label=label)
        if "baselines" in results:
            baselines = results["baselines"].get(name, {})
            for i, (method, best) in enumerate((m, baselines[m]) for m in RATES if m in baselines):
                ax.loglog(
                    HORIZONS[1:],
                    [b["excess"] for b in best],
                    f"C{(1, 2, 3, 4, 5, 6, 8, 9)[i]}:",
                    marker="s",
                    ms=3,
                    lw=1,
                    label=method,
                )
        ax.loglog((50, 500, 4000), CASES[name].wanted, "kx", ms=7, label="aimed at")
        ax.set(title=name, xlabel="iterations")
        ax.grid(which="both", alpha=0.2)
    axes[0].set_ylabel("objective over U*, %")
    fig.legend(*axes[-1].get_legend_handles_labels(), fontsize=8, loc="outside right center", frameon=False)
    fig.savefig(folder / "defaults-excess.svg")
    plt.close(fig)


def ratios_of(results: dict, part: str = "robustness") -> np.ndarray:
    """Objective of SCA over that of tuned Adam, of all random configurations."""
    return np.array([run["ratio"] for runs in results.get(part, {}).values() for run in runs])


# -- tables --------------------------------------------------------------------------------------------


def number(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"


def tables(results: dict) -> dict[str, str]:
    """The tables of docs/measurements/defaults.md, by name."""
    out = {}
    if "targets" in results:
        steps, seen = ENDS, results["targets"]
        at = [steps.index(n) for n in SHOWN]
        three = lambda values: " / ".join(number(v) for v in values)
        body = []
        for name, case in CASES.items():
            mine = [seen[name]["default"]["mean"][i] for i in at]
            marked = " / ".join(number(v) + ("" if v <= w else " ✗") for v, w in zip(mine, case.wanted, strict=True))
            spread = three([seen[name]["default"]["sd"][i] for i in at])
            plain = three([seen[name][WITHOUT]["mean"][i] for i in at])
            body.append([name, marked, spread, three(case.wanted), plain])
        out["targets"] = pages.table(["", "default", "sd over seeds", "aimed at", WITHOUT], body)
        variants = [v for v in VARIANTS if v in seen["CASP"]]
        body = [[v, *(three([seen[n][v]["mean"][i] for i in at]) for n in CASES)] for v in variants]
        last = [three([seen[n]["default"]["last iterate"][i] for i in at]) for n in CASES]
        body.insert(1, ["its last iterate instead of the average", *last])
        if all("each" in seen[n][v] for n in CASES for v in ("default", COUNTED)):
            body.insert(2, ["default less a clock that counts steps", *(paired(seen[n]) for n in CASES)])
        out["parts"] = pages.table(["", *CASES], body)
    if "baselines" in results:
        baselines = {n: results["baselines"][n] for n in CASES if n in results["baselines"]}
        ends = HORIZONS[1:]
        body = []
        for method in ["SCA at the marks", PLAIN, *RATES]:
            if not any(method in baselines[n] for n in baselines):
                continue
            cells = []
            for name in baselines:
                if method not in baselines[name]:
                    cells.append("not run")
                    continue
                marks = baselines[name]["SCA at the marks"]
                entry = baselines[name][method]
                values = entry if method.startswith("SCA") else [b["excess"] for b in entry]
                cells.append(
                    " / ".join(
                        number(v) + (" ✗" if v < m and "SCA" not in method else "")
                        for v, m in zip(values, marks, strict=True)
                    )
                )
            label = "SCA after " if method == "SCA at the marks" else method + " after "
            body.append([label + " / ".join(map(str, MARKS if method.startswith("SCA") else ends)), *cells])
        calls = {n: baselines[n]["L-BFGS"] for n in baselines if "L-BFGS" in baselines[n]}
        if calls:
            counts = lambda c: " / ".join(
                "–" if c[str(n)]["iterations"] is None else str(c[str(n)]["iterations"]) for n in MARKS
            )
            body.append(
                [
                    "L-BFGS on all rows: iterations to SCA's objective",
                    *(counts(calls[n]) if n in calls else "not run" for n in baselines),
                ]
            )
        out["baselines"] = pages.table(["", *baselines], body)
    if "time" in results:
        body = []
        for name in (n for n in CASES if n in results["time"] and n in results.get("baselines", {})):
            each = results["time"][name]
            aim = results["baselines"][name]["Adam"][-1]["excess"]
            count = reached(results["targets"][name]["default"]["mean"], aim)
            took, adam = count * each["SCA"], HORIZONS[-1] * each["Adam"]
            times = [f"{1e6 * each[m]:.0f} µs" for m in ("SCA", PLAIN, "Adam")]
            body.append(
                [
                    name,
                    *times,
                    f"{aim:.2g}%",
                    f"{count:.0f}",
                    f"{1e3 * took:.0f} ms",
                    f"{1e3 * adam:.0f} ms",
                    f"{adam / took:.1f}",
                ]
            )
        head = [
            "",
            "a step of SCA",
            "without the memory",
            "of Adam",
            "tuned Adam after 4000",
            "SCA there after",
            "in",
            "Adam in",
            "faster",
        ]
        out["time"] = pages.table(head, body)
    if "batches" in results:
        three = lambda values: " / ".join(number(v) for v in values)
        body = []
        for name, sizes in results["batches"].items():
            ordered = sorted(sizes.items(), key=lambda item: int(item[0]))
            body += [[name, size, three(seen["SCA"]), three(seen["Adam, tuned"])] for size, seen in ordered]
        out["batches"] = pages.table(
            ["", "batch", "SCA, default, after 50 / 200 / 500", "Adam, tuned, after 50 / 200 / 500"], body
        )
    if any(part in results for part in ("robustness", "fresh", "longer")):
        parts = {"200 iterations": ratios_of(results), "200, fresh": ratios_of(results, "fresh")}
        parts |= {"2000 iterations": ratios_of(results, "longer")}
        parts = {name: ratios for name, ratios in parts.items() if len(ratios)}
        facts = {
            "runs": len,
            "not finite": lambda r: np.sum(~np.isfinite(r)),
            "objective above 1.1 × tuned Adam's": lambda r: np.sum(~(r <= 1.1)),
            "objective below tuned Adam's": lambda r: f"{100 * np.mean(r < 1):.0f}%",
            "median ratio to tuned Adam's": lambda r: f"{np.median(r):.2f}",
            "largest ratio": lambda r: f"{np.max(r):.2f}",
        }
        out["robustness"] = pages.table(
            ["", *parts], [[f, *(str(of(r)) for r in parts.values())] for f, of in facts.items()]
        )
    return out


def paired(seen: dict) -> str:
    """Mean over the seeds of what the default has more than a clock that counts steps, ± its standard error."""
    more = np.array(seen["default"]["each"]) - np.array(seen[COUNTED]["each"])
    error = more.std(0, ddof=1) / math.sqrt(len(more))
    return " / ".join(f"{m:+.2g} ± {e:.1g}" for m, e in zip(more.mean(0), error, strict=True))


def reached(excess: list[float], aim: float) -> float:
    """Iterations after which SCA is at `aim`: between the ENDS along a straight line in logarithms."""
    for (n, u), (m, v) in itertools.pairwise(zip(ENDS, excess, strict=True)):
        if 0 < v <= aim:
            return float(np.exp(np.interp(-math.log(aim), [-math.log(u), -math.log(v)], [math.log(n), math.log(m)])))
    return math.nan


# -- the run: pieces that do not depend on each other --------------------------------------------------

PIECES = {
    "targets": [(target, name, variant) for name in CASES for variant in VARIANTS],
    "baselines": [(tuned, name, method) for name in CASES for method in RATES]
    + [(lbfgs, name, "L-BFGS") for name in CASES]
    + [(at_marks, name, "SCA at the marks") for name in CASES]
    + [(plain_at_marks, name, PLAIN) for name in CASES],
    "time": [(seconds, name) for name in CASES],
    "batches": [(batch_size, name, str(size)) for name in ("CASP", "SkillCraft1") for size in SIZES],
    "robustness": [(structure, str(index)) for index in range(STRUCTURES)],
    "fresh": [(structure, str(index)) for index in range(STRUCTURES, STRUCTURES + FRESH)],
    "longer": [(longer, str(index)) for index in range(LONGER)],
}


def missing(results: dict, parts: list[str], ours: bool = False, most: int | None = None) -> list[tuple]:
    """(part, function, keys, what is known) of what is missing; `ours`: of all that SCA has a say in; the first `most`
    of each part."""
    out = []
    for part in parts:
        for function, *keys in PIECES[part][:most]:
            entry = results.get(part, {})
            for key in keys:
                entry = entry.get(key) if entry is not None else None
            if entry is None or (ours and function is not tuned):
                out.append((part, function, keys, entry))
    return out


def compute(piece: tuple, folder: str, seeds: int):
    _, function, keys, entry = piece
    given = keys[:1] if function in (at_marks, plain_at_marks, lbfgs) else keys
    known = {"known": entry} if function in (batch_size, structure, longer) else {}
    return function(folder, seeds, *given, **known)


def run(results: dict, todo: list[tuple], folder: str, seeds: int, workers: int, save, limit: float | None) -> None:
    """After `limit` seconds what is not done is left."""
    with concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(compute, piece, folder, seeds): piece for piece in todo}
        try:
            for done in concurrent.futures.as_completed(waiting, limit):
                part, _, keys, _ = waiting[done]
                entry = results.setdefault(part, {})
                for key in keys[:-1]:
                    entry = entry.setdefault(key, {})
                entry[keys[-1]] = done.result()
                print(part, *keys, flush=True)
                save()
        except TimeoutError:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.defaults", description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["run", "plot"])
    parser.add_argument("--data-dir", default=os.environ.get("SCAX_DATA", "."), help="where the tables are")
    parser.add_argument("--parts", nargs="+", choices=PIECES, default=list(PIECES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--workers", type=int, default=1, help="processes that work side by side; 1 for the part `time`"
    )
    parser.add_argument("--again", action="store_true", help="forget what the results file has of these parts")
    parser.add_argument("--ours", action="store_true", help="SCA's own numbers again, those of the others kept")
    parser.add_argument("--most", type=int, help="the first so many pieces of each part")
    parser.add_argument("--split", type=int, nargs=2, metavar=("I", "N"), help="every Nth piece, from the Ith on")
    parser.add_argument("--seconds", type=float, help="then what is not done is left for the next call")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    args = parser.parse_args()
    results = json.loads(args.out.read_text()) if args.out.exists() else {}
    if args.command == "plot":
        folder = args.out.parent.parent / "images"
        folder.mkdir(parents=True, exist_ok=True)
        plot(results, folder)
        pages.write_tables(folder.parent / "measurements" / "defaults.md", tables(results))
        return
    args.out.parent.mkdir(parents=True, exist_ok=True)
    if args.again:
        for part in args.parts:
            results.pop(part, None)
    save = lambda: args.out.write_text(json.dumps(results, indent=1) + "\n")
    began = time.perf_counter()
    todo = missing(results, args.parts, args.ours, args.most)
    if args.split:
        todo = todo[args.split[0] :: args.split[1]]
    run(results, todo, args.data_dir, args.seeds, args.workers, save, args.seconds)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()

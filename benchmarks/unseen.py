"""Random problems on which nothing was tuned: the default beside tuned Adam, from one row per batch to all of them.

python -m benchmarks.unseen run [--problems NAME …] [--rows 1 3 8 64 all]     writes docs/results/unseen.json
python -m benchmarks.unseen show                 writes the table of docs/measurements/defaults.md

2,000 rows, float32, 3 starts of one network each, 3,000 steps (all rows: 300). Adam has the best of five rates, each
constant or with cosine decay to a tenth of the steps or to all of them, last or averaged iterate: chosen for each
problem, batch and number of steps with the result in view. Objectives are those of the solution on all rows; of counts
less what rates equal to the counts would reach.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import scax
from benchmarks import pages
from benchmarks.defaults import RATES, over_grid, over_seeds

FILE = pages.DOCS / "results/unseen.json"
ROWS, STARTS, ENDS = 2000, 3, (300, 3000)
BATCHES = ("1", "3", "8", "64", "all")


class Sine(scax.MLP):
    """A network of sines, Glorot's start with the first layer times `FIRST`."""

    FIRST = 4.0

    def init(self, key, dtype=float):
        params = super().init(key, dtype)
        return [{**params[0], "weight": self.FIRST * params[0]["weight"]}, *params[1:]]

    def apply(self, params, x):
        *hidden, last = params
        for layer in hidden:
            x = jnp.sin(x @ layer["weight"] + layer["bias"])
        return x @ last["weight"] + last["bias"]


def waves(rng, x, count=12, speed=3.0):
    """A random sum of cosines."""
    frequency, phase = speed * rng.standard_normal((x.shape[1], count)), rng.uniform(0, 2 * np.pi, count)
    return np.cos(x @ frequency + phase) @ rng.standard_normal(count) / np.sqrt(count)


def teacher(rng, x, hidden, activation):
    first, second = rng.standard_normal((x.shape[1], hidden)), rng.standard_normal(hidden)
    return activation(x @ first + rng.standard_normal(hidden)) @ second / np.sqrt(hidden)


def standard(y):
    return (y - y.mean()) / y.std()


def make(name: str) -> tuple:
    """(network, loss, x, y, the objective's floor)."""
    rng = np.random.default_rng([7, *name.encode()])
    box = lambda d: rng.uniform(-1, 1, (ROWS, d))
    relu = lambda a: np.maximum(a, 0)
    squared, floor = scax.Squared(), 0.0
    if name == "waves, tanh":
        x = box(3)
        net, loss, y = scax.MLP((3, 20, 20, 1)), squared, standard(waves(rng, x))
    elif name == "waves, sine":
        x = box(1)
        net, loss, y = Sine((1, 30, 1)), squared, standard(waves(rng, x, speed=8.0))
    elif name == "waves, sine, noise":
        x = box(2)
        net, loss, y = Sine((2, 20, 20, 1)), squared, standard(waves(rng, x)) + 0.3 * rng.standard_normal(ROWS)
    elif name == "teacher, ReLU":
        x = rng.standard_normal((ROWS, 6))
        net, loss, y = scax.MLP((6, 30, 1), activation="relu"), squared, standard(teacher(rng, x, 15, relu))
    elif name == "ridges, GELU, noise":
        x = box(4)
        y = np.abs(x[:, 0] - x[:, 1]) + np.sign(x[:, 2]) * x[:, 3]
        y = standard(y) + 0.1 * rng.standard_normal(ROWS)
        net, loss = scax.MLP((4, 24, 12, 1), activation="gelu"), squared
    elif name == "labels, logistic":
        x = rng.standard_normal((ROWS, 5))
        p = 1 / (1 + np.exp(-3 * standard(waves(rng, x, speed=1.0))))
        y = (rng.uniform(size=ROWS) < p).astype(float)
        net, loss = scax.MLP((5, 20, 1), activation="gelu"), scax.Logistic()
    elif name == "counts, Poisson":
        x = box(3)
        y = rng.poisson(np.exp(0.5 + standard(waves(rng, x, speed=2.0)))).astype(float)
        net, loss = scax.MLP((3, 20, 1)), scax.Poisson()
        floor = float(np.mean(y - y * np.log(np.maximum(y, 1))))
    elif name == "outliers, Huber":
        x = box(3)
        y = standard(waves(rng, x)) + np.where(rng.uniform(size=ROWS) < 0.05, 20 * rng.standard_normal(ROWS), 0)
        net, loss = scax.MLP((3, 20, 10, 1)), scax.Huber(0.1)
    elif name == "heavy tails, tanh":
        x = rng.standard_t(2.5, (ROWS, 4)) * np.array([1, 0.03, 1, 10])
        net, loss, y = scax.MLP((4, 20, 1)), squared, standard(waves(rng, np.tanh(x)) * (1 + np.abs(x[:, 0])))
    else:
        raise ValueError(name)
    return net, loss, np.asarray(x, np.float32), np.asarray(y, np.float32), floor


NAMES = (
    "waves, tanh",
    "waves, sine",
    "waves, sine, noise",
    "teacher, ReLU",
    "ridges, GELU, noise",
    "labels, logistic",
    "counts, Poisson",
    "outliers, Huber",
    "heavy tails, tanh",
)


def one(name: str, batch: str, known: dict | None = None, **options) -> dict:
    """SCA's and Adam's objectives at the ENDS, [starts] each; Adam's tuned for the mean over the starts."""
    net, loss, x, y, floor = make(name)
    problem = scax.Problem(net.apply, loss, scax.L2(1e-8))
    size = ROWS if batch == "all" else int(batch)
    sca = scax.SCA(problem, **options)
    sca = sca.on_all_rows() if batch == "all" else sca
    keys = jax.vmap(jax.random.key)(jnp.arange(STARTS))
    params = jax.vmap(lambda key: net.init(key, jnp.float32))(keys)
    data = jnp.asarray(x), jnp.asarray(y)
    steps = tuple(n // 10 for n in ENDS) if batch == "all" else ENDS
    began = time.perf_counter()
    last, mine = np.moveaxis(np.asarray(over_seeds(sca, params, keys, data, steps, size), float), 2, 0) - floor
    seconds = time.perf_counter() - began
    if known is None:
        grid = jnp.asarray([(r, h) for r in RATES["Adam"] for h in (0, *steps)], jnp.float32)
        adam = np.asarray(over_grid("Adam", problem, grid, params, keys, data, steps, size), float) - floor
        adam = np.nan_to_num(adam, nan=np.inf)  # [grid, starts, ends, last or averaged]
        best = np.exp(np.log(adam).mean(1)).min(axis=(0, 2))
    else:
        best = np.array(known["Adam"])
    rounded = lambda values: [float(f"{v:.3g}") for v in values]
    return {
        "name": name, "batch": batch, "steps": steps, "SCA": [rounded(v) for v in mine.T],
        "last": [rounded(v) for v in last.T], "Adam": rounded(best),
        "ratio": rounded(np.exp(np.log(mine).mean(0)) / best), "seconds": round(seconds, 1),
    }  # fmt: skip


def run(names: list[str], batches: list[str], out: Path, ours: bool) -> None:
    results = json.loads(out.read_text()) if out.exists() else {"rows": []}
    rows = {(row["name"], row["batch"]): row for row in results["rows"]}
    for name in names:
        for batch in batches:
            rows[name, batch] = one(name, batch, rows.get((name, batch)) if ours else None)
            print(json.dumps(rows[name, batch]), flush=True)
            ordered = [rows[key] for key in ((n, b) for n in NAMES for b in BATCHES) if key in rows]
            pages.write_rows(out, ordered, "python -m benchmarks.unseen run")


def markdown(results: dict) -> str:
    """SCA's objective over tuned Adam's, geometric means over the starts."""
    rows = {(row["name"], row["batch"]): row for row in results["rows"]}
    number = lambda v: f"{v:.2f}" if v >= 0.1 else f"{v:.1g}"
    batches = [b for b in BATCHES if any(batch == b for _, batch in rows)]
    heads = ["problem", *("1 row" if b == "1" else f"{b} rows" for b in batches)]
    body = []
    for name in dict.fromkeys(row["name"] for row in results["rows"]):
        cells = [" / ".join(map(number, rows[name, b]["ratio"])) if (name, b) in rows else "–" for b in batches]
        body.append([name, *cells])
    return pages.table(heads, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--problems", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rows", nargs="+", choices=BATCHES, default=BATCHES)
    parser.add_argument("--ours", action="store_true", help="SCA's own numbers again, Adam's kept")
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    if options.what == "run":
        run(options.problems, options.rows, options.out, options.ours)
    made = markdown(json.loads(options.out.read_text()))
    pages.write_tables(pages.DOCS / "measurements/defaults.md", {"unseen": made})
    print(made)


if __name__ == "__main__":
    main()

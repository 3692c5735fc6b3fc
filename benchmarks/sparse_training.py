"""Whole trainings to sparse networks: SCA's path against proximal Adam, and Adam with pruning and fine-tuning.

python -m benchmarks.sparse_training --data-dir DIR [--splits 3] [--sets casp] [--out docs/results]

Per split a quarter of the rows is for the test; a fifth of the others chooses among each method's networks with at most
a quarter of the weights. All methods take about as many steps on batches of 32 rows. The dense network is SCA's with a
ridge, trained on the same rows.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

import scax
from benchmarks.steps import describe_machine
from scax.data import datasets

SETS = {
    "casp": (9, 10, 6, 1),
    "parkinsons": (19, 15, 5, 1),
    "skillcraft1": (18, 15, 10, 1),
    "winequality-white": (11, 10, 4, 1),
}
SHARE = 0.25
BATCH = 32
STRENGTHS = np.geomspace(1e-3, 8e-3, 6)
FIRST, NEXT = 1000, 200
STEPS = FIRST + (len(STRENGTHS) - 1) * NEXT
RATES = (3e-3, 1e-2, 3e-2)


@dataclasses.dataclass(frozen=True)
class Split:
    """Standardized rows of one split."""

    train: tuple
    held: tuple
    test: tuple

    @staticmethod
    def of(x: np.ndarray, y: np.ndarray, seed: int) -> "Split":
        order = np.random.default_rng(seed).permutation(len(x))
        test, rest = np.split(order, [len(x) // 4])
        held, train = np.split(rest, [len(rest) // 5])
        x = (x - x[rest].mean(0)) / np.where((sd := x[rest].std(0)) > 0, sd, 1)
        y = (y - y[rest].mean()) / y[rest].std()
        put = lambda rows: (jnp.asarray(x[rows], jnp.float32), jnp.asarray(y[rows], jnp.float32))
        return Split(put(train), put(held), put(test))


def error(net, params, rows) -> float:
    x, y = rows
    return float(jnp.mean((net.apply(params, x)[:, 0] - y) ** 2))


def chosen(net, candidates: list, split: Split, limit: int) -> dict:
    """The best on the rows held out among those with at most `limit` weights."""
    sizes = [int(jnp.sum(ravel_pytree(p)[0] != 0)) for p in candidates]
    fit = [i for i, size in enumerate(sizes) if size <= limit]
    if not fit:
        return {"weights": min(sizes), "test": None, "candidates": sizes}
    best = min(fit, key=lambda i: error(net, candidates[i], split.held))
    small = scax.compact(net, candidates[best])
    x = split.test[0]
    return {
        "weights": sizes[best],
        "test": error(net, candidates[best], split.test),
        "widths": list(small.net.widths),
        "same": float(jnp.max(jnp.abs(small.apply(x) - net.apply(candidates[best], x)))),
        "candidates": sizes,
    }


def adam(net, params, split: Split, seed: int, rate, strength, mask, steps: int):
    """Adam with cosine decay on the loss; after each step the prox of ℓ1 in Adam's own metric, and the mask."""
    x, y = split.train
    flat, back = ravel_pytree(params)
    optimizer = optax.scale_by_adam()
    order = jax.random.randint(jax.random.key(seed), (steps, BATCH), 0, x.shape[0])

    def loss(w, rows):
        return jnp.mean((net.apply(back(w), x[rows])[:, 0] - y[rows]) ** 2)

    def step(carry, now):
        w, state = carry
        rows, t = now
        update, state = optimizer.update(jax.grad(loss)(w, rows), state)
        length = rate * 0.5 * (1 + jnp.cos(jnp.pi * t / steps))
        w = w - length * update
        # the metric is diag(√v̂), so the soft threshold of weight i is rate · strength/√v̂_i
        second = state.nu / (1 - 0.999 ** (t + 1.0))
        w = jnp.sign(w) * jnp.maximum(jnp.abs(w) - length * strength / (jnp.sqrt(second) + 1e-8), 0)
        return (w * mask, state), None

    return jax.lax.scan(step, (flat * mask, optimizer.init(flat)), (order, jnp.arange(steps)))[0][0]


def compared(widths, x, y, seed: int) -> dict:
    """One split."""
    clock = time.perf_counter()
    split = Split.of(x, y, seed)
    net = scax.MLP(widths)
    start = net.init(jax.random.key(seed))
    flat, back = ravel_pytree(start)
    limit = int(SHARE * flat.size)
    row: dict = {"seed": seed, "weights": int(flat.size), "limit": limit, "rows": len(x)}

    ridge = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    dense = scax.train(scax.SCA(ridge), start, split.train, steps=STEPS, batch_size=BATCH, records=1).params
    row["dense"] = {"test": error(net, dense, split.test), "weights": int(flat.size)}

    lasso = scax.Problem(net.apply, scax.Squared(), scax.L1(1.0))
    path = scax.path(
        lasso, STRENGTHS, params=start, data=split.train, validation=split.held, steps=NEXT, first_steps=FIRST,
        batch_size=BATCH, key=jax.random.key(seed),
    )  # fmt: skip
    row["sca l1"] = chosen(net, list(path.params), split, limit)
    row["path"] = [
        {"strength": float(s), "weights": int(k), "held": float(v), "test": error(net, p, split.test)}
        for s, k, v, p in zip(path.strengths, path.weights, path.loss, path.params, strict=True)
    ]

    grid = jnp.asarray([(r, s) for r in RATES for s in STRENGTHS], jnp.float32)
    ones = jnp.ones_like(flat)
    run = jax.jit(jax.vmap(lambda g: adam(net, start, split, seed, g[0], g[1], ones, STEPS)))
    row["proximal adam"] = chosen(net, [back(w) for w in run(grid)], split, limit)

    first, second = STEPS * 2 // 3, STEPS // 3
    pruned = []

    @jax.jit
    @jax.vmap
    def prune(rate):
        w = adam(net, start, split, seed, rate, 0.0, ones, first)
        mask = (jnp.abs(w) >= jnp.sort(jnp.abs(w))[-limit]).astype(w.dtype)
        return adam(net, back(w), split, seed + 1, rate / 3, 0.0, mask, second)

    pruned = [back(w) for w in prune(jnp.asarray(RATES, jnp.float32))]
    row["adam, pruned"] = chosen(net, pruned, split, limit)
    row["seconds"] = round(time.perf_counter() - clock, 1)
    return row


def table(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and target of one of the sets, rows with missing values left out."""
    import polars

    about = datasets.REMOTE[name]
    source = datasets.find(name, folder) or datasets.fetch(name, folder)
    frame = polars.read_csv(
        source, separator=";" if name == "winequality-white" else ",", null_values=["?"], infer_schema_length=None
    ).drop_nulls()
    frame = frame.drop([c for c in about.drop if c in frame.columns])
    y = frame[about.target].to_numpy().astype(float)
    return frame.drop(about.target).to_numpy().astype(float), y


METHODS = ("sca l1", "proximal adam", "adam, pruned")


def markdown(results: dict) -> str:
    lines = [
        "| set | splits | dense, test MSE | " + " | ".join(METHODS) + " | SCA's weights | SCA over dense | ≤ 1% |",
        "|---|---|---|" + "---|" * len(METHODS) + "---|---|---|",
    ]
    for name, rows in results["sets"].items():
        dense = np.mean([r["dense"]["test"] for r in rows])
        cells = []
        for method in METHODS:
            errors = [r[method]["test"] for r in rows]
            cells.append("none" if None in errors else f"{np.mean(errors):.4f}")
        excess = [r["sca l1"]["test"] / r["dense"]["test"] - 1 for r in rows if r["sca l1"]["test"] is not None]
        share = np.mean([r["sca l1"]["weights"] / r["weights"] for r in rows])
        mean = float(np.mean(excess)) if len(excess) == len(rows) else np.nan
        lines.append(
            f"| {name} | {len(rows)} | {dense:.4f} | {' | '.join(cells)} | {share:.0%} | {mean:+.1%} | "
            f"{'met' if mean <= 0.01 else 'missed'} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    command = f"python -m benchmarks.sparse_training --data-dir DIR --splits {options.splits}"
    results: dict = {"machine": describe_machine() | {"command": command}, "sets": {}}
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / "sparse-training"
    for seed in range(options.splits):
        for name in options.sets:
            row = compared(SETS[name], *table(name, options.data_dir), seed)
            results["sets"].setdefault(name, []).append(row)
            print(json.dumps({k: v for k, v in row.items() if k != "path"}), flush=True)
            target.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
            target.with_suffix(".md").write_text(markdown(results) + "\n")


if __name__ == "__main__":
    main()

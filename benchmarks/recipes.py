"""Which recipe for tables: networks of many kinds on each table of `benchmarks.tables`, and rules that choose them.

    python -m benchmarks.recipes train --data FOLDER --out FOLDER --processes 6 --seconds 500

`train` writes one file for each table and split: outputs of every network on rows held out and on test rows, at its
best epoch and after the same number of epochs on all rows.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import tables
from scax.estimators import SCAClassifier, SCARegressor
from scax.estimators.network import from_params
from scax.estimators.rows import Rows
from scax.training import engine
from scax.training.evaluation import Objective
from scax.training.many import stack, start_members
from scax.training.stopping import Stopping

#: Networks trained at once, and exponents of their strengths 10^(e/2).
GROUP = 4
MANY = {"bins": [(-10, -8, -6, -4), (-9, -7, -5, -3), (-8, -7, -6, -5)],
        "clipped": [(-10, -8, -6, -4), (-9, -7, -5, -3), (-8, -7, -6, -5)]}  # fmt: skip
FEW = [(-8, -6, -5, -4), (-3, -2, -1, 0)]
#: Kinds of networks for few rows: view, hidden layers, activation; and parts of the rows, each held out once.
KINDS = {
    "linear": ("standard", (), "tanh"),
    "standard 32 tanh": ("standard", (32,), "tanh"),
    "clipped 32 tanh": ("clipped", (32,), "tanh"),
    "clipped 64/64 silu": ("clipped", (64, 64), "silu"),
}
FOLDS = 5
#: Large tables of which a few rows stand for a small table.
SMALL = ("california", "kin8nm", "magic", "adult", "skillcraft", "friedman, noise", "four classes", "levels")
SMALL_ROWS = 400


class Prepared:
    """An estimator that has read its rows, and what is needed to train networks as it does."""

    def __init__(self, table: tables.Table, train: np.ndarray, seed: int, **options: Any):
        kind = SCAClassifier if table.is_classes else SCARegressor
        est = kind(categorical_features=table.is_category, random_state=seed, early_stopping=True, **options)
        X, y = est._validate(table.x[train], table.y[train], first=True)
        X, targets, weight, self.y = est._merged(X, y, None, first=True)
        est.recipe_ = est._recipe(len(X), X.shape[1], targets.shape[1])
        est._encoding = est._learn_encoding(X, weight)
        self.random = np.random.RandomState(seed)
        est._initialize(targets, weight, self.random)
        self.est, self.trainer = est, est._trainer()
        self.rows = Rows(est._encoding.apply(X, self.trainer.dtype), targets, weight)

    def encode(self, x: np.ndarray) -> np.ndarray:
        return self.est._encoding.apply(self.est._matrix(x), self.trainer.dtype)

    def group(self, view: int, exponents: tuple, held: np.ndarray, test: np.ndarray, refit: bool) -> list[dict]:
        """Networks of one view side by side: outputs on held-out and test rows, and those of refits."""
        est, trainer, recipe = self.est, self.trainer, self.est.recipe_
        mask = est._views()[view]
        strengths = 10 ** (np.array(exponents) / 2)
        starts = [est._drawn(self.rows.targets, mask, self.random) for _ in exponents]
        seed = np.uint32(self.random.randint(2**32, dtype=np.uint32))
        some = self.rows.take(~held)
        size = est._batch_size(len(some.x), some.targets.shape[1])
        clock, found = time.process_time(), []
        with trainer.programs():
            params = [trainer.params(s, mask) for s in starts]
            feed, rest = trainer.feed(*some, size), trainer.feed(*self.rows.take(held))
            stopping = Stopping(float(recipe.tol), int(recipe.patience), True, engine.RUNS)
            losses = []
            for part in trainer.epochs(params, strengths, feed, rest, stopping, feed.epochs(recipe.epochs), seed):
                losses += [record["validation_loss"] for record in part.records]
            assert part.carry.best is not None
            best = jax.device_get(part.carry.best.params)
            took, clock = time.process_time() - clock, time.process_time()
            epochs = np.argmin(np.nan_to_num(losses, nan=np.inf), axis=0) + 1
            everything = self._refits(params, strengths, rest, epochs, seed, size) if refit else [None] * len(starts)
            refit_took = time.process_time() - clock
        for i, e in enumerate(exponents):
            network = from_params(jax.tree.map(lambda leaf, i=i: leaf[i], best), self.rows.x.shape[1])
            curve = [float(each[i]) for each in losses]
            one = {"view": view, "e": e, "loss": min(curve), "epochs": int(epochs[i]), "ran": len(curve)}
            one |= {"seconds": took / len(starts), "refit_seconds": refit_took / len(starts)}
            one |= {"held": trainer.outputs(network, self.rows.x[held]), "test": trainer.outputs(network, test)}
            if everything[i] is not None:
                one["refit"] = trainer.outputs(everything[i], test)
            found.append(one)
        return found

    def _refits(self, params, strengths, rest, epochs, seed, size) -> list:
        """The same networks trained on all rows, each for as many epochs as were best."""
        trainer = self.trainer
        feed = trainer.feed(*self.rows, size)
        methods = stack([trainer.method(start, value) for start, value in zip(params, strengths, strict=True)])
        stopping = Stopping(0.0, 10**6, False, engine.RUNS)
        keys = jax.random.split(jax.random.key(seed), len(params))
        carry = start_members(methods, stack(params), feed, keys, stopping, None)
        run = engine.run_many(methods, False, Objective(feed.data, rest.data), stopping)
        steps, found = feed.epochs(int(max(epochs))), [None] * len(params)
        for count in sorted(set(epochs.tolist())):
            for part in engine.drive(run, carry, feed, [steps[count - 1]]):
                carry = part.carry
            now = jax.device_get(carry.best.params)
            for i in np.flatnonzero(epochs == count).tolist():
                found[i] = from_params(jax.tree.map(lambda leaf, i=i: leaf[i], now), self.rows.x.shape[1])
        return found


def units(est: Any) -> dict[str, Any]:
    """How outputs become predictions."""
    scaling = getattr(est, "_target_scaling", None)
    return {} if scaling is None else {"center": scaling.center, "scale": scaling.scale}


def train(job: tuple[str, int, str, str]) -> str:
    """One table and split; the file has one entry for each network."""
    name, seed, data, out = job
    warnings.simplefilter("ignore")
    base = name.removesuffix(" (few rows)")
    table = tables.tables(Path(data) if data else None, 10_000)[base]()
    order = np.random.default_rng(seed).permutation(len(table.y))
    most = SMALL_ROWS if name != base else 7500
    count = min(most, int(0.75 * len(order)))
    rows, test = order[:count], order[count : count + 5000]
    few = count < 1000
    clock, networks = time.process_time(), []
    if few:
        for kind, (numbers, hidden, activation) in KINDS.items():
            given = {"numbers": numbers, "hidden_layer_sizes": hidden, "activation": activation}
            prepared = Prepared(table, rows, seed, max_iter=100, n_iter_no_change=10, tol=0.0, **given)
            n, x = len(prepared.rows.x), prepared.encode(table.x[test])
            strata = prepared.est._strata(prepared.y)
            places = np.random.default_rng(seed).permutation(n)
            places = places if strata is None else places[np.argsort(strata[places], kind="stable")]
            fold = np.empty(n, int)
            fold[places] = np.arange(n) % FOLDS
            for k, exponents in itertools.product(range(FOLDS), FEW):
                made = prepared.group(0, exponents, fold == k, x, refit=False)
                networks += [one | {"kind": kind, "fold": k, "rows": np.flatnonzero(fold == k)} for one in made]
    else:
        prepared = Prepared(table, rows, seed)
        held = prepared.est._held_out(prepared.y, 0.2, prepared.random)
        x, views = prepared.encode(table.x[test]), prepared.est._views()
        for turn in range(3):
            for view, kind in enumerate(["bins", "clipped"] if len(views) > 1 else ["clipped"]):
                made = prepared.group(view, MANY[kind][turn], held, x, refit=turn < 2)
                networks += [one | {"kind": kind, "turn": turn, "rows": np.flatnonzero(held)} for one in made]
    about = {"name": name, "seed": seed, "rows": count, "columns": table.x.shape[1], "few": few,
             "classes": bool(table.is_classes), "seconds": time.process_time() - clock}  # fmt: skip
    arrays: dict[str, Any] = {"target": np.asarray(prepared.y), "test": table.y[test], "train": table.y[rows]}
    arrays |= units(prepared.est)
    for i, one in enumerate(networks):
        arrays |= {f"{i}/{key}": value.astype(np.float32 if value.dtype.kind == "f" else value.dtype)
                   for key, value in one.items() if isinstance(value, np.ndarray)}  # fmt: skip
        networks[i] = {key: value for key, value in one.items() if not isinstance(value, np.ndarray)}
    arrays["about"] = np.array(json.dumps(about | {"networks": networks}))
    np.savez_compressed(Path(out) / f"{name.replace(' ', '_').replace(',', '')}-{seed}.npz", **arrays)
    return f"{name} {seed}: {len(networks)} networks, {about['seconds']:.0f} s"


def jobs(data: str, out: str, splits: int) -> list[tuple[str, int, str, str]]:
    """First splits first; within a split, those that take long first."""
    names = list(tables.tables(Path(data) if data else None, 10_000))
    names.remove("wide")
    slow = ("four classes", "digits", "susy", "magic", "friedman, no noise", "adult")
    names.sort(key=lambda name: slow.index(name) if name in slow else len(slow))
    few = [f"{name} (few rows)" for name in SMALL if name in names]
    return [(name, seed, data, out) for seed in range(splits) for name in names + few]


def work(queue: list, turn: Any, until: float) -> None:
    """Take jobs until the time is over."""
    while time.time() < until:
        with turn.get_lock():
            i, turn.value = turn.value, turn.value + 1
        if i >= len(queue):
            return
        print(train(queue[i]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["train"])
    parser.add_argument("--data", default="")
    parser.add_argument("--out", default="build/recipes")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--tables", default="")
    given = parser.parse_args()
    os.makedirs(given.out, exist_ok=True)
    queue = jobs(given.data, given.out, given.splits)
    if given.tables:
        queue = [job for job in queue if job[0] in given.tables.split(";")]
    context, until = multiprocessing.get_context("spawn"), time.time() + given.seconds
    turn = context.Value("i", 0)
    workers = [context.Process(target=work, args=(queue, turn, until), daemon=True) for _ in range(given.processes)]
    for each in workers:
        each.start()
    for each in workers:
        each.join(max(0.1, until - time.time()))
        each.terminate()


if __name__ == "__main__":
    main()

"""Which recipe for tables: networks of many kinds on each table of `benchmarks.tables`, and rules that choose them.

    python -m benchmarks.recipes train --data FOLDER --out FOLDER --processes 6 --seconds 500
    python -m benchmarks.recipes choose --out FOLDER

`train` writes one file for each table and split: outputs of every network on rows held out and on test rows, at its
best epoch and after the same number of epochs on all rows. `choose` tries rules on them: which views and strengths are
trained, how many members are averaged, whether those are trained again on all rows. For each table it takes the rule
that is best on the others, and prints what that gives.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import log_softmax

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
MANY = {"bins": [(-8, -7, -6, -5), (-10, -9, -4, -3), (-8, -7, -6, -5)],
        "clipped": [(-8, -7, -6, -5), (-10, -9, -4, -3), (-8, -7, -6, -5)]}  # fmt: skip
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


def train(job: tuple[str, int, str, str], turns: int = 3) -> str:
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
        for turn in range(turns):
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


def work(queue: list, turn: Any, turns: int, until: float) -> None:
    """Take jobs until the time is over."""
    while time.time() < until:
        with turn.get_lock():
            i, turn.value = turn.value, turn.value + 1
        if i >= len(queue):
            return
        print(train(queue[i], turns), flush=True)


class Trained(NamedTuple):
    """Networks of one file, by (kind, e): loss on rows held out, outputs there and on test rows."""

    about: dict[str, Any]
    rows: np.ndarray  # held out
    target: np.ndarray
    networks: list[dict[str, Any]]
    arrays: Any

    @staticmethod
    def read(path: Path) -> "Trained":
        arrays = dict(np.load(path))
        about = json.loads(str(arrays["about"]))
        networks = about.pop("networks")
        for i, one in enumerate(networks):
            one |= {key.split("/")[1]: value for key, value in arrays.items() if key.startswith(f"{i}/")}
        if about["few"]:  # networks of all folds count as one: each row judged by the one that has not seen it
            whole = {}
            for one in networks:
                whole.setdefault((one["kind"], one["e"]), []).append(one)
            networks = [_folds(parts, len(arrays["target"])) for parts in whole.values()]
        rows = networks[0]["rows"]
        target = arrays["target"][rows]
        if not about["classes"]:
            target = (target.reshape(len(target)) - arrays["center"]) / arrays["scale"]
        return Trained(about, rows, target, networks, arrays)

    def loss(self, z: np.ndarray) -> float:
        """On rows held out."""
        if not self.about["classes"]:
            return float(np.mean((z[:, 0] - self.target) ** 2))
        return -float(np.mean(_log_probabilities(z)[np.arange(len(z)), self.target]))

    def error(self, z: np.ndarray) -> float:
        """On test rows, as `benchmarks.tables` has it."""
        a, y = self.arrays, self.arrays["test"]
        if not self.about["classes"]:
            y, mean = (y - a["center"]) / a["scale"], (a["train"].mean() - a["center"]) / a["scale"]
            return float(np.sqrt(np.mean((z[:, 0] - y) ** 2) / np.mean((mean - y) ** 2)))
        p, shares = np.clip(np.exp(_log_probabilities(z)), 1e-12, 1), np.bincount(a["train"], minlength=y.max() + 1)
        return float(np.mean(np.log(p[np.arange(len(y)), y])) / np.mean(np.log(shares / shares.sum())[y]))

    def value(self, rule: "Rule") -> tuple[float, float]:
        """Error and processor seconds of a rule."""
        there = [one for one in self.networks if rule.takes(one) and np.isfinite(one["loss"])]
        chosen, total = [], 0.0
        least = np.inf
        while there and len(chosen) < rule.members:
            values = [self.loss((total + one["held"]) / (len(chosen) + 1)) for one in there]
            i = int(np.argmin(values))
            if values[i] > least:
                break
            least, total = values[i], total + there[i]["held"]
            chosen.append(there.pop(i))
        refit = rule.refit and "refit" in chosen[0]
        seconds = sum(one["seconds"] for one in self.networks if rule.takes(one))
        seconds += sum(one["refit_seconds"] for one in chosen) if refit else 0
        return self.error(np.mean([one["refit" if refit else "test"] for one in chosen], axis=0)), seconds


class Rule(NamedTuple):
    """Which networks are trained, how many are averaged, whether they are trained again on all rows."""

    kinds: tuple[str, ...]
    exponents: tuple[int, ...]
    members: int
    refit: bool

    def takes(self, one: dict[str, Any]) -> bool:
        return one["kind"] in self.kinds and one["e"] in self.exponents and one.get("turn", 0) < 2


def _folds(parts: list[dict[str, Any]], n: int) -> dict[str, Any]:
    held = np.zeros((n, parts[0]["held"].shape[1]), np.float32)
    for part in parts:
        held[part["rows"]] = part["held"]
    loss = float(np.mean([part["loss"] for part in parts]))
    test = np.mean([part["test"] for part in parts], axis=0)
    seconds = sum(part["seconds"] for part in parts)
    return parts[0] | {"held": held, "test": test, "loss": loss, "seconds": seconds, "rows": np.arange(n)}


def _log_probabilities(z: np.ndarray) -> np.ndarray:
    z = np.hstack([np.zeros_like(z), z]) if z.shape[1] == 1 else z
    return log_softmax(z.astype(float), axis=1)


def rules(few: bool) -> list[Rule]:
    if few:
        views = [(kind,) for kind in KINDS] + [("linear", kind) for kind in list(KINDS)[1:]] + [tuple(KINDS)]
        sets = [(-8, -6, -5, -4), (-6, -4, -2, 0), (-8, -6, -5, -4, -3, -2, -1, 0)]
        return [Rule(*each, False) for each in itertools.product(views, sets, (1, 2, 4))]
    sets = [(-8, -6), (-8, -6, -4), (-8, -7, -6, -5), tuple(range(-9, -3)), tuple(range(-10, -2))]
    views = [("bins",), ("clipped",), ("bins", "clipped")]
    return [Rule(*each) for each in itertools.product(views, sets, (1, 2, 4, 8), (False, True))]


def choose(folder: Path) -> None:
    """For each table the rule that is best on the others, for tables of many rows and of few."""
    found: dict[bool, dict[str, list[Trained]]] = {False: {}, True: {}}
    for path in sorted(folder.glob("*.npz")):
        one = Trained.read(path)
        found[one.about["few"]].setdefault(one.about["name"], []).append(one)
    for few, each in found.items():
        tried = rules(few)
        values = np.array([[np.mean([t.value(rule) for t in splits], axis=0) for splits in each.values()]
                           for rule in tried])  # fmt: skip
        if not len(each):
            continue
        errors, seconds = np.log(values[..., 0]), values[..., 1]
        order = np.argsort(errors.mean(axis=1))
        print(f"{len(each)} tables with {'few' if few else 'many'} rows")
        for i in order[:12].tolist() + order[-3:].tolist():
            rule, mean = tried[i], np.exp(errors[i].mean() - errors[order[0]].mean())
            print(f"  {mean:.3f}  {np.mean(seconds[i]):6.1f} s  {rule}")
        for members in sorted({rule.members for rule in tried}):
            i = min((i for i, rule in enumerate(tried) if rule.members == members), key=lambda i: errors[i].mean())
            mean = np.exp(errors[i].mean() - errors[order[0]].mean())
            print(f"  best of {members}: {mean:.3f}  {np.mean(seconds[i]):6.1f} s  {tried[i]}")
        for place, name in enumerate(each):
            others = np.delete(np.arange(len(each)), place)
            i = int(np.argmin(errors[:, others].mean(axis=1)))
            print(f"  {name:28} {np.exp(errors[i, place]):.4f}  best rule {np.exp(errors[:, place].min()):.4f}  "
                  f"{seconds[i, place]:.0f} s  {tried[i]}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["train", "choose"])
    parser.add_argument("--data", default="")
    parser.add_argument("--out", default="build/recipes")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--tables", default="", help="names with ; between")
    parser.add_argument("--turns", type=int, default=3, help="groups of networks for each view, at most 3")
    given = parser.parse_args()
    if given.what == "choose":
        choose(Path(given.out))
        return
    os.makedirs(given.out, exist_ok=True)
    queue = jobs(given.data, given.out, given.splits)
    if given.tables:
        names = given.tables.split(";")
        queue = sorted((job for job in queue if job[0] in names), key=lambda job: (job[1], names.index(job[0])))
    context, until = multiprocessing.get_context("spawn"), time.time() + given.seconds
    turn = context.Value("i", 0)
    workers = [
        context.Process(target=work, args=(queue, turn, given.turns, until), daemon=True)
        for _ in range(given.processes)
    ]
    for each in workers:
        each.start()
    for each in workers:
        each.join(max(0.1, until - time.time()))
        each.terminate()


if __name__ == "__main__":
    main()

"""SCA beside the usual optimizers: one problem, the same splits, starts and batches, every baseline tuned.

For each repeat a quarter of the rows is held out, the rest standardized, one start and one order of batches drawn;
every method gets exactly these. A baseline's learning rate and decay are the best of a grid by the final training
objective, averaged over the first repeats; SCA runs with its defaults. What comes out is a plain dict, ready for
results.json.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import losses
from .._struct import struct
from ..batch import Batch
from ..models import MLP
from ..problem import Problem
from ..regularizers import L2
from ..sca import SCA
from . import engine
from .baseline import baseline
from .evaluation import evaluate
from .evaluation import outputs as outputs_of
from .feed import Rows
from .methods import DECAYS, LABELS, RATES, optimizer, tuned
from .scores import SCORES, one_class, score

WATCHED = 4096  # rows at most on which the curves are measured; final values are measured on all rows
TUNING_REPEATS = 2
TIMINGS = 5


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the methods are compared."""

    methods: Sequence[str]
    hidden: Sequence[int] = (10, 6)
    activation: str = "tanh"
    l2: float = 0.02
    steps: int = 300
    batch_size: int = 20
    repeats: int = 10
    test_share: float = 0.25
    seed: int = 0
    records: int = 60


@struct
class Watch:
    """The objective on some training rows, and the outputs on some test rows."""

    rows: Batch
    test_x: Any

    def __call__(self, method: Any, state: Any) -> dict[str, Any]:
        solution = method.solution(state)
        return {
            "objective": evaluate(method.problem, solution, self.rows),
            "outputs": method.problem.outputs(solution, self.test_x),
        }


@dataclasses.dataclass(frozen=True)
class Fold:
    """One repeat: rows on the device, start, order of batches."""

    feed: Rows
    watch: Watch
    test: Batch
    params: Any
    key: Any
    unit: float
    center: float


def compare(
    x: np.ndarray, y: np.ndarray, task: str, settings: Settings, tick: Callable[[str, int, int], Any] = lambda *a: None
) -> dict[str, Any]:
    """Run every method on every repeat; `tick(method, done, total)` is called after each run, timed ones included;
    an exception in it ends the comparison."""
    outputs = int(y.max()) + 1 if task == "multiclass" else 1
    net = _network((x.shape[1], *settings.hidden, outputs), settings.activation)
    loss = {"regression": losses.Squared, "binary": losses.Logistic, "multiclass": losses.Softmax}[task]()
    problem = Problem(net.apply, loss, L2(settings.l2))
    folds = [_fold(net, x, y, task, settings, repeat) for repeat in range(settings.repeats)]
    ends = spread(settings.steps, settings.records)
    todo = {name: _Runs(name, problem, folds, ends, settings, task, tick) for name in settings.methods}
    runs = {name: each.result() for name, each in todo.items()}
    took = [{name: each.timed() for name, each in todo.items()} for _ in range(TIMINGS)]
    for name, run in runs.items():
        # the best of a few rounds, the methods taking turns: others may be using the machine
        run["seconds_per_step"] = min(round_[name] for round_ in took) / settings.steps
    weights = sum(leaf.size for leaf in jax.tree.leaves(folds[0].params))
    return {
        "task": task,
        "score": dataclasses.asdict(SCORES[task]),
        "network": list(net.widths),
        "weights": int(weights),
        "rows": {"train": int(folds[0].feed.size), "test": int(folds[0].test.size)},
        "one_class": [i for i, fold in enumerate(folds) if one_class(task, np.asarray(fold.test.y))],  # no AUC there
        "ends": [int(e) for e in ends],
        "loss": type(loss).__name__,
        "grid": {"rates": list(RATES), "decays": list(DECAYS)},
        "truth": _plain(np.asarray(folds[0].test.y[:2000]) * folds[0].unit + folds[0].center),
        "methods": runs,
    }


_network = functools.lru_cache(maxsize=8)(MLP)  # the same object for the same network: nothing compiles anew


def spread(steps: int, records: int) -> np.ndarray:
    """About `records` steps from 1 to `steps`, evenly spaced on a logarithmic axis."""
    return np.unique(np.round(np.geomspace(1, steps, min(records, steps))).astype(int))


def _fold(net: MLP, x: np.ndarray, y: np.ndarray, task: str, settings: Settings, repeat: int) -> Fold:
    rng = np.random.default_rng([settings.seed, repeat])
    order = rng.permutation(len(x))
    test_rows = round(settings.test_share * len(x))
    test, train = order[:test_rows], order[test_rows:]
    x = (x - x[train].mean(0)) / np.where((sd := x[train].std(0)) > 0, sd, 1)
    center, unit = 0.0, 1.0
    if task == "regression":
        center, unit = float(y[train].mean()), float(y[train].std() or 1)
        y = (y - center) / unit
    real = jnp.zeros((), float).dtype
    y = y.astype(int if task == "multiclass" else real)
    put = lambda rows: Batch(jnp.asarray(x[rows].astype(real)), jnp.asarray(y[rows]))
    start, order = jax.random.split(jax.random.key(int(rng.integers(2**31))))
    feed, held_out = Rows(put(train), settings.batch_size), put(test)
    watch = Watch(feed.sample(WATCHED), held_out.x[:WATCHED])
    return Fold(feed, watch, held_out, net.init(start), order, unit, center)


class _Runs:
    """All runs of one method."""

    def __init__(self, name, problem, folds, ends, settings: Settings, task: str, tick):
        self.name, self.problem, self.folds, self.settings, self.task = name, problem, folds, settings, task
        self.ends = np.asarray(ends, np.int32)
        self.method = SCA(problem) if name == "sca" else baseline(optimizer(name), problem)
        self.done, self.tick = 0, tick
        self.grid = [] if name == "sca" else [(rate, decay) for rate in RATES for decay in DECAYS]
        self.tuning = folds[: min(TUNING_REPEATS, len(folds))]
        self.total = len(self.grid) * len(self.tuning) + len(folds)

    def result(self) -> dict[str, Any]:
        choice, tried = self._tune()
        self.choice = choice
        records, finals, scores, outputs = [], [], [], None
        for fold in self.folds:
            state, record = self._run(fold, choice)
            solution = self.method.solution(state)
            z = np.asarray(outputs_of(self.problem, solution, fold.test.x))
            finals.append(float(evaluate(self.problem, solution, fold.feed.data)))
            scores.append(score(self.task, z, np.asarray(fold.test.y), fold.unit))
            records.append(self._curves(fold, record))
            if outputs is None:
                outputs = z * fold.unit + fold.center
        curves = {k: [r[k] for r in records] for k in records[0]}
        setting = None
        if choice is not None:
            rate, decay = choice
            setting = {"rate": rate, "decay": decay, "at_edge": rate in (RATES[0], RATES[-1])}
        return {
            "label": LABELS[self.name],
            "setting": setting,
            "tried": tried,
            "objective": [v if np.isfinite(v) else None for v in finals],
            "score": [v if np.isfinite(v) else None for v in scores],
            "curves": curves,
            "outputs": None if outputs is None else _thin(outputs),
        }

    def _tune(self) -> tuple[tuple[float, str] | None, list[dict]]:
        """The best (rate, decay) by the final training objective, and all that was tried."""
        tried = []
        for rate, decay in self.grid:
            values = [float(self._run(f, (rate, decay), records=1)[1]["objective"][0]) for f in self.tuning]
            mean = float(np.mean(values))
            tried.append({"rate": rate, "decay": decay, "objective": mean if np.isfinite(mean) else None})
        if not tried:
            return None, []
        best = min(tried, key=lambda t: float("inf") if t["objective"] is None else t["objective"])
        return (best["rate"], best["decay"]), tried

    def _start(self, fold: Fold, choice) -> engine.Carry:
        carry = engine.start(self.method, fold.params, fold.feed, fold.key)
        if choice is None:
            return carry
        rate, decay = choice
        optimizer = tuned(carry.state.optimizer, rate, decay == "cosine", self.settings.steps)
        return dataclasses.replace(carry, state=dataclasses.replace(carry.state, optimizer=optimizer))

    def _run(self, fold: Fold, choice, records: int | None = None):
        """One training: its last state and its records; with records=1 only the end is measured."""
        carry, made = self._launch(fold, self._start(fold, choice), records)
        self.done += 1
        self.tick(self.name, self.done, self.total)
        return carry.state, {k: np.asarray(v) for k, v in made.values.items()}

    def _curves(self, fold: Fold, record: dict[str, np.ndarray]) -> dict[str, list]:
        y = np.asarray(fold.test.y)[:WATCHED]
        plain = {k: _plain(v) for k, v in record.items() if k != "outputs"}
        plain["score"] = _plain([score(self.task, z, y, fold.unit) for z in record["outputs"]])
        return plain

    def timed(self) -> float:
        """Seconds of one whole run of the compiled loop, measured only once at its end."""
        fold = self.folds[0]
        carry = jax.block_until_ready(self._start(fold, self.choice))
        began = time.perf_counter()
        jax.block_until_ready(self._launch(fold, carry, records=1))
        took = time.perf_counter() - began
        self.tick(self.name, self.done, self.total)
        return took

    def _launch(self, fold: Fold, carry: engine.Carry, records: int | None) -> tuple[engine.Carry, engine.Records]:
        """The whole run in one call, which is compiled once for both numbers of records."""
        goals, last = self.ends, self.ends[-1]
        if records is not None:
            goals = np.full_like(goals, engine.NEVER)
            goals[0] = last
        return engine.run(self.method, fold.watch)(carry, fold.feed, goals, last)


def _thin(z: np.ndarray, most: int = 2000) -> list:
    return _plain(z[:most])


def _plain(values) -> list:
    """Lists of numbers for JSON, six digits, None where not finite."""
    values = np.asarray(values, float)
    if values.ndim > 1:
        return [_plain(v) for v in values]
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values]

"""One problem on one table: every method on the same repetitions, baselines tuned on repetitions of their own."""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..models import MLP
from ..problem import Problem
from ..training.baseline import baseline
from ..training.engine import NEVER
from . import optimizers
from .configs import DECAYS, LABELS, PAPER_SETTINGS, RATES, TUNING_REPEATS, Setting
from .follow import Folds, Followed, Lanes, folds, follow, marks
from .tables import Rows

network = functools.lru_cache(maxsize=8)(MLP)  # the same object for the same network: nothing compiles anew

#: Repetitions vmapped into one call: enough to be worth it, few enough for the cache and the progress bar.
WIDTH = 20
MEAN_POWER = 8.0  # the averaging of iterates offered to the baselines is that of SCA's defaults
FIRST_TUNING = 1_000_000  # repetitions from here on are for tuning


@dataclasses.dataclass
class Bench:
    """`tick(runs)` is called whenever some runs are done."""

    net: MLP
    problem: Problem
    table: Rows
    batch_size: int
    test_share: float
    repeats: int
    steps: int
    seed: int
    tick: Callable[[int], Any] = lambda runs: None
    rates: Sequence[float] = RATES
    tuning_repeats: int = TUNING_REPEATS
    keep_outputs: bool = False
    width: int = WIDTH

    def __post_init__(self):
        n = len(self.table.x)
        self.held_out = round(self.test_share * n)
        self.x, self.y = jnp.asarray(self.table.x), jnp.asarray(self.table.y)
        apart = range(FIRST_TUNING, FIRST_TUNING + self.tuning_repeats)
        drawn = folds(self.net, n, self.held_out, [*range(self.repeats), *apart], self.seed)
        self.reported = drawn.take(range(self.repeats))
        self.tuning = drawn.take(range(self.repeats, len(drawn)))
        self.ends = marks(self.steps).astype(np.int32)
        self.width = min(self.width, self.repeats)

    def baseline(self, name: str, printed: bool = True) -> dict[str, dict[str, Any]]:
        """A baseline with the paper's setting, if that is wanted, and with the best of the grid."""
        method = baseline(optimizers.optimizer(name), self.problem, mean_power=MEAN_POWER)
        label, out = LABELS[name], {}
        if printed:
            setting = PAPER_SETTINGS[name]
            followed = self._follow(method, self.reported, [setting] * self.repeats)
            about = {"label": f"{label}, the paper's settings", "setting": str(setting)}
            out[f"{name}-paper"] = about | self._report(followed, setting.averaged)
        setting, tried = self._tune(method, name)
        followed = self._follow(method, self.reported, [setting] * self.repeats)
        edge = setting.rate in (max(self.rates), min(self.rates))
        about = {"label": f"{label}, tuned", "setting": str(setting), "at_edge": edge, "tried": tried}
        out[f"{name}-tuned"] = about | self._report(followed, setting.averaged)
        return out

    def sca(self, label: str, setting: str, method) -> dict[str, Any]:
        followed = self._follow(method, self.reported, None)
        return {"label": label, "setting": setting} | self._report(followed, True)

    def runs_of_a_baseline(self, printed: bool) -> int:
        return (1 + printed) * self.repeats + len(self.rates) * len(DECAYS) * self.tuning_repeats

    def _tune(self, method, name: str) -> tuple[Setting, list[dict[str, Any]]]:
        """The setting with the lowest held-out loss on the tuning repetitions, and all that were tried."""
        grid = [Setting(rate, decay) for rate in self.rates for decay in DECAYS]
        lanes = [(setting, fold) for setting in grid for fold in range(self.tuning_repeats)]
        followed = self._follow(method, self.tuning.take([f for _, f in lanes]), [s for s, _ in lanes], records=1)
        loss = followed.loss.reshape(len(grid), self.tuning_repeats, 2).mean(axis=1)  # NaN stays NaN
        tried = [
            (float(loss[i, averaged]), setting._replace(averaged=bool(averaged)))
            for i, setting in enumerate(grid)
            for averaged in (0, 1)
        ]
        best = min(tried, key=lambda t: t[0] if np.isfinite(t[0]) else np.inf)[1]
        return best, [{"setting": str(s), "loss": plain(v)} for v, s in tried]

    def _follow(self, method, some: Folds, settings: Sequence[Setting] | None, records: int | None = None) -> Followed:
        """All lanes, `width` at a time; the last call is filled up, and what fills it dropped."""
        goals = self.ends
        if records is not None:
            goals = np.full_like(goals, NEVER)
            goals[:records] = self.ends[-1]
        count, parts = len(some), []
        for first in range(0, count, self.width):
            lanes = [min(i, count - 1) for i in range(first, first + self.width)]
            if settings is None:
                now = Lanes(some.take(lanes), None, np.ones(self.width, bool))
            else:
                chosen = [settings[i] for i in lanes]
                averaged = np.array([s.averaged for s in chosen])
                now = Lanes(some.take(lanes), optimizers.settings(chosen, self.steps), averaged)
            seen = follow(
                method, now, self.x, self.y, goals,
                held_out=self.held_out, batch_size=self.batch_size, outputs=self.keep_outputs,
            )  # fmt: skip
            real = min(self.width, count - first)
            parts.append(jax.tree.map(lambda leaf, real=real: np.asarray(leaf)[:real], seen))
            self.tick(real)
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def _report(self, followed: Followed, averaged: bool) -> dict[str, Any]:
        """What is kept of a method, ready for JSON."""
        which = int(averaged)
        curve, steps_kept = followed.curve.astype(float), np.flatnonzero(np.diff(self.ends, prepend=-1))
        with np.errstate(invalid="ignore", over="ignore"):
            sd = curve.std(axis=0, ddof=1) if len(curve) > 1 else np.zeros(curve.shape[1])
            out = {
                "test": plain(followed.loss[:, which]),
                "objective": plain(followed.objective[:, which]),
                "worse_than_start": int(np.sum(~(curve[:, -1] < curve[:, 0]))),
                "curve": {
                    "iterations": [int(e) for e in self.ends[steps_kept]],
                    "mean": plain(curve.mean(axis=0)[steps_kept]),
                    "sd": plain(sd[steps_kept]),
                },
            }
        if self.keep_outputs:
            out["outputs"] = followed.outputs[:, which]
        return out


def plain(values) -> Any:
    """Numbers for JSON, six digits, None where not finite."""
    values = np.asarray(values, float)
    if values.ndim:
        return [plain(v) for v in values]
    return float(f"{values:.6g}") if np.isfinite(values) else None


class Stopwatch:
    """Wall and processor seconds: where other work runs beside, only the second says what was needed."""

    def __init__(self):
        self.began = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        wall, processor = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        return {"seconds": round(wall, 1), "processor_seconds": round(processor, 1)}

"""The search that found the numbers of the schedules: random settings, then mutation of the best, all side by side.

    python -m benchmarks.search --data-dir DIR [--settings 192 --rounds 6]

A setting is α, τ, β as functions of the step, and the power of the average (`Setting`); there is no clock but the step
and no memory of curvature. Each is run from 4 starts on two kinds of problems: those of `benchmarks.defaults`, inputs
in [−½, ½], where what misses an aim counts against it; and tables as people have them (`TABLES`), standardized and with
a weak ridge, where the logarithm of the objective over tuned Adam's counts. The best are kept in
docs/results/search.json. Meant for a GPU: 11,520 runs of 2000 and 4000 iterations a minute.
"""

import argparse
import dataclasses
import functools
import json
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

import scax

from .defaults import CASES, load, network, over_grid, starts

RESULTS = pathlib.Path(__file__).parent.parent / "docs" / "results" / "search.json"
AIMED_AT, ENDS = (50, 500, 4000), (50, 200, 1000, 2000)
SEEDS, KEPT = 4, 50
RATES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


@dataclasses.dataclass(frozen=True)
class Table:
    """A data set, standardized, with a network, a batch size and a ridge."""

    data: str
    hidden: tuple[int, ...]
    activation: str
    batch: int
    ridge: float

    def rows(self, folder: str, most: int = 6000) -> tuple[jax.Array, jax.Array]:
        if self.data == "cancer":
            from sklearn.datasets import load_breast_cancer

            x, y = load_breast_cancer(return_X_y=True)
        elif self.data == "SUSY":
            from scax.reproduce import tables

            found, _ = tables.susy(pathlib.Path(folder))
            x, y = found.x, found.y
        else:
            x, y = (np.asarray(a, float) for a in load(folder, self.data))
            y = (y - y.mean()) / y.std()
        x, y = np.asarray(x)[:most], np.asarray(y)[:most]
        x = (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1)
        return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)

    def problem(self, inputs: int) -> tuple[scax.MLP, scax.Problem]:
        net = scax.MLP((inputs, *self.hidden, 1), activation=self.activation)
        loss = scax.Logistic() if self.data in ("cancer", "SUSY") else scax.Squared()
        return net, scax.Problem(net.apply, loss, scax.L2(self.ridge))


TABLES = {
    "CASP 32": Table("CASP", (32,), "tanh", 64, 1e-4),
    "Parkinsons 32": Table("Parkinsons", (32,), "tanh", 64, 1e-4),
    "Wine 10/4": Table("Wine", (10, 4), "tanh", 32, 1e-4),
    "CASP 10/6": Table("CASP", (10, 6), "tanh", 32, 1e-4),
    "Parkinsons 15/5": Table("Parkinsons", (15, 5), "tanh", 32, 1e-4),
    "SkillCraft1 32/16, ReLU": Table("SkillCraft1", (32, 16), "relu", 64, 1e-3),
    "Parkinsons 32/16, ReLU": Table("Parkinsons", (32, 16), "relu", 20, 1e-4),
    "CASP 24, GELU": Table("CASP", (24,), "gelu", 128, 1e-4),
    "Wine 16, ReLU": Table("Wine", (16,), "relu", 8, 1e-3),
    "SUSY 24/12": Table("SUSY", (24, 12), "tanh", 50, 1e-4),
    "cancer 10, ReLU": Table("cancer", (10,), "relu", 32, 1e-3),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """α = initial/(1 + n/scale)^exponent, τ = share · S̄ · (20/L)^noise · (1 + n/scale)^growth,
    β = 1 − (1 − initial)/(1 + n/scale)."""

    step_initial: float = 0.5
    step_exponent: float = 0.55
    step_scale: float = 1.5
    share: float = 0.016
    damping_scale: float = 50.0
    damping_growth: float = 0.65
    carry_initial: float = 0.65
    carry_scale: float = 6.0
    mean_power: float = 8.0
    noise: float = 1.5

    def method(self, problem: scax.Problem) -> scax.SCA:
        return scax.SCA(
            problem,
            step_size=scax.PowerDecay(self.step_initial, self.step_exponent, scale=self.step_scale),
            damping=scax.Relative(self.share, self.damping_scale, self.damping_growth, noise=self.noise),
            carry=scax.Approach(self.carry_initial, scale=self.carry_scale),
            mean_power=self.mean_power,
            metric=None,
            clock=scax.rules.StepCount(),
        )

    @staticmethod
    def draw(rng: np.random.Generator) -> "Setting":
        log = lambda low, high: float(np.exp(rng.uniform(np.log(low), np.log(high))))
        return Setting(
            rng.uniform(0.3, 0.8),
            rng.uniform(0.45, 0.9),
            log(1, 15),
            log(4e-3, 0.08),
            log(10, 300),
            rng.uniform(0.2, 1),
            1 - log(0.05, 0.5),
            log(3, 40),
            log(3, 20),
            rng.uniform(0.5, 1.6),
        )

    @staticmethod
    def mutant(rng: np.random.Generator, best: list["Setting"]) -> "Setting":
        """One of the best, a third of its numbers from another, most of them moved by about a quarter."""
        one, other = (dataclasses.astuple(best[rng.integers(len(best))]) for _ in range(2))
        v = [b if rng.uniform() < 0.3 else a for a, b in zip(one, other, strict=True)]
        g = 0.25 * rng.normal(size=len(v)) * (rng.uniform(size=len(v)) < 0.7)
        scaled = [a * float(np.exp(x)) for a, x in zip(v, g, strict=True)]
        return Setting(
            float(np.clip(v[0] * np.exp(g[0] / 2), 0.1, 1)),
            float(np.clip(v[1] + 0.3 * g[1], 0.3, 1.1)),
            scaled[2],
            scaled[3],
            scaled[4],
            float(np.clip(v[5] + 0.6 * g[5], 0, 1.5)),
            1 - float(np.clip((1 - v[6]) * np.exp(g[6]), 0.01, 0.8)),
            scaled[7],
            float(np.clip(scaled[8], 2, 30)),
            float(np.clip(v[9] + 0.6 * g[9], 0, 2)),
        )


def objectives(net, problem, data, batch: int, settings: list[Setting], ends: tuple[int, ...]) -> np.ndarray:
    """[settings, ends], mean over starts."""
    methods = [setting.method(problem) for setting in settings for _ in range(SEEDS)]
    keys = jnp.concatenate([jnp.stack([jax.random.key(s) for s in range(SEEDS)])] * len(settings))
    init = functools.partial(net.init, dtype=jnp.float32)
    result = scax.train_many(methods, init, data, keys=keys, steps=ends[-1], batch_size=batch, records=ends)
    values = result.history["objective"]  # [ends, runs]
    return values.T.reshape(len(settings), SEEDS, -1).mean(1)


def tuned_adam(net, problem, data, batch: int) -> np.ndarray:
    """The best over learning rates, constant or cosine decay to each of the ends, last or averaged iterate."""
    grid = jnp.asarray([(r, h) for r in RATES for h in (0, *ENDS)], jnp.float32)
    found = np.asarray(over_grid("Adam", problem, grid, *starts(net, SEEDS), data, ENDS, batch), float).mean(1)
    return np.nan_to_num(found, nan=np.inf).min(axis=(0, 2))


class Problems:
    """Everything a setting is judged on."""

    def __init__(self, folder: str):
        self.folder = folder
        self.tables = {name: table.rows(folder) for name, table in TABLES.items()}
        self.adam = {}
        for name, table in TABLES.items():
            data = self.tables[name]
            self.adam[name] = tuned_adam(*table.problem(data[0].shape[1]), data, table.batch)

    def judge(self, settings: list[Setting]) -> dict[str, np.ndarray]:
        """Percent over U* in the one kind of problems, logarithms of the ratio to tuned Adam in the other."""
        found = {}
        for name, table in TABLES.items():
            data = self.tables[name]
            value = objectives(*table.problem(data[0].shape[1]), data, table.batch, settings, ENDS)
            found[name] = np.log(value / self.adam[name])
        for name, case in CASES.items():
            value = objectives(*network(name), load(self.folder, name), 20, settings, AIMED_AT)
            found[name] = 100 * (value / case.best - 1)
        return found


def score(found: dict[str, np.ndarray]) -> np.ndarray:
    """The mean logarithm, a tenth of the worst, and a little for every aim missed."""
    ratios = np.stack([found[name] for name in TABLES], 1)
    ratios = np.where(np.isfinite(ratios), ratios, 5)
    over = np.concatenate(
        [np.log(np.maximum(found[name], 1e-3) / np.array(case.wanted)) for name, case in CASES.items()], 1
    )
    over = np.where(np.isfinite(over), over, 10)
    worst = np.maximum(ratios.max((1, 2)), -0.05)
    return ratios.mean((1, 2)) + 0.1 * worst + 0.05 * np.maximum(over, 0).sum(1) + 0.01 * over.mean(1)


def run(folder: str, count: int, rounds: int, seed: int = 0) -> None:
    rng, problems = np.random.default_rng(seed), Problems(folder)
    settings = [Setting(), *(Setting.draw(rng) for _ in range(count - 1))]
    pool: dict[Setting, dict] = {}
    for number in range(rounds):
        began, found = time.perf_counter(), problems.judge(settings)
        for i, (setting, value) in enumerate(zip(settings, score(found), strict=True)):
            pool[setting] = {"score": float(value), "found": {n: np.round(v[i], 4).tolist() for n, v in found.items()}}
        best = sorted(pool, key=lambda s: pool[s]["score"])
        print(
            f"round {number}: {pool[best[0]]['score']:.3f} {best[0]}, {time.perf_counter() - began:.0f} s", flush=True
        )
        settings = [Setting(), *(Setting.mutant(rng, best[:24]) for _ in range(count - 1))]
    kept = dict.fromkeys([Setting(), *best[:KEPT]])
    about = {"settings": count * rounds, "seeds": SEEDS, "device": str(jax.devices()[0].device_kind)}
    rows = [{"setting": dataclasses.asdict(setting)} | pool[setting] for setting in kept]
    RESULTS.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.search", description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", required=True, help="the folder with the paper's data sets, see `scax datasets`")
    parser.add_argument("--settings", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    run(arguments.data_dir, arguments.settings, arguments.rounds)


if __name__ == "__main__":
    main()

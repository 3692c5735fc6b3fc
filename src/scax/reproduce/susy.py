"""Figures 2 and 4: SUSY, a network of 12,101 weights; convergence, test AUC and ROC of SCA in 1 to 64 blocks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..losses import Logistic, Squared
from ..problem import Problem
from ..regularizers import L2
from ..sca import SCA
from ..sharding.blocks import Blocks
from ..training.scores import auc, roc
from .bench import Bench, Stopwatch, network, plain
from .configs import PAPER_SETTINGS, SUSY, SUSY_BLOCKS, Susy
from .tables import Rows, scaled

Tick = Callable[[str, int, int], Any]

RATES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
TUNING_REPEATS = 2
ROC_POINTS = np.linspace(0, 1, 101)


def susy(
    table: Rows,
    about: str,
    *,
    repeats: int,
    steps: int,
    seed: int,
    tick: Tick = lambda *a: None,
    rates: Sequence[float] = RATES,
    baselines: Sequence[str] = tuple(PAPER_SETTINGS),
    configs: Sequence[Susy] = SUSY,
    widths: tuple[int, ...] | None = None,
    blocks: Mapping[str, Blocks | None] = SUSY_BLOCKS,
) -> dict[str, Any]:
    """Each of the configs; `widths` is for a smaller network in a trial run."""
    watch = Stopwatch()
    problems = {
        c.label: _config(c, table, repeats, steps, seed, tick, rates, baselines, widths, blocks) for c in configs
    }
    return {
        "data": about,
        "iterations": steps,
        "repeats": repeats,
        "seed": seed,
        "tuning": {"repeats": TUNING_REPEATS, "rates": list(rates)},
        **watch.read(),
        "problems": problems,
    }


def _config(
    config: Susy, table: Rows, repeats, steps, seed, tick: Tick, rates, baselines, widths, blocks
) -> dict[str, Any]:
    squared = config.loss == "squared"
    net = network(widths or config.widths, activation="tanh", output="tanh" if squared else "linear")
    problem = Problem(net.apply, Squared() if squared else Logistic(), L2(config.l2))
    rows = scaled(table, config.scaling, config.loss)
    done = 0

    def count(runs: int) -> None:
        nonlocal done
        done += runs
        tick(config.about, done, total)

    bench = Bench(
        net, problem, rows, config.batch_size, config.test_share, repeats, steps, seed, count, rates, TUNING_REPEATS,
        keep_outputs=True, width=1,
    )  # fmt: skip
    total = len(baselines) * bench.runs_of_a_baseline(False) + len(blocks) * repeats
    count(0)  # the bar is there while the first program compiles
    methods: dict[str, Any] = {}
    for name in baselines:
        methods |= bench.baseline(name, printed=False)
    for name, split in blocks.items():
        setting = _describe_blocks(split)
        about = "SCA, our defaults" + ("" if split is None else f", {setting}")
        methods[f"sca-{name}"] = bench.sca(about, setting, SCA(problem, blocks=split))
    truth = np.stack([rows.y[order[: bench.held_out]] > 0.5 for order in bench.reported.order]).astype(float)
    for method in methods.values():
        outputs = method.pop("outputs")
        method["auc"] = plain([auc(z, y) for z, y in zip(outputs, truth, strict=True)])
        method["roc"] = plain(np.mean([_roc(z, y) for z, y in zip(outputs, truth, strict=True)], axis=0))
    return {
        "about": config.about,
        "loss": config.loss,
        "scaling": config.scaling,
        "l2": config.l2,
        "network": list(net.widths),
        "batch_size": config.batch_size,
        "train": len(rows.x) - bench.held_out,
        "held_out": bench.held_out,
        "paper": config.paper,
        "methods": methods,
    }


def _describe_blocks(blocks: Blocks | None) -> str:
    """Blocks in words."""
    if blocks is None:
        return "C = 1"
    return f"C = {blocks.count}" + (f" (random, overlap {blocks.overlap:g})" if blocks.by == "random" else "")


def _roc(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """True positive rates at the false positive rates of ROC_POINTS."""
    if not np.all(np.isfinite(z)):
        return np.full(len(ROC_POINTS), np.nan)
    return np.interp(ROC_POINTS, *roc(z, y))

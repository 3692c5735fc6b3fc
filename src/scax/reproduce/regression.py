"""Table 2 and Figure 1: four regressions, four baselines as the paper ran them and tuned, SCA three times."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..losses import Squared
from ..problem import Problem
from ..regularizers import L2
from . import optimizers
from .bench import Bench, Stopwatch, network
from .configs import PAPER_SETTINGS, RATES, TUNING_REPEATS, PaperRow
from .tables import Rows

Tick = Callable[[str, int, int], Any]  # (row, runs done, runs in all)


def regression(
    rows: Sequence[PaperRow],
    tables: Sequence[Rows],
    *,
    repeats: int,
    steps: int,
    seed: int,
    tick: Tick = lambda *a: None,
    workers: int = 1,
    rates: Sequence[float] = RATES,
    tuning_repeats: int = TUNING_REPEATS,
    baselines: Sequence[str] = tuple(PAPER_SETTINGS),
) -> dict[str, Any]:
    """Every row of the table after `steps` iterations; rows run side by side in `workers` threads."""

    stop = threading.Event()

    def unless_stopped(*progress: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        tick(*progress)

    def one(row: PaperRow, table: Rows) -> dict[str, Any]:
        return _row(row, table, repeats, steps, seed, unless_stopped, rates, tuning_repeats, baselines)

    watch = Stopwatch()
    pool = ThreadPoolExecutor(workers)
    try:
        each = list(pool.map(one, rows, tables))
    finally:  # after Ctrl-C, too: the other threads end at their next tick
        stop.set()
        pool.shutdown(cancel_futures=True)
    return {
        "iterations": steps,
        "repeats": repeats,
        "seed": seed,
        "tuning": {"repeats": tuning_repeats, "rates": list(rates)},
        **watch.read(),
        "rows": {row.label: result for row, result in zip(rows, each, strict=True)},
    }


def _row(
    row: PaperRow, table: Rows, repeats, steps, seed, tick: Tick, rates, tuning_repeats, baselines
) -> dict[str, Any]:
    net = network(row.widths, activation="tanh", output="tanh")
    problem = Problem(net.apply, Squared(), L2(row.l2))
    done = 0

    def count(runs: int) -> None:
        nonlocal done
        done += runs
        tick(row.label, done, total)

    bench = Bench(
        net, problem, table, row.batch_size, row.test_share, repeats, steps, seed, count, rates, tuning_repeats
    )
    total = len(baselines) * bench.runs_of_a_baseline(True) + len(optimizers.SCA_VARIANTS) * repeats
    count(0)  # the bar is there while the first program compiles
    methods: dict[str, Any] = {}
    for name in baselines:
        methods |= bench.baseline(name)
    for name, (label, _) in optimizers.SCA_VARIANTS.items():
        about = "as the label says" if name != "sca" else "defaults"
        methods[name] = bench.sca(label, about, optimizers.sca(name, problem))
    return {
        "dataset": row.dataset,
        "network": list(row.widths),
        "l2": row.l2,
        "batch_size": row.batch_size,
        "train": len(table.x) - bench.held_out,
        "held_out": bench.held_out,
        "paper": {name: list(printed) for name, printed in row.paper.items()},
        "methods": methods,
    }

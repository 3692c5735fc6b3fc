"""Time until SCA, with its defaults, has the objective that tuned Adam ends with, on generated data.

    python -m benchmarks.reach [--steps 2000] [--out docs/results]

Adam's learning rate is the best of six, each with cosine decay to its last step. The objective is that of all rows,
measured every tenth step, in a run that is not timed. On the paper's data: `python -m benchmarks.defaults run`.
"""

import argparse
import json
from pathlib import Path

import jax
import numpy as np
import optax

import scax
from benchmarks.runs import timed
from benchmarks.steps import CASES, describe_machine
from scax.training import engine
from scax.training.evaluation import Objective
from scax.training.feed import Rows

NETWORKS = ("CASP 9/10/6/1", "SUSY 18/100/100/1", "SUSY 18/100/100/1 logistic")
RATES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
EVERY = 10


def follow(method, params, x, y, batch: int, steps: int) -> tuple[np.ndarray, float]:
    """The objective of the solution on all rows after every EVERY steps, and the seconds of all steps without that."""
    whole = scax.Batch(x, y)
    feed, goals = Rows(whole, batch), np.arange(EVERY, steps + 1, EVERY, dtype=np.int32)
    carry = engine.start(method, params, feed, jax.random.key(1))
    seen = engine.run(method, Objective(whole))(carry, feed, goals, goals[-1])[1].values["objective"]
    return np.asarray(seen), steps * timed(method, params, feed)(steps)[0]


def measure(name: str, steps: int) -> dict:
    (case,) = (c for c in CASES if c.name == name)
    problem, params, x, y = case.build()
    run = lambda method: follow(method, params, x, y, case.batch, steps)
    tried = {r: run(scax.baseline(optax.adam(optax.cosine_decay_schedule(r, steps)), problem)) for r in RATES}
    rate = min(tried, key=lambda r: np.nan_to_num(tried[r][0][-1], nan=np.inf))
    spent, aim = tried[rate][1], float(tried[rate][0][-1])
    ours, time_of_ours = run(scax.SCA(problem))
    there = int(np.argmax(ours <= aim)) if np.any(ours <= aim) else None
    count = None if there is None else EVERY * (there + 1)
    return {
        "network": name, "rate": rate, "objective": aim, "steps": steps, "adam_seconds": spent, "sca_steps": count,
        "sca_seconds": None if count is None else time_of_ours * count / steps, "sca_end": float(ours[-1]),
    }  # fmt: skip


def markdown(rows: list[dict]) -> str:
    lines = [
        "| network | Adam's rate | its objective | after | in | SCA there after | in | faster | SCA ends at |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        there = ["–", "–", "–"]
        if r["sca_steps"] is not None:
            quotient = r["adam_seconds"] / r["sca_seconds"]
            there = [f"{r['sca_steps']}", f"{1e3 * r['sca_seconds']:.0f} ms", f"{quotient:.1f}"]
        adam = f"{r['rate']:g} | {r['objective']:.5f} | {r['steps']} | {1e3 * r['adam_seconds']:.0f} ms"
        lines.append(f"| {r['network']} | {adam} | {' | '.join(there)} | {r['sca_end']:.5f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    machine = describe_machine() | {"command": f"python -m benchmarks.reach --steps {options.steps}"}
    rows = [measure(name, options.steps) for name in NETWORKS]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "reach.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    print(markdown(rows))


if __name__ == "__main__":
    main()

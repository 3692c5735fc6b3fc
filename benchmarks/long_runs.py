"""Long runs: the default, whose clock stands still while fresh batches improve; the same with one that counts steps;
and step sizes that fall more slowly by hand, after some hundred steps ("later") or always ("slow").

python -m benchmarks.long_runs run --data-dir DIR [--workers N]     writes docs/results/long-runs.json
python -m benchmarks.long_runs show                                 prints the table of docs/measurements/defaults.md

The four sets of the paper, its networks and hidden layers of 100 and 50, a ridge and two strengths of ℓ1, batches of 32
rows, no finishing steps. A quarter of the rows is for the test; the others but a fifth are for training, as in
`benchmarks.sparse_training`.
"""

import argparse
import itertools
import json
import multiprocessing
import os
from pathlib import Path

import numpy as np

RULES = ("default", "counted", "later", "slow")
PENALTIES = {"L2 1e-3": ("L2", 1e-3), "ℓ1 1e-4": ("L1", 1e-4), "ℓ1 1e-3": ("L1", 1e-3)}
NETWORKS = {"paper": None, "wide": (100, 50)}
TITLES = {"casp": "CASP", "parkinsons": "Parkinsons", "skillcraft1": "SkillCraft1", "winequality-white": "Wine"}
STEPS, SEEDS = 20000, (0, 1, 2)
SHOWN = (500, 2000, 5000, 20000)
FILE = Path(__file__).parent.parent / "docs/results/long-runs.json"


def one(job: tuple) -> list[dict]:
    """All rules on one set, network, penalty and split: objective and test error at some steps."""
    import jax

    import scax
    from benchmarks import sparse_training

    name, network, penalty, seed, folder, rules = job
    x, y = sparse_training.table(name, folder)
    split = sparse_training.split_of(x, y, np.random.default_rng(seed).permutation(len(x)))
    hidden = NETWORKS[network]
    widths = sparse_training.SETS[name] if hidden is None else (x.shape[1], *hidden, 1)
    net = scax.MLP(widths)
    kind, strength = PENALTIES[penalty]
    problem = scax.Problem(net.apply, scax.Squared(), getattr(scax, kind)(strength))
    rows = []
    sizes = {
        "later": lambda n: 0.5 * (1 + n / 1.5) ** -0.55 * (1 + n / 300) ** 0.2,
        "slow": lambda n: 0.5 * (1 + n / 1.5) ** -0.3,
    }
    for rule in rules:
        clock = None if rule == "default" else scax.rules.StepCount()
        method = scax.SCA(problem, step_size=sizes.get(rule), clock=clock)
        history = scax.train(
            method, net.init(jax.random.key(seed)), split["train"], steps=STEPS, batch_size=32, finish=0,
            key=jax.random.key(seed), validation=split["test"], records=SHOWN,
        ).history  # fmt: skip
        steps = [int(s) for s in history["step"]]
        at = [int(np.argmin(np.abs(np.array(steps) - wanted))) for wanted in SHOWN]
        rows.append(
            {
                "set": name, "network": network, "widths": widths, "penalty": penalty, "seed": seed, "rule": rule,
                "step": [steps[i] for i in at],
                "objective": [float(history["objective"][i]) for i in at],
                "test": [float(history["validation_loss"][i]) for i in at],
            }
        )  # fmt: skip
    return rows


def run(folder: Path | None, workers: int, rules: tuple[str, ...] = RULES) -> None:
    """The rules given; what the others have in the results file stays."""
    os.environ |= {"NPROC": "1", "OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    jobs = [(*job, seed, folder, rules) for seed in SEEDS for job in itertools.product(TITLES, NETWORKS, PENALTIES)]
    rows: list[dict] = []
    if len(rules) < len(RULES):
        rows = json.loads(FILE.read_text())["rows"]
    command = f"python -m benchmarks.long_runs run --data-dir DIR --workers {workers}"
    # a process for each job: programs of other networks are not kept
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        for done, runs in enumerate(pool.imap_unordered(one, jobs, chunksize=1), 1):
            new = {key_of(row) for row in runs}
            rows = [row for row in rows if key_of(row) not in new] + runs
            write(rows, command)  # what is done when somebody stops it is kept
            print(f"{done} of {len(jobs)}: {runs[0]['set']} {runs[0]['network']} {runs[0]['penalty']}", flush=True)
    print(markdown({"rows": rows}))


def key_of(row: dict) -> tuple:
    return tuple(row[name] for name in ("set", "network", "penalty", "seed", "rule"))


def write(rows: list[dict], command: str) -> None:
    from benchmarks.steps import describe_machine

    order = {key: i for i, key in enumerate(itertools.product(TITLES, NETWORKS, PENALTIES, SEEDS, RULES))}
    rows = sorted(rows, key=lambda row: order[key_of(row)])
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    machine = describe_machine() | {"command": command}
    FILE.write_text(f'{{"machine": {json.dumps(machine)},\n"rows": [\n{lines}\n]}}\n')


def markdown(results: dict) -> str:
    """Ratios to the default, geometric means over the splits."""
    others, last = RULES[1:], len(SHOWN) - 1
    heads = ["set", "network", "penalty"]
    for rule in others:
        heads += [f"{rule}, {at:,} steps" for at in SHOWN[1:]] + [f"{rule}, test error"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]

    def ratio(group: list[dict], rule: str, what: str, place: int) -> float:
        value = {(r["rule"], r["seed"]): r[what][place] for r in group}
        seeds = {seed for _, seed in value}
        return float(np.exp(np.mean([np.log(value[rule, s] / value["default", s]) for s in seeds])))

    for name, network, penalty in itertools.product(TITLES, NETWORKS, PENALTIES):
        group = [r for r in results["rows"] if (r["set"], r["network"], r["penalty"]) == (name, network, penalty)]
        if not group:
            continue
        cells = []
        for rule in others:
            cells += [ratio(group, rule, "objective", i) for i in range(1, last + 1)]
            cells.append(ratio(group, rule, "test", last))
        widths = "/".join(map(str, group[0]["widths"]))
        splits = len({r["seed"] for r in group})
        mark = "" if splits == len(SEEDS) else f" {'⁰¹²³'[splits]}"
        lines.append(f"| {TITLES[name]} | {widths} | {penalty}{mark} | " + " | ".join(f"{c:.2f}" for c in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--ours", action="store_true", help="the default again, the others kept")
    options = parser.parse_args()
    if options.what == "run":
        run(options.data_dir, options.workers, RULES[:1] if options.ours else RULES)
    else:
        print(markdown(json.loads(FILE.read_text())))


if __name__ == "__main__":
    main()

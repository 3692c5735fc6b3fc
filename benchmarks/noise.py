"""Noise and signal: the default's clock beside one that counts steps, from noise-free functions to noisy ones.

python -m benchmarks.noise run [--workers N]     writes docs/results/noise.json and docs/images/noise.svg
python -m benchmarks.noise show                  prints the tables of docs/measurements/defaults.md

float64, rows drawn epoch by epoch, no penalty. Errors are mean squares over the variance of the target; the last column
of noisy problems is the error against the noise-free function on other points. With all rows in every step:
`benchmarks.least_squares`.
"""

import argparse
import json
import multiprocessing
import os
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent.parent / "docs/results/noise.json"
IMAGE = Path(__file__).parent.parent / "docs/images/noise.svg"
CLOCKS = ("default", "counted")
#: name, noise, rows in a batch, steps, starts
PROBLEMS = [
    ("sinc", 0.0, 1, 4000, 2),
    ("sinc", 0.0, 5, 4000, 2),
    ("sinc", 0.0, 20, 4000, 5),
    ("sinc", 0.0, 100, 4000, 2),
    ("franke", 0.0, 20, 10_000, 2),
    ("franke", 0.0, 100, 10_000, 2),
    ("friedman", 0.0, 20, 10_000, 2),
    ("friedman", 0.0, 100, 10_000, 2),
    ("friedman", 0.01, 20, 10_000, 2),
    ("friedman", 0.01, 100, 10_000, 2),
    ("friedman", 0.1, 20, 10_000, 2),
    ("friedman", 0.1, 100, 10_000, 2),
    ("friedman", 0.3, 20, 10_000, 2),
    ("friedman", 0.3, 100, 10_000, 2),
]
WIDTHS = {"sinc": (1, 20, 1), "franke": (2, 20, 20, 1), "friedman": (10, 20, 10, 1)}
ROWS = {"sinc": 2000, "franke": 5000, "friedman": 5000}
#: What the picture shows: noise-free and noisy.
SHOWN = [("friedman", 0.0, 20), ("friedman", 0.3, 20)]


def sinc(rng, n):
    x = rng.uniform(-1, 1, (n, 1))
    return x, np.sinc(10 * x[:, 0] / np.pi)


def franke(rng, n):
    x = rng.uniform(0, 1, (n, 2))
    a, b = 9 * x.T
    y = 0.75 * np.exp(-((a - 2) ** 2 + (b - 2) ** 2) / 4) + 0.75 * np.exp(-((a + 1) ** 2) / 49 - (b + 1) / 10)
    return 2 * x - 1, y + 0.5 * np.exp(-((a - 7) ** 2 + (b - 3) ** 2) / 4) - 0.2 * np.exp(
        -((a - 4) ** 2) - (b - 7) ** 2
    )


def friedman(rng, n):
    x = rng.uniform(0, 1, (n, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return 2 * x - 1, y


FUNCTIONS = {"sinc": sinc, "franke": franke, "friedman": friedman}


def data(name: str, noise: float, rows: int) -> tuple:
    """Rows for training with noise, rows for the test without; targets of mean 0 and variance 1."""
    rng = np.random.default_rng(0)
    (x, y), (x_test, y_test) = (FUNCTIONS[name](rng, n) for n in (rows, 4000))
    mean, deviation = y.mean(), y.std()
    y = (y - mean) / deviation + noise * rng.standard_normal(rows)
    return (x, y), (x_test, (y_test - mean) / deviation)


def one(job: tuple) -> dict:
    """One start of one problem with one clock."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import scax

    name, noise, batch_size, steps, start, clock = job
    train, test = data(name, noise, ROWS[name])
    net = scax.MLP(WIDTHS[name])
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(0.0))
    sca = scax.SCA(problem, clock=scax.rules.StepCount() if clock == "counted" else None)
    params = jax.tree.map(lambda leaf: leaf.astype(np.float64), net.init(jax.random.key(start)))
    history = scax.train(
        sca, params, train, steps=steps, batch_size=batch_size, key=jax.random.key(start), validation=test, records=60
    ).history
    columns = ("step", "objective", "validation_loss", "clock", "multiplier", "damping")
    about = {"name": name, "noise": noise, "batch_size": batch_size, "start": start, "rule": clock}
    return about | {column: [float(f"{v:.4g}") for v in history[column]] for column in columns}


def run(workers: int, clocks: tuple[str, ...] = CLOCKS) -> None:
    """With the clocks given; what the others have in the results file stays."""
    os.environ |= {"NPROC": "1", "OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    jobs = [(*p[:4], start, clock) for p in PROBLEMS for start in range(p[4]) for clock in clocks]
    others = json.loads(FILE.read_text())["runs"] if len(clocks) < len(CLOCKS) else []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        runs = pool.map(one, jobs, chunksize=1) + [r for r in others if r["rule"] not in clocks]
    from benchmarks.steps import describe_machine

    machine = describe_machine() | {"command": f"python -m benchmarks.noise run --workers {workers}"}
    lines = ",\n".join(json.dumps(r) for r in sorted(runs, key=lambda r: [str(r[k]) for k in list(r)[:5]]))
    FILE.write_text(f'{{"machine": {json.dumps(machine)},\n"runs": [\n{lines}\n]}}\n')
    show()


def show() -> None:
    results = json.loads(FILE.read_text())
    print(markdown(results))
    plot(results)


def markdown(results: dict) -> str:
    """Medians over the starts."""
    heads = ("function", "noise", "rows", "steps", "default", "counting steps", "default, test", "counting, test")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, noise, batch_size, steps, _ in PROBLEMS:
        group = [r for r in results["runs"] if (r["name"], r["noise"], r["batch_size"]) == (name, noise, batch_size)]
        end = lambda rule, what, group=group: np.median([r[what][-1] for r in group if r["rule"] == rule])
        cells = [f"{end(rule, what):.2g}" for what in ("objective", "validation_loss") for rule in CLOCKS]
        lines.append(f"| {name} | {noise:g} | {batch_size} | {steps:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(results: dict) -> None:
    """Error, clock and damping of one noise-free and one noisy problem."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "scax", "font.size": 9}
    figure, axes = plt.subplots(3, 2, figsize=(7.5, 6.5), sharex=True, layout="constrained")
    for column, (name, noise, batch_size) in enumerate(SHOWN):
        for clock, color in zip(CLOCKS, ("tab:blue", "tab:gray"), strict=True):
            keys = (name, noise, batch_size, 0, clock)
            (run,) = (r for r in results["runs"] if tuple(r.values())[:5] == keys)
            for row, what in enumerate(("validation_loss", "clock", "damping")):
                axes[row, column].plot(run["step"], run[what], color=color, label=f"{clock}")
        axes[0, column].set_title("without noise" if noise == 0 else f"noise of {noise:g} standard deviations")
        axes[0, column].set_yscale("log")
        axes[2, column].set_yscale("log")
        axes[2, column].set_xlabel("step")
    for row, label in enumerate(("error on other points", "clock t", "damping τ")):
        axes[row, 0].set_ylabel(label)
    axes[0, 0].legend(frameon=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGE, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--ours", action="store_true", help="the default again, the other clock's runs kept")
    options = parser.parse_args()
    if options.what == "run":
        run(options.workers, CLOCKS[:1] if options.ours else CLOCKS)
    else:
        show()


if __name__ == "__main__":
    main()

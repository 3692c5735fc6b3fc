"""Many outputs: what trainings with sampled curvature reach, and what a step costs.

python -m benchmarks.outputs trainings [--sets NAME ...] [--batch 64] [--steps 100 300 1000 3000] [--data-dir DIR]
python -m benchmarks.outputs table
python -m benchmarks.outputs steps

Results are merged into docs/results/outputs-PLATFORM.json. Times are processor seconds; on a busy machine set
OPENBLAS_NUM_THREADS=1 and XLA_FLAGS=--xla_cpu_multi_thread_eigen=false. Steps over the number of outputs:
`benchmarks.outputs_growth`; in one scan: `benchmarks.outputs_loop`.
"""

import argparse
import dataclasses
import json
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import scax
from benchmarks.runs import follow
from benchmarks.steps import CASES, describe_machine, markdown, measure
from scax.training.methods import optimizer, tuned

#: (loss, inputs, hidden widths, outputs, noise)
SETS = {
    "softmax 3": ("softmax", 10, (32, 16), 3, 0.3),
    "softmax 10": ("softmax", 20, (64, 64), 10, 0.3),
    "softmax 100": ("softmax", 50, (100, 100), 100, 0.3),
    "softmax 10, no noise": ("softmax", 20, (64, 64), 10, 0.0),
    "softmax 10, noise 1": ("softmax", 20, (64, 64), 10, 1.0),
    "softmax 10, 200 inputs": ("softmax", 200, (100, 50), 10, 0.3),
    "softmax 10, 784 inputs": ("softmax", 784, (300, 100), 10, 0.3),
    "squared 3": ("squared", 8, (32, 16), 3, 0.3),
    "squared 3, no noise": ("squared", 8, (32, 16), 3, 0.0),
    "squared 10, no noise": ("squared", 8, (32, 16), 10, 0.0),
    "logistic 10": ("logistic", 20, (64, 64), 10, 0.3),
    "Poisson 10": ("Poisson", 20, (64, 64), 10, 0.3),
}
#: Tables in --data-dir, and their columns with the classes; digits comes with scikit-learn.
TABLES = {
    "digits": ("", ""),
    "MAGIC": ("magic04.csv.gz", "class"),
    "Adult": ("adult.csv.gz", "income"),
    "SUSY": ("susy-ucitest-random10k.csv.gz", "label"),
    "SkillCraft1": ("skillcraft1.csv.gz", "LeagueIndex"),
}
#: Numbers that only tell rows apart.
DROPPED = ("uci_row", "GameID")
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
#: Cases of benchmarks.steps with many outputs, or a loss that takes several solves.
STEPS = (
    "784/300/100/10 softmax",
    "digits CNN",
    "SUSY 18/100/100/1 logistic",
    "12/128/128/300",
    "784/300/100/1000 softmax",
    "CIFAR-sized CNN",
)
#: Equations above which the exact step is not measured: most of a second each.
MOST_EQUATIONS = 1000


def generate(loss: str, inputs: int, hidden: tuple[int, ...], outputs: int, noise: float, rows: int = 8192):
    """(problem, params, x, y): scores are a random combination of tanh of random projections, plus noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, inputs)).astype(np.float32)
    middle = max(32, outputs)
    features = np.tanh(3 * x @ rng.normal(size=(inputs, middle)) / np.sqrt(inputs))
    score = features @ rng.normal(size=(middle, outputs)) / np.sqrt(middle) + noise * rng.normal(size=(rows, outputs))
    kinds = {
        "softmax": (scax.Softmax(), lambda: np.argmax(score, axis=1)),
        "logistic": (scax.Logistic(), lambda: (score > 0).astype(np.float32)),
        "Poisson": (scax.Poisson(), lambda: rng.poisson(np.exp(np.clip(score, -3, 2))).astype(np.float32)),
        "squared": (scax.Squared(), lambda: score.astype(np.float32)),
    }
    kind, y = kinds[loss]
    net = scax.MLP((inputs, *hidden, outputs))
    return scax.Problem(net.apply, kind, scax.L2(1e-4)), net.init(jax.random.key(1)), jnp.asarray(x), jnp.asarray(y())


def read(name: str, folder: Path | None, rows: int = 8192):
    """(problem, params, x, y) of a table: standardized numbers, texts as dummies, one output for two classes."""
    if name == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        x, hidden = x / 16 - 0.5, (64, 32)
    else:
        import polars as pl

        if folder is None:
            raise SystemExit(f"{name} is read from a file: give --data-dir.")
        file, target = TABLES[name]
        table = pl.read_csv(folder / file, null_values=["?"], infer_schema_length=None)
        table = table[np.random.default_rng(0).permutation(len(table))[:rows].tolist()]
        columns = [table[c] for c in table.columns if c != target and c not in DROPPED]
        dense = lambda c: c.fill_null(c.median()).to_numpy()[:, None]
        parts = [c.fill_null("?").to_dummies().to_numpy() if c.dtype == pl.String else dense(c) for c in columns]
        x, y, hidden = np.concatenate(parts, axis=1).astype(float), table[target].to_numpy(), (50, 25)
        x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-6)
    classes, y = np.unique(y, return_inverse=True)
    count = len(classes)
    loss = scax.Softmax() if count > 2 else scax.Logistic()
    net = scax.MLP((x.shape[1], *hidden, count if count > 2 else 1))
    y = jnp.asarray(y) if count > 2 else jnp.asarray(y, jnp.float32)
    return scax.Problem(net.apply, loss, scax.L2(1e-4)), net.init(jax.random.key(1)), jnp.asarray(x, jnp.float32), y


def trainings(name: str, batch: int, steps: list[int], folder: Path | None, most: int) -> list[dict]:
    """Objectives of the solution on all rows after so many steps, and processor seconds per step.

    Adam's rate is tuned for each number of steps on its own, constant or decayed by a cosine to zero there.
    """
    problem, params, x, y = read(name, folder) if name in TABLES else generate(*SETS[name])
    outputs = problem.outputs(params, x[:1]).shape[1]
    made = []

    def record(method: str, objectives: list[float], seconds: float, **more: object) -> None:
        made.append({"set": name, "batch": batch, "method": method, "seconds": seconds, "steps": steps})
        made[-1] |= {"objectives": objectives} | more
        print(name, method, [f"{value:.4f}" for value in objectives], f"{1e6 * seconds:.0f} µs", flush=True)

    key = jax.random.key(0)
    sampled = ("quadratic",) if outputs == 1 else tuple(r for r in (1, 2) if r < outputs)
    methods = {str(curvature): scax.SCA(problem, curvature=curvature) for curvature in sampled}
    if batch * outputs <= most:
        methods["exact"] = scax.SCA(problem, curvature="exact")
    for label, method in methods.items():
        run = lambda params, key, method=method: follow(method, method.init(params), key, (x, y), steps, batch)[0]
        compiled = jax.jit(run).lower(params, key).compile()
        began = time.process_time()
        objectives = np.asarray(compiled(params, key))[:, 1]
        record(label, [float(value) for value in objectives], (time.process_time() - began) / steps[-1])

    method = scax.baseline(optimizer("adam"), problem)

    @jax.jit
    def adam(rate, cosine, ends):
        state = method.init(params)
        state = dataclasses.replace(state, optimizer=tuned(state.optimizer, rate, cosine, ends[-1]))
        return follow(method, state, key, (x, y), ends, batch)[0][:, 0]

    ends, reached, times = np.asarray(steps, np.int32), {}, []
    adam(RATES[0], 0.0, np.minimum(ends, 1))  # compiled
    for rate in RATES:
        began = time.process_time()
        reached[f"{rate:g}"] = np.asarray(adam(rate, 0.0, ends))
        times.append((time.process_time() - began) / steps[-1])
        # of a cosine that ends at a mark only what it reaches there counts
        decayed = [np.asarray(adam(rate, 1.0, np.minimum(ends, end)))[-1] for end in ends]
        reached[f"{rate:g}, cosine"] = np.asarray(decayed)
    best = [min(reached, key=lambda said, i=i: reached[said][i]) for i in range(len(steps))]
    lowest = [float(reached[said][i]) for i, said in enumerate(best)]
    record("Adam, tuned", lowest, statistics.median(times), rates=best)
    record("Adam, 1e-3", [float(value) for value in reached["0.001"]], statistics.median(times))
    return made


def tabulate(rows: list[dict]) -> str:
    """Sets by method, objectives over those of tuned Adam behind them."""
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        lowest = next(row["objectives"] for row in own if row["method"] == "Adam, tuned")
        for row in own:
            over = [f"{a:.3g} ({a / b:.2f})" for a, b in zip(row["objectives"], lowest, strict=True)]
            over += [""] * (4 - len(over))
            lines.append(f"| {name} | {row['method']} | {' | '.join(over)} | {1e6 * row['seconds']:,.0f} |")
    return "| set | method | 100 | 300 | 1,000 | 3,000 | µs a step |\n|---|---|---|---|---|---|---|\n" + "\n".join(
        lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["trainings", "table", "steps"])
    parser.add_argument("--sets", nargs="*", choices=[*SETS, *TABLES], default=list(SETS))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", nargs="*", type=int, default=[100, 300, 1000, 3000])
    parser.add_argument("--data-dir", type=Path, help="the folder of the tables")
    parser.add_argument("--most", type=int, default=MOST_EQUATIONS, help="equations of the largest exact step")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    machine["command"] = machine["command"].replace("benchmarks.steps", "benchmarks.outputs")
    file = options.out / f"outputs-{machine['platform']}.json"
    results = json.loads(file.read_text()) if file.exists() else {}

    def save(what: str, made: list[dict], same: tuple[str, ...]) -> None:
        """Rows with the same name are replaced."""
        new = {tuple(row[key] for key in same) for row in made}
        results[what] = [row for row in results.get(what, []) if tuple(row[key] for key in same) not in new] + made
        file.write_text(json.dumps(results | {"machine": machine}, indent=1) + "\n")

    if options.what == "trainings":
        for name in options.sets:
            made = trainings(name, options.batch, options.steps, options.data_dir, options.most)
            save("trainings", made, ("set", "batch", "method"))
        return
    if options.what == "table":
        print(tabulate(results["trainings"]))
        return
    if options.what == "steps":
        for case in (case for case in CASES if case.name in STEPS):
            save("steps", [measure(case, options.repeats, 0.2)], ("case",))
            print(markdown(results["steps"][-1:], machine), flush=True)


if __name__ == "__main__":
    main()

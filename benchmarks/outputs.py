"""Many outputs: what a step costs over the number K of outputs, and what trainings with sampled curvature reach.

python -m benchmarks.outputs growth [--outputs 2 3 10 30 100 300 1000]
python -m benchmarks.outputs trainings [--sets NAME ...] [--batch 64] [--steps 300 1000 3000]

Results are merged into docs/results/outputs-PLATFORM.json; `growth` also draws docs/images/outputs-growth.png. Times
are processor seconds; on a busy machine set OPENBLAS_NUM_THREADS=1 and XLA_FLAGS=--xla_cpu_multi_thread_eigen=false.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import scax
from benchmarks.runs import follow
from benchmarks.steps import describe_machine, looped

#: (loss, inputs, hidden widths, outputs, noise)
SETS = {
    "softmax 3": ("softmax", 10, (32, 16), 3, 0.3),
    "softmax 10": ("softmax", 20, (64, 64), 10, 0.3),
    "softmax 100": ("softmax", 50, (100, 100), 100, 0.3),
    "784 inputs, 10 classes": ("softmax", 784, (300, 100), 10, 0.3),
    "squared 3": ("squared", 8, (32, 16), 3, 0.3),
    "squared 3, no noise": ("squared", 8, (32, 16), 3, 0.0),
    "squared 10, no noise": ("squared", 8, (32, 16), 10, 0.0),
    "logistic 10": ("logistic", 20, (64, 64), 10, 0.3),
    "Poisson 10": ("Poisson", 20, (64, 64), 10, 0.3),
}
RATES = (1e-3, 3e-3, 1e-2)
#: Equations above which the exact step is not timed: seconds each.
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


def trainings(name: str, batch: int, steps: list[int]) -> list[dict]:
    """Objectives on all rows after so many steps, and processor seconds per step."""
    problem, params, x, y = generate(*SETS[name])
    methods = {f"adam {rate:g}": scax.baseline(optax.adam(rate), problem) for rate in RATES}
    methods |= {str(c): scax.SCA(problem, curvature=c) for c in (1, 2, 4)}
    if batch * problem.outputs(params, x[:1]).shape[1] <= MOST_EQUATIONS:
        methods["exact"] = scax.SCA(problem, curvature="exact")
    made = []
    for label, method in methods.items():
        run = lambda params, key, method=method: follow(method, method.init(params), key, (x, y), steps, batch)[0]
        compiled = jax.jit(run).lower(params, jax.random.key(0)).compile()
        began = time.process_time()
        objectives = np.asarray(jax.block_until_ready(compiled(params, jax.random.key(0))))[:, 1]
        each = (time.process_time() - began) / steps[-1]
        row = {"set": name, "batch": batch, "method": label, "seconds": each, "steps": steps}
        made.append(row | {"objectives": [float(value) for value in objectives]})
        print(name, label, [f"{value:.4f}" for value in objectives], f"{1e6 * each:.0f} µs", flush=True)
    return made


def growth(outputs: int, batch: int, repeats: int) -> dict:
    """Processor seconds per step at K outputs, the least of some repeats."""
    problem, params, x, y = generate("softmax", 20, (64, 64), outputs, 0.3, rows=2048)
    methods = {"adam": scax.baseline(optax.adam(1e-3), problem)}
    methods |= {str(c): scax.SCA(problem, curvature=c) for c in (1, 4)}
    if batch * outputs <= MOST_EQUATIONS:
        methods["exact"] = scax.SCA(problem, curvature="exact")
    row: dict = {"outputs": outputs, "batch": batch}
    for label, method in methods.items():
        loop = looped(method, params, x, y, batch)
        count = int(min(max(0.05 / loop(2)[1], 2), 500))
        row[label] = min(loop(count)[1] for _ in range(repeats))
    print(row, flush=True)
    return row


def draw(rows: list[dict], path: Path) -> None:
    """Time of a step over K."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for label, said in (("exact", "exact"), ("4", "four directions"), ("1", "one direction"), ("adam", "Adam")):
        own = sorted((row["outputs"], 1e6 * row[label]) for row in rows if label in row)
        axes.loglog(*zip(*own, strict=True), marker="o", label=said)
    axes.set(xlabel="outputs K", ylabel="processor time of a step, µs", title="20/64/64/K, softmax, 64 rows")
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["growth", "trainings"])
    parser.add_argument("--sets", nargs="*", choices=list(SETS), default=list(SETS))
    parser.add_argument("--outputs", nargs="*", type=int, default=[2, 3, 10, 30, 100, 300, 1000])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", nargs="*", type=int, default=[300, 1000, 3000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    machine = describe_machine()
    machine["command"] = machine["command"].replace("benchmarks.steps", "benchmarks.outputs")
    file = Path(f"docs/results/outputs-{machine['platform']}.json")
    results = json.loads(file.read_text()) if file.exists() else {"growth": [], "trainings": []}

    def save(what: str, made: list[dict], same: tuple[str, ...]) -> None:
        """Rows with the same name are replaced."""
        new = {tuple(row[key] for key in same) for row in made}
        results[what] = [row for row in results[what] if tuple(row[key] for key in same) not in new] + made
        file.write_text(json.dumps({"machine": machine, **{k: results[k] for k in ("growth", "trainings")}}, indent=1))

    if options.what == "trainings":
        for name in options.sets:
            save("trainings", trainings(name, options.batch, options.steps), ("set", "batch", "method"))
        return
    for outputs in options.outputs:
        save("growth", [growth(outputs, options.batch, options.repeats)], ("outputs", "batch"))
    draw(results["growth"], Path("docs/images/outputs-growth.png"))


if __name__ == "__main__":
    main()

"""What a step costs over the number K of outputs: exact, sampled, and Adam's.

python -m benchmarks.outputs_growth [--outputs 2 3 10 30 100 300 1000] [--batch 64] [--out DIR]
python -m benchmarks.outputs_growth --draw

20/64/64/K, softmax. Steps are in one compiled scan; the least of five repeats, in processor seconds on a CPU and wall
seconds on a GPU. On a CPU with OPENBLAS_NUM_THREADS=1: threads of a factorization that wait for each other count, too.
Results go to OUT/growth-outputs-PLATFORM.json; --draw makes docs/images/outputs-growth.svg of them.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import optax

import scax
from benchmarks.outputs import MOST_EQUATIONS, generate
from benchmarks.outputs_loop import lowered
from benchmarks.steps import describe_machine

DRAWN = (("exact", "exact"), ("2", "two directions"), ("1", "one direction"), ("adam", "Adam"))


def methods(problem: scax.Problem, outputs: int, batch: int) -> dict[str, Any]:
    made: dict[str, Any] = {"adam": scax.baseline(optax.adam(1e-3), problem)}
    made |= {str(r): scax.SCA(problem, curvature=r) for r in (1, 2) if r < outputs}
    if batch * outputs <= MOST_EQUATIONS:
        made["exact"] = scax.SCA(problem, curvature="exact")
    return made


def draw(folder: Path, path: Path) -> None:
    """Time of a step over K, a panel for each machine."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    files = [file for file in (folder / f"growth-outputs-{name}.json" for name in ("cpu", "gpu")) if file.exists()]
    plt.rcParams["svg.hashsalt"] = "scax"
    figure, panels = plt.subplots(1, len(files), figsize=(5 * len(files), 4), squeeze=False)
    for axes, file in zip(panels[0], files, strict=True):
        results = json.loads(file.read_text())
        for label, said in DRAWN:
            own = sorted((row["outputs"], row[label]) for row in results["rows"] if label in row)
            axes.loglog(*zip(*own, strict=True), marker="o", label=said)
        where = "one core of a CPU" if results["machine"]["platform"] == "cpu" else results["machine"]["device"]
        axes.set(xlabel="outputs K", ylabel="µs a step", title=f"20/64/64/K, softmax, 64 rows: {where}")
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outputs", nargs="*", type=int, default=[2, 3, 10, 30, 100, 300, 1000])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2, help="programs compiled at once")
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    if options.draw:
        draw(options.out, Path("docs/images/outputs-growth.svg"))
        return
    machine, jobs = describe_machine(), []
    machine["command"] = machine["command"].replace("benchmarks.steps", "benchmarks.outputs_growth")
    options.out.mkdir(parents=True, exist_ok=True)
    now = time.process_time if machine["platform"] == "cpu" else time.perf_counter
    for outputs in options.outputs:
        problem, params, x, y = generate("softmax", 20, (64, 64), outputs, 0.3, rows=2048)
        for name, method in methods(problem, outputs, options.batch).items():
            exact_equations = options.batch * outputs if name == "exact" else 0
            count = 100 if exact_equations < 300 else 10
            jobs.append((outputs, name, count, *lowered(method, params, x, y, options.batch, count, ())))
    with ThreadPoolExecutor(options.threads) as pool:
        programs = list(pool.map(lambda job: job[3].compile(), jobs))
    rows: dict[int, dict] = {outputs: {"outputs": outputs, "batch": options.batch} for outputs in options.outputs}
    for (outputs, name, count, _, arguments), program in zip(jobs, programs, strict=True):
        times = []
        for _ in range(6):
            began = now()
            jax.block_until_ready(program(*arguments))
            times.append(now() - began)
        rows[outputs][name] = 1e6 * min(times[1:]) / count
        print(outputs, name, f"{rows[outputs][name]:.1f} µs", flush=True)
    file = options.out / f"growth-outputs-{machine['platform']}.json"
    file.write_text(json.dumps({"machine": machine, "rows": list(rows.values())}, indent=1) + "\n")


if __name__ == "__main__":
    main()

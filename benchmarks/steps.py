"""Time per step of SCA, with each solver, over optax Adam's: both in compiled loops, interleaved in one process.

python -m benchmarks.steps [--cases NAME ...] [--repeats 9] [--out DIR]
"""

import argparse
import dataclasses
import itertools
import json
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import scax
from benchmarks.runs import Given, timed
from scax.training.method import check_method


@dataclasses.dataclass(frozen=True)
class Case:
    """A network, its batch size and loss; `target` is the ratio to Adam's step aimed at, per platform."""

    name: str
    widths: tuple[int, ...]
    batch: int
    loss: str = "squared"
    output: str = "linear"
    solvers: tuple[str, ...] = ("auto", "structured")
    target: dict[str, float] = dataclasses.field(default_factory=dict)

    def build(self):
        """(problem, params, x, y) with generated data."""
        rng = np.random.default_rng(0)
        rows = 2048
        if self.name in CNNS:
            apply, params, shape = cnn(rng, *CNNS[self.name])
            outputs = 10
        else:
            net = scax.MLP(self.widths, output=self.output)
            apply, params, shape = net.apply, net.init(jax.random.key(0)), self.widths[:1]
            outputs = self.widths[-1]
        x = jnp.asarray(rng.uniform(-0.5, 0.5, size=(rows, *shape)), jnp.float32)
        score = np.asarray(x).reshape(rows, -1) @ rng.normal(size=(int(np.prod(shape)), outputs))
        if self.loss == "softmax":
            loss, y = scax.Softmax(), jnp.asarray(rng.integers(0, outputs, rows))
        elif self.loss == "logistic":
            loss, y = scax.Logistic(), jnp.asarray(score > 0, jnp.float32)
        else:
            loss, y = scax.Squared(), jnp.asarray(0.9 * np.tanh(score), jnp.float32)
        return scax.Problem(apply, loss, scax.L2(1e-3)), params, x, y


#: Side of the images, and channels: of the images, and behind each 3×3 convolution.
CNNS = {"digits CNN": (8, (1, 8, 16)), "CIFAR-sized CNN": (32, (3, 16, 32, 64))}


def cnn(rng, side: int, channels: tuple[int, ...]):
    """3×3 convolutions, a 2×2 pooling after each, one dense layer: images to 10 classes."""

    def apply(params, x):
        for layer in params["conv"]:
            x = jax.lax.conv_general_dilated(
                x, layer["weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x + layer["bias"])
            n, h, w, c = x.shape
            x = x.reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))
        return x.reshape(x.shape[0], -1) @ params["dense"]["weight"] + params["dense"]["bias"]

    def draw(*shape):
        fan = np.prod(shape[:-1])
        return jnp.asarray(rng.normal(size=shape) / np.sqrt(fan), jnp.float32)

    conv = [{"weight": draw(3, 3, a, b), "bias": jnp.zeros(b)} for a, b in itertools.pairwise(channels)]
    last = channels[-1] * (side // 2 ** len(conv)) ** 2
    return apply, {"conv": conv, "dense": {"weight": draw(last, 10), "bias": jnp.zeros(10)}}, (side, side, channels[0])


SMALL = ("auto", "structured", "sample-space", "weight-space", "cg")
CASES = [
    Case("CASP 9/10/6/1", (9, 10, 6, 1), 20, output="tanh", solvers=SMALL, target={"cpu": 1.2}),
    Case("Parkinsons 19/15/5/1", (19, 15, 5, 1), 20, output="tanh"),
    Case("SkillCraft1 18/15/10/1", (18, 15, 10, 1), 20, output="tanh"),
    Case("Wine 11/10/4/1", (11, 10, 4, 1), 20, output="tanh"),
    Case(
        "SUSY 18/100/100/1",
        (18, 100, 100, 1),
        50,
        solvers=("auto", "structured", "sample-space", "cg"),
        target={"cpu": 1.5, "gpu": 1.5},
    ),
    Case("SUSY 18/100/100/1 logistic", (18, 100, 100, 1), 50, loss="logistic", target={"cpu": 3.0, "gpu": 3.0}),
    Case(
        "784/300/100/10 softmax",
        (784, 300, 100, 10),
        64,
        loss="softmax",
        solvers=("auto",),
        target={"cpu": 4.0, "gpu": 3.5},
    ),
    Case(
        "784/300/100/1000 softmax",
        (784, 300, 100, 1000),
        64,
        loss="softmax",
        solvers=("auto",),
        target={"cpu": 5.0, "gpu": 5.0},
    ),
    Case("12/128/128/300", (12, 128, 128, 300), 64, solvers=("auto",), target={"cpu": 5.0, "gpu": 5.0}),
    Case("digits CNN", (), 64, loss="softmax", solvers=("auto",), target={"cpu": 6.0, "gpu": 6.0}),
    Case("CIFAR-sized CNN", (), 128, loss="softmax", solvers=("auto",), target={"cpu": 6.0, "gpu": 6.0}),
    Case("10M weights", (1000, 2000, 2000, 2000, 1), 64, solvers=("auto",), target={"gpu": 2.0}),
]


def looped(method, params, x, y, batch: int, before: int = 0) -> Callable[[int], tuple[float, float]]:
    """A function that takes some steps in one compiled loop, those after the first `before` of a training, and gives
    (wall, processor) seconds per step."""
    # the rows of each step, drawn beforehand: what is timed is gathering them and stepping
    order = jax.random.randint(jax.random.key(1), (1024, batch), 0, x.shape[0])
    return timed(check_method(method), params, Given(scax.Batch(x, y), order), before)


def measure(case: Case, repeats: int, seconds: float) -> dict:
    """Medians of the ratios to Adam over interleaved repeats."""
    problem, params, x, y = case.build()
    methods = {"adam": scax.baseline(optax.adam(1e-3), problem)}
    remembers = scax.SCA(problem).init(params).rules.memory is not None
    for name in case.solvers:  # solvers are compared without a memory of curvature, `auto` is the default
        methods[name] = scax.SCA(problem) if name == "auto" else scax.SCA(problem, solver=name, metric=None)
    if remembers:
        methods["auto, metric=None"] = scax.SCA(problem, metric=None)
    methods["auto, no acceptance"] = scax.SCA(problem, acceptance=False)
    loops = {name: looped(method, params, x, y, case.batch) for name, method in methods.items()}
    counts = {}
    for name, loop in loops.items():
        each = loop(3)[0]
        counts[name] = int(min(max(seconds / each, 3), 20000))
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in loops}
    for _ in range(repeats):
        for name, loop in loops.items():
            times[name].append(loop(counts[name]))
    rows = {}
    for name, pairs in times.items():
        ratio = [a[0] / b[0] for a, b in zip(pairs, times["adam"], strict=True)]
        cpu = [a[1] / b[1] for a, b in zip(pairs, times["adam"], strict=True)]
        rows[name] = {
            "microseconds": 1e6 * statistics.median(p[0] for p in pairs),
            "ratio": statistics.median(ratio),
            "ratio_low": min(ratio),
            "ratio_high": max(ratio),
            "processor_ratio": statistics.median(cpu),
        }
    weights = sum(leaf.size for leaf in jax.tree.leaves(params))
    said = scax.SCA(problem).explain(params, x[: case.batch]).splitlines()
    chosen = next(line for line in said if line.startswith("solver"))
    return {"case": case.name, "batch": case.batch, "weights": weights, "chosen": chosen, "methods": rows}


def markdown(results: list[dict], machine: dict) -> str:
    """The table, with the targets beside it."""
    targets = {case.name: case.target.get(machine["platform"]) for case in CASES}
    lines = [
        "| network | weights | L | Adam, µs | solver | step / Adam's (wall) | range | (processor) | target |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        adam = result["methods"]["adam"]["microseconds"]
        for name, row in result["methods"].items():
            if name == "adam":
                continue
            target = targets.get(result["case"]) if name == "auto" else None
            verdict = "" if target is None else f"≤ {target} {'met' if row['ratio'] <= target else 'missed'}"
            lines.append(
                f"| {result['case']} | {result['weights']:,} | {result['batch']} | {adam:.1f} | {name} | "
                f"{row['ratio']:.2f} | {row['ratio_low']:.2f}–{row['ratio_high']:.2f} | "
                f"{row['processor_ratio']:.2f} | {verdict} |"
            )
    return "\n".join(lines)


def printable(word: str) -> str:
    """A word of a command as a results file may show it: without the folders of this machine."""
    return "DIR" if Path(word).is_absolute() else shlex.quote(word)


def describe_machine() -> dict:
    """What a number must be read with."""
    device = jax.devices()[0]
    return {
        "platform": device.platform,
        "device": device.device_kind,
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "optax": optax.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "command": f"python -m benchmarks.steps {' '.join(map(printable, sys.argv[1:]))}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", help="substrings of case names; all by default")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2, help="per repeat and method")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    chosen = [c for c in CASES if not options.cases or any(part in c.name for part in options.cases)]
    machine, results = describe_machine(), []
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.out / f"steps-{machine['platform']}"
    for case in chosen:
        results.append(measure(case, options.repeats, options.seconds))
        table = markdown(results, machine)
        print(markdown(results[-1:], machine), flush=True)
        name.with_suffix(".json").write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
        name.with_suffix(".md").write_text(table + "\n")
    print(f"written: {name}.json, {name}.md")


if __name__ == "__main__":
    main()

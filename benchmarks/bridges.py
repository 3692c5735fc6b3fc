"""Time per step of SCA on a bridged network over the same network as scax.MLP: one process, interleaved.

python -m benchmarks.bridges [--repeats 61] [--seconds 0.03] [--write]

The aim is judged by processor time: these steps run in one thread, where it is the wall time of a quiet machine, and
other programs on the machine do not count. `--write` keeps the results and fills the table of
docs/measurements/speed.md.
"""

import argparse
import itertools
import json
import platform
import statistics
import sys

import jax
import jax.numpy as jnp
import numpy as np

import scax
from benchmarks import pages
from benchmarks.steps import looped

CASES = {"9/10/6/1, batch 20": ((9, 10, 6, 1), 20), "18/100/100/1, batch 50": ((18, 100, 100, 1), 50)}
AIM = 1.10


def nnx(widths):
    from flax import nnx as flax

    class Net(flax.Module):
        def __init__(self, rngs):
            self.layers = flax.List([flax.Linear(a, b, rngs=rngs) for a, b in itertools.pairwise(widths)])

        def __call__(self, x):
            for layer in self.layers[:-1]:
                x = jnp.tanh(layer(x))
            return self.layers[-1](x)

    return scax.from_flax(Net(flax.Rngs(0)))


def linen(widths):
    from flax import linen as flax

    class Net(flax.Module):
        @flax.compact
        def __call__(self, x):
            for width in widths[1:-1]:
                x = jnp.tanh(flax.Dense(width)(x))
            return flax.Dense(widths[-1])(x)

    return scax.from_flax(Net(), Net().init(jax.random.key(0), jnp.ones((1, widths[0]))))


def equinox(widths):
    import equinox as eqx

    keys = jax.random.split(jax.random.key(0), len(widths))
    layers = [eqx.nn.Linear(a, b, key=k) for a, b, k in zip(widths[:-1], widths[1:], keys, strict=False)]
    parts = [part for layer in layers for part in (layer, eqx.nn.Lambda(jnp.tanh))][:-1]
    return scax.from_equinox(eqx.nn.Sequential(parts))


def torch(widths):
    from torch import nn

    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
    return scax.from_torch(nn.Sequential(*[part for layer in layers for part in (layer, nn.Tanh())][:-1]))


def measure(widths, batch: int, repeats: int, seconds: float) -> dict:
    """Median over repeats of the ratio to scax.MLP's step, and the MLP beside itself as a measure of the noise."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.uniform(-0.5, 0.5, size=(2048, widths[0])), jnp.float32)
    y = jnp.asarray(np.tanh(np.asarray(x) @ rng.normal(size=widths[0])), jnp.float32)[:, None]
    net = scax.MLP(widths)
    networks = {"scax.MLP": (net.apply, net.init(jax.random.key(0)))}
    networks["scax.MLP again"] = networks["scax.MLP"]
    for build in (nnx, linen, equinox, torch):
        bridge = build(widths)
        networks[build.__name__] = bridge.apply, bridge.params
    loops = {
        name: looped(scax.SCA(scax.Problem(apply, scax.Squared(), scax.L2(1e-3))), params, x, y, batch)
        for name, (apply, params) in networks.items()
    }
    count = int(max(seconds / loops["scax.MLP"](20)[0], 3))
    times = {name: [] for name in loops}
    for _ in range(repeats):
        for name, loop in loops.items():
            times[name].append(loop(count))
    rows = {}
    for name, found in times.items():
        pairs = list(zip(found, times["scax.MLP"], strict=True))
        rows[name] = {
            "microseconds": 1e6 * statistics.median(wall for wall, _ in found),
            "ratio": statistics.median(a[0] / b[0] for a, b in pairs),
            "processor_ratio": statistics.median(a[1] / b[1] for a, b in pairs),
            "ratio_of_least": min(found)[0] / min(times["scax.MLP"])[0],
        }
    return rows


def table(results: dict) -> str:
    """The results as Markdown: processor time over scax.MLP's, wall time in brackets."""
    cases = results["cases"]
    lines = [f"| | {' | '.join(cases)} |", "|---" * (len(cases) + 1) + "|"]
    for name in next(iter(cases.values())):
        cells = [f"{found[name]['processor_ratio']:.2f} ({found[name]['ratio']:.2f})" for found in cases.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=61)
    parser.add_argument("--seconds", type=float, default=0.03)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    results = {"jax": jax.__version__, "machine": platform.machine(), "aim": AIM, "cases": {}}
    missed = []
    for name, (widths, batch) in CASES.items():
        results["cases"][name] = found = measure(widths, batch, options.repeats, options.seconds)
        print(name)
        for network, row in found.items():
            over = row["processor_ratio"] > AIM
            missed += [f"{name}: {network}"] if over else []
            print(
                f"  {network:15} {row['microseconds']:8.1f} µs/step   {row['ratio']:5.2f} × scax.MLP "
                f"(processor time {row['processor_ratio']:.2f}, least times {row['ratio_of_least']:.2f})"
                f"{'   MISSED' if over else ''}"
            )
    print(f"aim {AIM}: {'met' if not missed else 'missed by ' + ', '.join(missed)}")
    if options.write:
        (pages.DOCS / "results" / "bridges.json").write_text(json.dumps(results, indent=1) + "\n")
        pages.write_tables(pages.DOCS / "measurements" / "speed.md", {"bridges": table(results)})
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()

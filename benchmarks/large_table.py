"""A table larger than memory: generated, converted, trained on; time and peak memory of each part.

python -m benchmarks.large_table [--rows 5000000] [--columns 19] [--gzip]
"""

import argparse
import gzip
import resource
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import polars as pl

import scax
from scax.tables import Preprocess, Split, Stream, convert, open_table
from scax.training import engine
from scax.training.feed import CHUNK, Shards


def generate(path: Path, rows: int, columns: int, packed: bool) -> None:
    """A class that depends on three of many numbers, as CSV."""
    rng = np.random.default_rng(0)
    with gzip.open(path, "wb", compresslevel=1) if packed else open(path, "wb") as file:
        for start in range(0, rows, 100_000):
            n = min(100_000, rows - start)
            x = rng.normal(size=(n, columns - 1)).astype(np.float32)
            y = (x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=n) > 0).astype(np.int32)
            frame = pl.DataFrame({"y": y, **{f"x{j}": x[:, j] for j in range(columns - 1)}})
            file.write(frame.write_csv(include_header=start == 0, float_precision=6).encode())


def peak() -> str:
    return f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--columns", type=int, default=19)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--limit", type=float, default=1.5, help="GB of memory that must suffice")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "table.csv"
        generate(source, options.rows, options.columns, options.gzip)
        print(f"table: {options.rows:,} rows, {source.stat().st_size / 2**20:.0f} MB; {peak()} (generating it)")
        began, split = time.perf_counter(), Split(0.1)
        table = open_table(source)
        pre = Preprocess.fit(table, "y", split=split)
        print(f"first pass, schema and statistics: {time.perf_counter() - began:.1f} s; {peak()}")
        began = time.perf_counter()
        shards = convert(table, pre, Path(folder) / "shards", split=split)
        print(f"second pass, {len(shards.sizes)} shards: {time.perf_counter() - began:.1f} s; {peak()}")
        train(shards, pre)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return 0 if used < options.limit else 1


class Waited:
    """A feed, and the seconds that the training waits for it."""

    def __init__(self, feed):
        self.feed, self.seconds = feed, 0.0

    def start(self, key):
        return self.feed.start(key)

    def load(self, position, steps):
        began = time.perf_counter()
        found = self.feed.load(position, steps)
        self.seconds += time.perf_counter() - began
        return found

    def sample(self, count):
        return self.feed.sample(count)


def train(shards, pre, batch: int = 100) -> None:
    """One epoch of SCA from the stream; how long the training waits for the reading."""
    net = scax.MLP((pre.schema.width, 10, 1))
    sca = scax.SCA(scax.Problem(net.apply, scax.Logistic(), scax.L2(1e-4)))
    feed, steps, run = Waited(Shards(Stream(shards), batch)), shards.rows // batch, engine.run(sca)
    carry = engine.start(sca, net.init(jax.random.key(0)), feed, jax.random.key(0))
    carry = engine.prepare(run, carry, feed)
    began, feed.seconds = time.perf_counter(), 0.0
    for part in engine.drive(run, carry, feed, [steps]):
        carry = part.carry
    spent, rows = time.perf_counter() - began, steps * batch
    x, y = shards.held_out(100_000)
    scored = np.mean((np.asarray(net.apply(sca.solution(carry.state), x))[:, 0] > 0) == (y > 0))
    told = f"one epoch of training: {spent:.1f} s ({rows / spent:,.0f} rows/s), {feed.seconds:.2f} s of it waiting"
    print(f"{told}; {peak()}")
    print(f"held-out accuracy {scored:.3f}")
    began, stream = time.perf_counter(), Stream(shards)
    for _ in range(rows // (CHUNK * batch)):
        stream.chunk(CHUNK, batch)
    print(f"reading alone: {rows / (time.perf_counter() - began):,.0f} rows/s")


if __name__ == "__main__":
    sys.exit(main())

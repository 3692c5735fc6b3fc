"""Peak memory of reading tables that were made to take a lot of it: python -m benchmarks.reading_memory

Each table is surveyed and read as `scax train` reads it, in a process of its own. Passed if each is read or refused
with a sentence, and no process takes more than 1.5 GB. `--size 0.1` makes all tables a tenth as large.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

LIMIT = 1536 << 20


def gzip_bomb(folder: Path, size: float) -> Path:
    """A few megabytes that expand more than a hundredfold."""
    path = folder / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"a,b,c,d,e,f,g,h,i,j,k,y\n")
        row = "{0},{1},1{0},2{0},3{0},4{0},5{0},6{0},7{0},8{0},{1},{0}.5\n"
        lines = "".join(row.format(i % 7, "uvw"[i % 3]) for i in range(100_000)).encode()
        for _ in range(max(1, int(160 * size))):
            file.write(lines)
    return path


def many_levels(folder: Path, size: float) -> Path:
    """Two bytes in the file for 100 numbers in memory."""
    path = folder / "levels.csv"
    rng, symbols = np.random.default_rng(0), [f"l{i}" for i in range(90)]
    with open(path, "w") as file:
        file.write("a,b,c,y\n")
        for _ in range(max(1, int(30 * size))):
            drawn = rng.integers(0, 90, (50_000, 3))
            file.writelines(f"{symbols[a]},{symbols[b]},{symbols[c]},{a + b / 7:.3f}\n" for a, b, c in drawn)
    return path


def columns_of_numbers(folder: Path, size: float) -> Path:
    """200,000 columns."""
    return _wide(folder / "wide.csv", int(200_000 * size), 100, lambda rng, n: rng.integers(0, 1000, n).astype(str))


def columns_of_texts(folder: Path, size: float) -> Path:
    """20,000 columns of texts that are all different."""
    draw = lambda rng, n: np.char.add("t", rng.integers(0, 10**9, n).astype(str))
    return _wide(folder / "texts.csv", int(20_000 * size), 300, draw)


def _wide(path: Path, columns: int, rows: int, draw: Callable) -> Path:
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write(",".join(f"c{i}" for i in range(columns - 1)) + ",y\n")
        for _ in range(rows):
            file.write(",".join(draw(rng, columns - 1).tolist()) + f",{rng.normal():.4f}\n")
    return path


def long_header(folder: Path, size: float) -> Path:
    """60 MB of names."""
    path = folder / "header.csv"
    path.write_text(",".join(f"c{i}" for i in range(int(7_500_000 * size))) + "\n")
    return path


def endless_header(folder: Path, size: float) -> Path:
    path = folder / "endless.csv"
    path.write_bytes(b"x" * int((200 << 20) * size))
    return path


def long_texts(folder: Path, size: float) -> Path:
    """Rows of 20 MB, in quotes."""
    path = folder / "long.csv"
    with open(path, "w") as file:
        file.write("a,y\n")
        file.writelines(f'"{"word " * int(4_000_000 * size)}{i}",{i}.5\n' for i in range(12))
    return path


def repeated_names(folder: Path, size: float) -> Path:
    path = folder / "names.csv"
    names = [f"c{i}" for i in range(int(200_000 * size))]
    path.write_text(",".join([*names, names[-1]]) + "\n")
    return path


def row_group(folder: Path, size: float) -> Path:
    """A small Parquet file whose one row group is huge."""
    import polars

    path, rows = folder / "group.parquet", int(150_000_000 * size)
    column = lambda n: (np.arange(rows, dtype=np.int32) % n).astype(np.int8)
    frame = polars.DataFrame({"a": column(5), "y": column(7)})
    frame.write_parquet(path, row_group_size=rows)
    return path


TABLES: dict[str, Callable[[Path, float], Path]] = {
    f.__name__: f
    for f in (
        gzip_bomb, many_levels, columns_of_numbers, columns_of_texts, long_header, endless_header, long_texts,
        repeated_names, row_group,
    )
}  # fmt: skip


def read(path: Path, folder: Path) -> dict:
    """Survey and read as a training does; what came of it."""
    from scax.runs import reading
    from scax.runs.config import TrainConfig
    from scax.tables import TableError

    began = time.process_time()
    config = TrainConfig(str(path), "y")
    try:
        data = reading.read(config, *reading.survey(config), folder)
        outcome = f"{data.rows:,} rows of {data.preprocess.schema.width:,} inputs, {type(data.feed).__name__}"
    except TableError as error:
        outcome = f"refused: {str(error)[:100]}"
    # not getrusage, which counts what the parent had when it started this process
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return {"outcome": outcome, "peak": peak, "seconds": time.process_time() - began}


def run(names: list[str], size: float) -> Iterator[tuple[str, dict]]:
    """(name, what came of it) of each table."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path = TABLES[name](Path(folder), size)
            # in another process: making a table takes memory, too, which a child would be charged with
            command = [sys.executable, "-m", "benchmarks.reading_memory", "--read", str(path)]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode:
                found = {"outcome": f"died ({ended.returncode}): {ended.stderr[-300:]}", "peak": 1 << 62, "seconds": 0}
            else:
                found = json.loads(ended.stdout)
        yield name, found


def main() -> int:
    parser = argparse.ArgumentParser(description="Peak memory of reading tables made to take a lot of it.")
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read(options.read, options.read.parent)))
        return 0
    worst = 0
    for name, found in run(options.only, options.size):
        worst = max(worst, found["peak"])
        print(f"{name}: {found['peak'] >> 20:,} MB, {found['seconds']:.1f} s; {found['outcome']}", flush=True)
    print(f"largest peak {worst >> 20:,} MB, limit {LIMIT >> 20:,} MB")
    return 1 if worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())

"""How few rows find the strength of the penalty: by the evidence, or by rows held out; regressions.

python -m benchmarks.few_rows [--data FOLDER] [--rows 100 300 800] [--seeds 2]

The tables of `benchmarks.tables` with so many rows to train on, up to 4,000 others to test on, estimators at their
defaults; "held out" is alpha="held_out". Squared error over the variance of the target, processor seconds with
compilation. Results go to docs/results/few-rows.json, the table to docs/measurements/tables.md.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.pages import DOCS, table, write_rows, write_tables
from benchmarks.tables import Table, tables
from scax.estimators import SCARegressor

MOST_TESTED = 4000


def measure(given: Table, rows: int, seed: int) -> dict[str, float]:
    """Error and seconds of both ways on one split."""
    order, x = np.random.default_rng(seed + 100).permutation(len(given.y)), np.nan_to_num(given.x)
    train, test = order[:rows], order[rows : rows + MOST_TESTED]
    found = {}
    for name, alpha in (("held out", "held_out"), ("evidence", "evidence")):
        began = time.process_time()
        model = SCARegressor(random_state=seed, alpha=alpha).fit(x[train], given.y[train])
        found[f"{name} seconds"] = time.process_time() - began
        found[name] = float(np.mean((model.predict(x[test]) - given.y[test]) ** 2) / np.var(given.y[test]))
    return found


def page(results: list[dict]) -> str:
    """The error of the evidence over that of rows held out, by table and rows."""
    counts, names = (list(dict.fromkeys(row[key] for row in results)) for key in ("rows", "table"))

    def mean(values: list[float]) -> str:
        return f"{np.exp(np.mean(np.log(values))):.2f}" if values else ""

    ratios = lambda **where: [
        row["evidence"] / row["held out"] for row in results if all(row[k] == v for k, v in where.items())
    ]
    seconds = [
        f"{np.median([r['evidence seconds'] / r['held out seconds'] for r in results if r['rows'] == n]):.2f}"
        for n in counts
    ]
    body = [[name, *(mean(ratios(rows=n, table=name)) for n in counts)] for name in names]
    body += [["**geometric mean**", *(mean(ratios(rows=n)) for n in counts)], ["**seconds, median**", *seconds]]
    return table(["evidence over rows held out", *(f"{n} rows" for n in counts)], body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the public tables")
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 300, 800])
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    for rows in options.rows:
        for name, make in tables(options.data, 9000).items():
            given = make()
            if given.is_classes or len(given.y) < 1.3 * rows:
                continue
            for seed in range(options.seeds):
                results.append({"rows": rows, "table": name, "seed": seed} | measure(given, rows, seed))
                print(results[-1], flush=True)
    write_rows(DOCS / "results/few-rows.json", results, "python -m benchmarks.few_rows --data DIR")
    write_tables(DOCS / "measurements/tables.md", {"few rows": page(results)})


if __name__ == "__main__":
    main()

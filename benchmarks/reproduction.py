"""Write docs/measurements/reproduction.md, its figures and the table of index.md beside it from `scax reproduce`.

scax reproduce all --repeats 100 --iterations 500,2000 --out runs/paper
python -m benchmarks.reproduction runs/paper/results.json    # adopt these results, part by part, and write
python -m benchmarks.reproduction                            # write once more from docs/results/reproduction.json
"""

import argparse
import json
import re
from pathlib import Path

from scax.reproduce.figures import figures
from scax.reproduce.page import page
from scax.reproduce.page_table2 import readme_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results" / "reproduction.json"
START, END = "<!-- paper-table -->", "<!-- /paper-table -->"


def image(name: str, alt: str) -> str:
    return f"![{alt}](../images/paper-{name}.svg)"


def with_table(text: str, results: dict) -> str:
    """The page's text with its table between the markers."""
    return re.sub(f"{START}.*?{END}", lambda _: f"{START}\n{readme_table(results)}\n{END}", text, flags=re.S)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.reproduction", description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="*", type=Path, help="results.json files whose parts are adopted")
    args = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for path in args.results:
        results |= json.loads(path.read_text())
    if args.results:
        RESULTS.write_text(json.dumps(results, separators=(",", ":"), ensure_ascii=False) + "\n")
    for name, svg in figures(results):
        (ROOT / "docs" / "images" / f"paper-{name}.svg").write_text(svg)
    (ROOT / "docs" / "measurements" / "reproduction.md").write_text(page(results, image))
    summary = ROOT / "docs" / "measurements" / "index.md"
    summary.write_text(with_table(summary.read_text(), results))


if __name__ == "__main__":
    main()

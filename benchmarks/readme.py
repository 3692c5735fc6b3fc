"""Measure what the first page shows: its picture, and the table of docs/measurements/index.md.

    python -m benchmarks.readme

Runs `scax compare`, then writes docs/images/compare-diabetes.svg and the table between the markers there.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import pages
from scax.report.picture import picture
from scax.report.summary import NEAR, places, rows

ROOT = Path(__file__).resolve().parents[1]


def table(results: dict) -> str:
    """The final table in Markdown."""
    found = rows(results)
    digits = places(r.objective.mean for r in found), places(r.score.mean for r in found)
    out = [
        f"| | objective | test RMSE | iterations to best + {NEAR:.0%} | iterations to Adam's end | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for row in found:
        values = (
            f"**{row.label}**" if row.name == "sca" else row.label,
            f"{row.objective.mean:.{digits[0]}f} ± {row.objective.half:.2g}",
            f"{row.score.mean:.{digits[1]}f} ± {row.score.half:.2g}",
            "–" if row.near is None else f"{row.near:,}",
            "–" if row.iterations is None else f"{row.iterations:,}",
            f"{row.seconds:.3f}",
        )
        out.append(f"| {' | '.join(values)} |")
    return "\n".join(out)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        subprocess.run([sys.executable, "-m", "scax", "compare", "--out", run], check=True)
        results = json.loads((run / "results.json").read_text())
    (ROOT / "docs/images/compare-diabetes.svg").write_text(picture(results))
    pages.write_tables(ROOT / "docs/measurements/index.md", {"compare": table(results)})


if __name__ == "__main__":
    main()

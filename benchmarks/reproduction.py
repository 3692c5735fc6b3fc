"""Write docs/measurements/reproduction.md, its figures and the table of index.md beside it from `scax reproduce`.

scax reproduce all --repeats 100 --iterations 500,2000 --out runs/paper
python -m benchmarks.reproduction runs/paper/results.json    # adopt these results, part by part, and write
python -m benchmarks.reproduction                            # write once more from docs/results/reproduction.json
python -m benchmarks.reproduction --measure PART --data-dir DIR --out FILE [--repeats 100]

The last computes SCA's own lines anew, without the command line and its packages: of `table2`, or of a problem of SUSY,
`paper` or `cross-entropy`. The baselines in docs/results/reproduction.json stay: SCA's defaults do not touch them.
"""

import argparse
import json
from pathlib import Path

from benchmarks import pages
from scax.reproduce.page import page
from scax.reproduce.page_table2 import readme_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results" / "reproduction.json"


def image(name: str, alt: str) -> str:
    return f"![{alt}](../images/paper-{name}.svg)"


def with_table(text: str, results: dict) -> str:
    """The page's text with its table between the markers."""
    return pages.place(text, {"paper": readme_table(results)})


def measure(part: str, folder: Path, repeats: int, out: Path, blocks: list[str] | None = None) -> None:
    """Run a part and write it to a file that can be adopted; of SUSY these numbers of blocks, or all."""
    from scax.reproduce import tables
    from scax.reproduce.configs import SUSY, SUSY_BLOCKS, SUSY_ITERATIONS, TABLE2
    from scax.reproduce.regression import regression
    from scax.reproduce.susy import susy
    from scax.storage.run_folder import environment

    about = {"command": f"python -m benchmarks.reproduction --measure {part}", "environment": environment()}
    if part == "table2":
        rows = [tables.load(row, folder) for row in TABLE2]
        results: dict = {part: {}}
        for steps in (2000, 500):
            results[part][str(steps)] = about | regression(
                TABLE2, rows, repeats=repeats, steps=steps, seed=0, baselines=()
            )
            out.write_text(json.dumps(results) + "\n")
        return
    (config,) = (c for c in SUSY if c.label == part)
    few = max(1, repeats * 8 // 100)
    show = lambda *progress: print(*progress, flush=True)
    some = {name: SUSY_BLOCKS[name] for name in blocks or SUSY_BLOCKS}
    options = {"repeats": few, "steps": SUSY_ITERATIONS, "seed": 0, "baselines": (), "configs": [config]}
    study = susy(*tables.susy(folder), blocks=some, tick=show, **options)
    out.write_text(json.dumps({"susy": study | about}) + "\n")


def adopt(results: dict, new: dict) -> dict:
    """Results with new parts in place of theirs; where only SCA was run, its lines alone, which a note says."""
    pairs = [(results["table2"][steps], study, "rows") for steps, study in new.get("table2", {}).items()]
    if "susy" in new:
        pairs.append((results["susy"], new["susy"], "problems"))
    if any("adam-tuned" in entry["methods"] for _, study, part in pairs for entry in study[part].values()):
        return results | new
    for old, study, part in pairs:
        for label, entry in study[part].items():
            old[part][label]["methods"] |= entry["methods"]
        old["note"] = old.get("note", f"SCA's lines by `{study['command']}`")
    return results | {name: part for name, part in new.items() if name not in ("table2", "susy")}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.reproduction", description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="*", type=Path, help="results.json files whose parts are adopted")
    parser.add_argument("--measure", choices=("table2", "paper", "cross-entropy"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--blocks", nargs="+", help="of SUSY: 1 4 16 64 4-random 16-random 64-random")
    parser.add_argument("--out", type=Path, default=Path("results.json"))
    args = parser.parse_args()
    if args.measure:
        return measure(args.measure, args.data_dir, args.repeats, args.out, args.blocks)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for path in args.results:
        results = adopt(results, json.loads(path.read_text()))
    if args.results:
        RESULTS.write_text(json.dumps(results, separators=(",", ":"), ensure_ascii=False) + "\n")
    from scax.reproduce.figures import figures  # which needs matplotlib

    for name, svg in figures(results):
        (ROOT / "docs" / "images" / f"paper-{name}.svg").write_text(svg)
    (ROOT / "docs" / "measurements" / "reproduction.md").write_text(page(results, image))
    summary = ROOT / "docs" / "measurements" / "index.md"
    summary.write_text(with_table(summary.read_text(), results))


if __name__ == "__main__":
    main()

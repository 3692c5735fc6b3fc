"""Build the manual: python tools/manual.py [--serve]

Puts the pages together under build/manual, then has zensical make build/site of them (mkdocs.yml), strictly: a broken
link or anchor, or a page that the navigation does not name, ends the build. Pages that are made here: the scripts of
docs/ (the tutorials), executed; CONTRIBUTING, CHANGELOG, SECURITY, CODE_OF_CONDUCT and MATHS; the scripts of examples/;
the help of the command line. `--serve` shows the manual, and puts it together again when a page changes.
"""

import hashlib
import json
import multiprocessing
import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import reference
import run_tutorial

ROOT = Path(__file__).resolve().parents[1]
DOCS, PAGES, CACHE = ROOT / "docs", ROOT / "build" / "manual", ROOT / "build" / "tutorials"
#: documents of the repository's root → their pages
DOCUMENTS = {
    "CONTRIBUTING.md": "contributing/index.md",
    "CHANGELOG.md": "contributing/changelog.md",
    "SECURITY.md": "contributing/security.md",
    "CODE_OF_CONDUCT.md": "contributing/conduct.md",
    "MATHS.md": "how-it-works/symbols.md",
}
EXAMPLES = "guides/examples.md"
COMMANDS = ["train", "predict", "evaluate", "report", "resume", "compare", "datasets", "reproduce", "launch"]
#: What most scripts import. They are forked from a process that has imported these packages, and has not used them.
IMPORTED = ["jax.numpy", "optax", "matplotlib.pyplot", "sklearn.datasets", "sklearn.inspection", "sklearn.linear_model"]
#: Small programs take longer to compile than to run: quickly, then, and what one script has compiled the others read.
#: Two scripts run side by side, each with one thread of BLAS.
SURROUNDINGS = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    "JAX_COMPILATION_CACHE_DIR": str(ROOT / "build" / "programs"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "OPENBLAS_NUM_THREADS": "1",
}
DRAFT = bool(os.environ.get("SCAX_DRAFT"))  # shows what older runs of the scripts gave


def assemble() -> None:
    """Every page and file of the site, below PAGES."""
    made = {page: linked((ROOT / name).read_text(encoding="utf-8"), page, name) for name, page in DOCUMENTS.items()}
    for path in DOCS.rglob("*.md"):
        name = path.relative_to(DOCS).as_posix()
        made[name] = linked(path.read_text(encoding="utf-8"), name, f"docs/{name}")
    made[EXAMPLES] = examples()
    made["reference/command-line.md"] = commands()
    for script, page in executed(sorted(DOCS.rglob("*.py"))).items():
        made[script.relative_to(DOCS).with_suffix(".md").as_posix()] = page
        if script.parent.name == "tutorials":
            made[script.relative_to(DOCS).with_suffix(".ipynb").as_posix()] = notebook(script)
    files = {p.relative_to(DOCS).as_posix(): p for p in DOCS.rglob("*") if p.is_file() and p.suffix != ".md"}
    for path in list(PAGES.rglob("*")):
        if path.is_file() and path.relative_to(PAGES).as_posix() not in made | files:
            path.unlink()
    for name, text in made.items():
        place = PAGES / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")
    for name, path in files.items():
        place = PAGES / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)


_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def linked(text: str, here: str, source: str) -> str:
    """Links written for the repository lead to the pages that its files have become; to files without one, nowhere."""
    parts = re.split(r"(^```.*?^```[^\n]*$|`[^`\n]+`(?!\]))", text, flags=re.M | re.S)
    return "".join(p if i % 2 else _LINK.sub(lambda m: _link(m, here, source), p) for i, p in enumerate(parts))


def _link(match, here: str, source: str) -> str:
    mark, label, target = match.groups()
    if target.startswith(("http:", "https:", "mailto:", "#")):
        return match[0]
    path, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if path.startswith("docs/"):
        place = path.removeprefix("docs/")
    elif path in DOCUMENTS:
        place = DOCUMENTS[path]
    elif path == "README.md":
        place = "index.md"
    elif path.startswith("examples"):
        place, anchor = EXAMPLES, posixpath.basename(path).removesuffix(".py") if path.endswith(".py") else ""
    else:
        if not (ROOT / path).exists():
            sys.exit(f"{source}: {target} leads nowhere")
        return label if label.strip("`") == path else f"{label} (`{path}`)"
    place = posixpath.relpath(place, posixpath.dirname(here) or ".")
    return f"{mark}[{label}]({place}{'#' if anchor else ''}{anchor})"


def examples() -> str:
    out = ["# Examples", "", "Short scripts that run as they stand. Each says at its top what it needs.", ""]
    for path in sorted((ROOT / "examples").glob("*.py")):
        code = path.read_text(encoding="utf-8").rstrip()
        out += [f"## {path.name} {{ #{path.stem} }}", "", "```python", code, "```", ""]
    return "\n".join(out)


def commands() -> str:
    """The help of every command, as a terminal of 100 columns shows it."""
    out = ["# Command line", "", "`scax --help` is the map; `--help` after a command explains its options.", ""]
    for command in ("", *COMMANDS):
        words, env = [*command.split(), "--help"], os.environ | {"COLUMNS": "100", "TERM": "dumb"}
        shown = subprocess.run(
            [sys.executable, "-m", "scax", *words], capture_output=True, text=True, check=True, env=env
        )
        out += [f"## scax {command}".rstrip(), "", "```text", shown.stdout.strip(), "```", ""]
    return "\n".join(out)


def executed(scripts: list[Path]) -> dict[Path, str]:
    """The scripts as pages, with what they print and draw; the examples of the reference run beside them.

    A page is kept in CACHE while neither its script nor the library changes.
    """
    code = b"".join(path.read_bytes() for path in (Path(run_tutorial.__file__), *sorted(ROOT.glob("src/scax/**/*.py"))))
    keys = {script: hashlib.sha256(script.read_bytes() + code).hexdigest() for script in scripts}
    files = {script: CACHE / f"{script.parent.name}-{script.stem}.json" for script in scripts}
    kept = {s: json.loads(file.read_text(encoding="utf-8")) for s, file in files.items() if file.exists()}
    pages = {script: entry["page"] for script, entry in kept.items() if DRAFT or entry["key"] == keys[script]}
    os.environ |= SURROUNDINGS | os.environ
    CACHE.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with ProcessPoolExecutor(2, context, max_tasks_per_child=1) as two:
        examples = None if DRAFT else two.submit(reference.disagreements)
        for script, run in {s: two.submit(execute, s) for s in scripts if s not in pages}.items():
            pages[script] = run.result()
            files[script].write_text(json.dumps({"key": keys[script], "page": pages[script]}), encoding="utf-8")
        if examples is not None and (wrong := examples.result()):
            sys.exit("\n".join(["examples of the reference:", *wrong]))
    return pages


def execute(script: Path) -> str:
    began = time.perf_counter()
    try:
        page = run_tutorial.page(script)
    except Exception as error:
        error.add_note(f"in {script.relative_to(ROOT)}")
        raise
    print(f"{script.relative_to(ROOT)}: {time.perf_counter() - began:.0f} s", flush=True)
    if script.parent.name == "tutorials":
        head, _, rest = page.partition("\n")
        page = f"{head}\n\n<small>[Script]({script.name}) · [Notebook]({script.stem}.ipynb)</small>\n{rest}"
    return linked(page, script.relative_to(DOCS).as_posix(), script.relative_to(ROOT).as_posix())


def notebook(script: Path) -> str:
    """The script as a notebook that has not run."""
    made = []
    for kind, text in run_tutorial.cells(script.read_text(encoding="utf-8")):
        kind = "markdown" if kind == "markdown" else "code"
        cell = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True), "id": f"cell{len(made)}"}
        made.append(cell | ({"outputs": [], "execution_count": None} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps({"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


def zensical(*words: str) -> subprocess.Popen:
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}  # where tools/docstrings.py finds its neighbor
    return subprocess.Popen([sys.executable, "-m", "zensical", *words], cwd=ROOT, env=here)


def main(serve: bool) -> int:
    assemble()
    if not serve:
        shutil.rmtree(ROOT / "build" / "site", ignore_errors=True)
        return zensical("build", "--strict", "--clean").wait()
    shown, watched = zensical("serve"), 0.0
    while shown.poll() is None:
        time.sleep(1)
        newest = max(p.stat().st_mtime for p in (*DOCS.rglob("*"), *(ROOT / name for name in DOCUMENTS)))
        if watched and newest > watched:
            assemble()
        watched = newest
    return shown.returncode


if __name__ == "__main__":
    sys.exit(main("--serve" in sys.argv[1:]))

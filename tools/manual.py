"""Build the manual: python tools/manual.py [--serve]

Puts the pages together under build/manual, then has zensical make build/site of them (mkdocs.yml), strictly: a broken
link or anchor, or a page that the navigation does not name, ends the build. Pages that are made here: the scripts of
docs/ (the tutorials), executed; CONTRIBUTING, CHANGELOG, SECURITY, CODE_OF_CONDUCT and MATHS; the scripts of examples/;
the help of the command line. `--serve` shows the manual, and puts it together again when a page changes.
"""

import hashlib
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from run_tutorial import cells

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
RUNNER = Path(__file__).with_name("run_tutorial.py")


def assemble() -> None:
    """Every page and file of the site, below PAGES."""
    made = {page: linked((ROOT / name).read_text(encoding="utf-8"), page, name) for name, page in DOCUMENTS.items()}
    for path in DOCS.rglob("*.md"):
        name = path.relative_to(DOCS).as_posix()
        made[name] = linked(path.read_text(encoding="utf-8"), name, f"docs/{name}")
    made[EXAMPLES] = examples()
    made["reference/command-line.md"] = commands()
    scripts = sorted(DOCS.rglob("*.py"))
    with ThreadPoolExecutor(2) as two:
        examples_run = None if os.environ.get("SCAX_DRAFT") else two.submit(run_examples)
        for script, page in zip(scripts, two.map(executed, scripts), strict=True):
            made[script.relative_to(DOCS).with_suffix(".md").as_posix()] = page
            if script.parent.name == "tutorials":
                made[script.relative_to(DOCS).with_suffix(".ipynb").as_posix()] = notebook(script)
        if examples_run is not None:
            examples_run.result()
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


def executed(script: Path) -> str:
    """The script as a page, with what it printed and drew; kept while neither it nor the library changes."""
    code = [script, RUNNER, *sorted((ROOT / "src" / "scax").rglob("*.py"))]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()
    kept = CACHE / f"{script.parent.name}-{script.stem}.json"
    found = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    if found and (found["key"] == key or os.environ.get("SCAX_DRAFT")):  # a draft shows what an older run gave
        return found["page"]
    began = time.perf_counter()
    done = subprocess.run([sys.executable, RUNNER, script], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(f"{script.name} fails:\n{done.stderr}")
    print(f"{script.relative_to(ROOT)}: {time.perf_counter() - began:.0f} s", flush=True)
    page = done.stdout
    if script.parent.name == "tutorials":
        head, _, rest = page.partition("\n")
        page = f"{head}\n\n<small>[Script]({script.name}) · [Notebook]({script.stem}.ipynb)</small>\n{rest}"
    page = linked(page, script.relative_to(DOCS).as_posix(), script.relative_to(ROOT).as_posix())
    CACHE.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"key": key, "page": page}), encoding="utf-8")
    return page


def notebook(script: Path) -> str:
    """The script as a notebook that has not run."""
    made = []
    for kind, text in cells(script.read_text(encoding="utf-8")):
        kind = "markdown" if kind == "markdown" else "code"
        cell = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True), "id": f"cell{len(made)}"}
        made.append(cell | ({"outputs": [], "execution_count": None} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps({"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


def run_examples() -> None:
    done = subprocess.run([sys.executable, Path(__file__).with_name("reference.py")], capture_output=True, text=True)
    print(done.stdout.strip(), flush=True)
    if done.returncode:
        sys.exit(f"the examples of the reference:\n{done.stderr}")


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

"""docs/contributing/licenses.md from the metadata of the installed packages: python -m tools.licenses

The rows of packages that are not installed here stay as they are.
"""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "contributing" / "licenses.md"
HEAD = """# Licenses

scax is licensed under the [Apache License 2.0](../../LICENSE). These are the packages that pip installs with it and its
extras, and the licenses that their metadata name; what PyTorch brings depends on the platform. `python -m
tools.licenses` writes this page.

| package | license | comes with |
|---|---|---|
"""


def rows(text: str) -> dict[str, tuple[str, str]]:
    """Package → (license, what it comes with), as the page has them."""
    table = re.findall(r"^\| ([\w.-]+) \| (.*?) \| (.*?) \|$", text, re.M)
    return {name: (license, source) for name, license, source in table if name != "package"}


def license_of(name: str) -> str:
    """The license of an installed package, in one line: its expression, its classifiers, or its own words."""
    about = metadata.metadata(name)
    if expression := about.get("License-Expression"):
        return expression
    classifiers = [line.split(" :: ")[-1] for line in about.get_all("Classifier", []) if line.startswith("License")]
    named = [line for line in classifiers if line != "OSI Approved"]
    own = (about.get("License") or "").strip().partition("\n")[0]
    return ", ".join(named) or own or "unknown"


def collect(project: dict) -> dict[str, tuple[str, str]]:
    """The declared packages of the core and the extras that are installed, and those that they bring."""
    found: dict[str, tuple[str, str]] = {}
    ahead = [(line, "scax") for line in project["dependencies"]]
    for extra, lines in project["optional-dependencies"].items():
        ahead += [(line, f"scax[{extra}]") for line in lines if extra != "dev" and not line.startswith("scax[")]
    seen: set[tuple[str, frozenset[str]]] = set()
    while ahead:
        line, source = ahead.pop(0)
        wanted = Requirement(line)
        name = canonicalize_name(wanted.name)
        if (name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, frozenset(wanted.extras)))
        try:
            title = metadata.metadata(name)["Name"]
            below = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.setdefault(title, (license_of(name), source))
        for inner in below:
            marker = Requirement(inner).marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in wanted.extras | {""}):
                ahead.append((inner, title))
    return found


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = rows(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    found = collect(project)
    declared = {Requirement(line).name for lines in project["optional-dependencies"].values() for line in lines}
    absent = {name for name in known.keys() & declared if name not in found}
    listed = found | {name: row for name, row in known.items() if name in absent or row[1] in absent}
    # what scax asks for first, then what that brings
    order = sorted(listed, key=lambda name: (not listed[name][1].startswith("scax"), name.lower()))
    FILE.write_text(HEAD + "".join(f"| {n} | {listed[n][0]} | {listed[n][1]} |\n" for n in order), encoding="utf-8")
    print(f"{len(listed)} packages: {FILE}")

"""The names of the reference and their examples: python tools/reference.py runs all of them.

An entry is a line `::: scax.NAME` in docs/reference; its example stands in the name's docstring, after
>>>. The lines of docs/reference/index.md run before it.
"""

import doctest
import importlib.util
import inspect
import operator
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md")}
ENTRIES = [name for text in PAGES.values() for name in re.findall(r"^::: scax\.(\S+)$", text, re.M)]
#: examples that need a package which `make docs` does not install
NEEDS = {"from_torch": "torch", "from_flax": "flax", "from_equinox": "equinox", "train_async": "ray"}
NEEDS |= {"federated.client_app": "flwr", "federated.strategy": "flwr"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def scope() -> dict:
    """What examples find there."""
    names: dict = {}
    (code,) = re.findall(r"```python\n(.*?)```", PAGES["index"], re.S)
    exec(code, names)
    return names


def docstring(name: str) -> str:
    import scax

    return inspect.getdoc(operator.attrgetter(name)(scax)) or ""


def example(name: str, names: dict | None = None) -> doctest.DocTest:
    return doctest.DocTestParser().get_doctest(docstring(name), dict(names or {}), name, None, 0)


def is_missing(name: str) -> bool:
    return name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None


def run(name: str, names: dict) -> str:
    """What the example of a name shows against what it says; nothing where they agree."""
    said: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example(name, names), out=said.append)
    return "".join(said)


def disagreements() -> list[str]:
    """What examples show that they do not say."""
    names = scope()
    return [said for name in ENTRIES if not is_missing(name) and (said := run(name, names))]


if __name__ == "__main__":
    wrong = disagreements()
    print("\n".join(wrong), f"{len(ENTRIES)} examples, {len(wrong)} of them wrong", sep="\n")
    sys.exit(len(wrong) > 0)

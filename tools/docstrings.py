"""Docstrings as Markdown: lists whose columns are aligned by spaces, and examples at a prompt.

A griffe extension of mkdocs.yml. In the source a docstring is plain text for `help()`; on a page, lines like

    params      what to deploy
    state       what can be trained on

become a list, and lines that begin with >>> a block of code. Classes made by a decorator of ours, whose constructors
griffe cannot read, get their signature from the class itself.
"""

import importlib
import inspect
import re

import griffe
from reference import ENTRIES

_ITEM = re.compile(r"^(\S(?:[^\s]| (?! ))*) {2,}(\S.*)$")


class Plain(griffe.Extension):
    def on_object(self, *, obj, **_) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
            if obj.is_class and obj.name in NAMES and "__init__" not in obj.members and (said := signature(obj)):
                obj.docstring.value = f"```python\n{said}\n```\n\n{obj.docstring.value}"


NAMES = {name.rpartition(".")[2] for name in ENTRIES}


def signature(obj) -> str:
    """Name(argument: type = default, …) of a class, a line for each argument."""
    module, _, name = obj.path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    if not isinstance(found, type) or issubclass(found, BaseException) or not found.__doc__:
        return ""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return ""
    lines = [re.sub(r"<factory>", "…", _TIDY.sub("", str(each)).replace(_NUMBER, "number")) for each in parameters]
    keyword = next((i for i, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY), None)
    if keyword is not None:
        lines.insert(keyword, "*")
    if len(", ".join(lines)) < 70:
        return f"{name}({', '.join(lines)})"
    return f"{name}(\n" + "".join(f"    {line},\n" for line in lines) + ")"


_TIDY = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])")
_NUMBER = "float | int | number | ndarray | Array"


def markdown(text: str) -> str:
    """Paragraph by paragraph."""
    return "\n\n".join(_paragraph(part) for part in re.split(r"\n\s*\n", text.strip("\n")))


def _paragraph(part: str) -> str:
    lines = part.split("\n")
    if lines[0].startswith(">>> "):
        return "\n".join(["```pycon", *lines, "```"])
    if any(line.startswith(">>> ") for line in lines):
        at = next(i for i, line in enumerate(lines) if line.startswith(">>> "))
        return f"{_paragraph(chr(10).join(lines[:at]))}\n\n{_paragraph(chr(10).join(lines[at:]))}"
    if not _ITEM.match(lines[0]) or lines[0].startswith(" "):
        return part
    items: list[list[str]] = []
    for line in lines:
        if found := _ITEM.match(line):
            items.append([found[1], found[2]])
        elif line.startswith(" ") and items:
            items[-1][1] += " " + line.strip()
        else:
            return part
    return "\n".join(f"- `{name}`: {said}" for name, said in items)

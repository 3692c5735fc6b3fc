"""Docstrings as Markdown: lists whose columns are aligned by spaces, and examples at a prompt.

A griffe extension of mkdocs.yml. In the source a docstring is plain text for `help()`; on a page, lines like

    params      what to deploy
    state       what can be trained on

become a list, and lines that begin with >>> a block of code.
"""

import re

import griffe

_ITEM = re.compile(r"^(\S(?:[^\s]| (?! ))*) {2,}(\S.*)$")


class Plain(griffe.Extension):
    def on_object(self, *, obj, **_) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


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

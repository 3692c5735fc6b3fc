"""What a benchmark leaves behind: a results file, and tables between the marks of a page of docs/measurements.

A table stands between <!-- name --> and <!-- end -->.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"


def table(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = list(head)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *body])


def place(text: str, tables: dict[str, str]) -> str:
    """A page's text with these tables between their marks; one that has no marks there is left out."""
    for name, content in tables.items():
        between = re.compile(f"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = between.sub(lambda marks, content=content: f"{marks[1]}{content.rstrip()}\n{marks[2]}", text, count=1)
    return text


def write_tables(page: Path, tables: dict[str, str]) -> None:
    """The same in the file."""
    page.write_text(place(page.read_text(), tables))


def write_rows(file: Path, rows: Iterable[dict], command: str, **more: Any) -> None:
    """Results with the machine, the command and whatever else, and a line for each row."""
    from benchmarks.steps import describe_machine

    parts = {"machine": describe_machine() | {"command": command}, **more}
    head = "".join(f"{json.dumps(name)}: {json.dumps(part)},\n" for name, part in parts.items())
    lines = ",\n".join(map(json.dumps, rows))
    file.write_text(f'{{{head}"rows": [\n{lines}\n]}}\n')

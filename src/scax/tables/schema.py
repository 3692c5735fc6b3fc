"""What the columns of a table are: found once, shown, saved, and held to when a model meets a new table."""

import dataclasses
from typing import Any

from .errors import TableError

VERSION = 1
KINDS = ("number", "boolean", "category", "dropped")
TASKS = ("regression", "classification")


@dataclasses.dataclass(frozen=True)
class Column:
    """One input column. `levels` are a category's values, one encoded feature each; `indicator` says whether missing
    values get a feature of their own; `note` says why, where a person may wonder."""

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    indicator: bool = False
    missing: int = 0
    note: str = ""

    @property
    def width(self) -> int:
        """How many encoded features the column becomes."""
        if self.kind == "dropped":
            return 0
        return (len(self.levels) if self.kind == "category" else 1) + self.indicator


@dataclasses.dataclass(frozen=True)
class Target:
    """The column to predict. A regression target has no classes; a class is a text, a whole number or a boolean, as in
    the table."""

    name: str
    task: str
    classes: tuple[str | int | bool, ...] = ()
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Schema:
    """Input columns in the order in which they are encoded, the target, the number of rows they were found in, and
    warnings: sentences for people (a column that repeats the target, …)."""

    columns: tuple[Column, ...]
    target: Target
    rows: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns that are encoded."""
        return tuple(c for c in self.columns if c.kind != "dropped")

    @property
    def width(self) -> int:
        """d: the number of encoded features, which is the network's number of inputs."""
        return sum(c.width for c in self.columns)

    @property
    def outputs(self) -> int:
        """k: the network's number of outputs: 1, or the number of classes where there are more than two."""
        return len(self.target.classes) if len(self.target.classes) > 2 else 1

    @property
    def features(self) -> tuple[str, ...]:
        """A name for every encoded feature."""
        names = []
        for c in self.used:
            names += [f"{c.name}={level}" for level in c.levels] if c.kind == "category" else [c.name]
            names += [f"{c.name} is missing"] if c.indicator else []
        return tuple(names)

    def show(self) -> list[tuple[str, str, str]]:
        """(column, kind, remark) for people, the target last."""
        lines = []
        for c in self.columns:
            kind = f"category ({len(c.levels)})" if c.kind == "category" else c.kind
            remarks = [f"{c.missing:,} missing"] if c.missing else []
            note = c.note.removeprefix("dropped: ") if c.kind == "dropped" else c.note
            lines.append((c.name, kind, "; ".join(remarks + ([note] if note else []))))
        t = self.target
        kind = f"target: {len(t.classes)} classes" if t.task == "classification" else "target: number"
        return [*lines, (t.name, kind, t.note)]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, with a format version."""
        return {"version": VERSION, **dataclasses.asdict(self)}

    @staticmethod
    def from_json(value: Any) -> "Schema":
        """From what `to_json` gave; anything else is a TableError."""
        try:
            version = value["version"]
            if version != VERSION:
                raise TableError(f"The schema has format {version!r} and this scax reads {VERSION}: upgrade scax.")
            columns = tuple(_column(c) for c in value["columns"])
            target = _target(value["target"])
            schema = Schema(columns, target, int(value["rows"]), tuple(map(str, value["warnings"])))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, TableError):
                raise
            raise TableError("The schema is unreadable: write it again with the scax that made it.") from None
        return schema


def _column(value: Any) -> Column:
    column = Column(
        str(value["name"]), str(value["kind"]), tuple(map(str, value["levels"])), bool(value["indicator"]),
        int(value["missing"]), str(value["note"]),
    )  # fmt: skip
    if column.kind not in KINDS or (column.levels and column.kind != "category"):
        raise ValueError(column.kind)
    return column


def _target(value: Any) -> Target:
    classes = tuple(value["classes"])
    if value["task"] not in TASKS or not all(isinstance(c, (str, int, bool)) for c in classes):
        raise ValueError(value["task"])
    if (value["task"] == "classification") != (len(classes) > 0):
        raise ValueError("classes")
    return Target(str(value["name"]), value["task"], classes, str(value["note"]))

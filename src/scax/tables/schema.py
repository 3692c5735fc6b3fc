"""What the columns of a table are: found once, shown, saved, and held to when a model meets a new table."""

import dataclasses
import functools
import itertools
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from .._untrusted import Between, Unreadable, check
from .errors import TableError
from .readings import Reading, is_form

VERSION = 1
TASKS = ("regression", "classification")


@dataclasses.dataclass(frozen=True)
class Column:
    """One input column. `levels` are a category's values, one encoded feature each; `indicator` says whether missing
    values get a feature of their own; `note` says why, where a person may wonder. `edges` are those of a number's bins,
    one encoded feature each beside the number (see tables/encode.py); empty: no bins. A number that is written in
    another way than Python's, or that is part of a date, is read from the table's column `source` (see
    tables/readings.py)."""

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    indicator: bool = False
    missing: int = 0
    note: str = ""
    edges: tuple[float, ...] = ()
    source: str = ""
    form: str = ""
    part: str = ""

    @property
    def width(self) -> int:
        """How many encoded features the column becomes."""
        if self.kind == "dropped":
            return 0
        return (len(self.levels) if self.kind == "category" else max(len(self.edges), 1)) + self.indicator


@dataclasses.dataclass(frozen=True)
class Target:
    """The column to predict. A regression target has no classes; a class is a text, a whole number or a boolean, as in
    the table. `form`: how its numbers are written, where not as Python does."""

    name: str
    task: str
    classes: tuple[str | int | bool, ...] = ()
    note: str = ""
    form: str = ""


@dataclasses.dataclass(frozen=True)
class Schema:
    """Input columns in the order in which they are encoded, the target, the number of rows they were found in, and
    warnings: sentences for people (a column that repeats the target, …)."""

    columns: tuple[Column, ...]
    target: Target
    rows: int = 0
    warnings: tuple[str, ...] = ()

    @functools.cached_property
    def used(self) -> tuple[Column, ...]:
        """The columns that are encoded."""
        return tuple(c for c in self.columns if c.kind != "dropped")

    @functools.cached_property
    def width(self) -> int:
        """d: the number of encoded features, which is the network's number of inputs."""
        return sum(c.width for c in self.columns)

    @functools.cached_property
    def readings(self) -> dict[str, Reading]:
        """The columns that are read from others of the table."""
        found = {c.name: Reading(c.source, c.form, c.part) for c in self.used if c.form}
        goal = self.target
        return found | ({goal.name: Reading(goal.name, goal.form)} if goal.form else {})

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
            names += [f"{c.name} from {a:.4g} to {b:.4g}" for a, b in itertools.pairwise(c.edges)]
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
        plain = lambda part: {key: list(v) if isinstance(v, tuple) else v for key, v in vars(part).items()}
        return {
            "version": VERSION,
            "columns": [plain(c) for c in self.columns],
            "target": plain(self.target),
            "rows": self.rows,
            "warnings": list(self.warnings),
        }

    @staticmethod
    def from_json(value: Any) -> "Schema":
        """From what `to_json` gave; anything else is a TableError."""
        version = value.get("version") if isinstance(value, dict) else None
        if type(version) is int and VERSION < version < 2**53:  # beyond that it is damaged
            raise TableError(f"The schema has format {version:,} and this scax reads {VERSION}: upgrade scax.")
        try:
            check(value, SchemaJson)
            columns = tuple(_column(c) for c in value["columns"])
            schema = Schema(columns, _target(value["target"]), value["rows"], tuple(value["warnings"]))
            if not schema.width:
                raise Unreadable("is damaged: none of its columns is encoded")
            return schema
        except Unreadable as error:
            raise TableError(f"The schema {error}: write it again with the scax that made it.") from None


class ColumnJson(TypedDict):
    name: str
    kind: Literal["number", "boolean", "category", "dropped"]
    levels: list[str]
    indicator: bool
    missing: Annotated[int, Between(0, 2**53)]
    note: str
    edges: NotRequired[list[float]]
    source: NotRequired[str]
    form: NotRequired[str]
    part: NotRequired[str]


class TargetJson(TypedDict):
    name: str
    task: Literal["regression", "classification"]
    classes: list[Any]
    note: str
    form: NotRequired[str]


class SchemaJson(TypedDict):
    """What `Schema.to_json` gives."""

    version: Annotated[int, Between(VERSION, VERSION)]
    columns: list[ColumnJson]
    target: TargetJson
    rows: Annotated[int, Between(0, 2**53)]
    warnings: list[str]


def _column(value: ColumnJson) -> Column:
    column = Column(
        value["name"], value["kind"], tuple(value["levels"]), value["indicator"], value["missing"], value["note"],
        tuple(float(edge) for edge in value.get("edges", [])),
        value.get("source", ""), value.get("form", ""), value.get("part", ""),
    )  # fmt: skip
    if (column.source or column.form or column.part) and not (column.source and is_form(column.form, column.part)):
        raise Unreadable(f"is damaged: column {column.name!r} is read in no known way")
    if column.levels and column.kind != "category":
        raise Unreadable(f"is damaged: a {column.kind} has levels")
    if column.edges and (column.kind != "number" or any(a >= b for a, b in itertools.pairwise(column.edges))):
        raise Unreadable(f"is damaged: the bins of column {column.name!r} do not rise")
    return column


def _target(value: TargetJson) -> Target:
    classes = tuple(value["classes"])
    for each in classes:
        if type(each) is int and abs(each) <= 10**150:  # as large as a number of a table may be
            continue
        check(each, str | bool, "a class")
    fits = len(classes) > 1 if value["task"] == "classification" else not classes
    if not fits or len(set(map(type, classes))) > 1:
        raise Unreadable(f"is damaged: its classes are not those of {value['task']}")
    rise = all(a < b for a, b in itertools.pairwise(classes))
    if not (rise or (isinstance(classes[0], str) and len(set(classes)) == len(classes))):
        raise Unreadable("is damaged: its classes do not rise")
    if (form := value.get("form", "")) and not is_form(form):
        raise Unreadable("is damaged: the target is read in no known way")
    return Target(value["name"], value["task"], classes, value["note"], form)

"""Which columns hold numbers or dates that are written in another way than Python's, found from all of their texts."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from .columns import parse
from .errors import TableError
from .readings import COMMA, ISO, PARTS, POINT, TIMES, Reading, date_forms, is_like_date, number_forms, plain
from .survey import Tallied

#: The share of a column's rows that makes it one of numbers or dates; the others are then mistakes.
MOST = 0.8
#: Different values up to which a target written with signs is taken as classes.
FEW_VALUES = 20
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")


class Found(NamedTuple):
    """New columns by name, sentences to warn with, and what is wrong."""

    readings: dict[str, Reading]
    warnings: list[str]
    problems: dict[str, TableError]


def readings(
    table: str, columns: Mapping[str, Tallied], target: str, task: str | None, plainly: Collection[str], comma: bool
) -> Found:
    """Of all columns but those to be taken `plainly`, as they are; `comma`: whether the file's separator is none, so
    that it may be a decimal comma."""
    found, forms = Found({}, [], {}), {}
    for name, seen in columns.items():
        where = f"{table}: the target {name!r}" if name == target else f"{table}: column {name!r}"
        if name in plainly or (name == target and not _is_number_target(seen, task)):
            continue
        if name != target and (seen.declared == "date" or _share(seen, is_like_date) > MOST):
            _read_date(where, name, seen, columns, found)
        elif seen.words and seen.declared == "text" and (form := _number_form(where, name, seen, found)):
            forms[name] = form
    _read_numbers(table, columns, forms, comma, found)
    return found


def grouped_by_points(columns: Mapping[str, Tallied], plainly: Collection[str]) -> dict[str, Reading]:
    """In a table with decimal commas: columns that look like plain numbers, but whose points part groups of three
    digits, as in 1.234, which a table without such commas would mean otherwise."""
    made = {}
    for name, seen in columns.items():
        with_point = [] if seen.words or name in plainly else [text for text in seen.counts if "." in text]
        if with_point and not all(_GROUPED.fullmatch(text) for text in with_point):
            return {}
        if with_point:
            made[name] = Reading(name, COMMA)
    return made


def unreadable(table: str, reading: Reading, seen: Tallied) -> TableError:
    """Of a column with texts, far down a long table, that are not written as those that were looked at."""
    row, text = seen.first_word or (0, "")
    return TableError(
        f"{table}: column {reading.source!r} is {text[:40]!r} in row {row + 1}, which is not written as the other "
        f"{'dates' if reading.part else 'numbers'} are. Correct it, or leave it empty."
    )


def _is_number_target(seen: Tallied, task: str | None) -> bool:
    return task == "regression" or (task is None and (seen.overflow or len(seen.counts) > FEW_VALUES))


def _read_date(where: str, name: str, seen: Tallied, columns: Mapping[str, Tallied], found: Found) -> None:
    forms = (ISO,) if seen.declared == "date" else date_forms(t for t in seen.counts if is_like_date(t))
    if len(forms) > 1 and forms[0] not in TIMES:
        example = next(iter(seen.counts))
        found.problems[name] = TableError(
            f"{where} holds dates such as {example[:40]!r}, and every one may have the day or the month first: write "
            "them as 2024-01-31, or leave the column out (drop, --drop)."
        )
    elif not forms or _others(seen, is_like_date):
        odd = f" ({(_others(seen, is_like_date) or '')[:40]!r} is none)" if forms else ""
        found.problems[name] = TableError(
            f"{where} holds dates or times, not all of them written in one known way{odd}: write them as 2024-01-31 or "
            "2024-01-31 12:30, or leave the column out (drop, --drop)."
        )
    else:
        for part in ("hour",) if forms[0] in TIMES else PARTS:
            free = f"{name}: {part}"
            while free in columns:
                free += "_"
            found.readings[free] = Reading(name, forms[0], part)


def _number_form(where: str, name: str, seen: Tallied, found: Found) -> tuple[str, ...]:
    """The forms that all texts have; a problem where most have one and others do not."""
    forms = number_forms(seen.counts)
    if forms:
        return forms
    for form in (POINT, COMMA):
        has_form = lambda text, form=form: form in number_forms([text])
        example = next((text for text in seen.counts if has_form(text) and parse(text) is None), None)
        if example is not None and _share(seen, has_form) > MOST:
            found.problems[name] = TableError(
                f"{where} has numbers such as {example[:40]!r}, but {(_others(seen, has_form) or '')[:40]!r} among "
                "them: correct it or leave it empty, or take the column as a category (--category)."
            )
            break
    return ()


def _read_numbers(
    table: str, columns: Mapping[str, Tallied], forms: Mapping[str, Sequence[str]], comma: bool, found: Found
) -> None:
    """Where both forms fit, 4,148, the other columns tell: those with decimal commas, or with decimal points."""
    sure = {form[0] for form in forms.values() if len(form) == 1}
    points = POINT in sure or any(
        seen.declared == "text" and not seen.words and not seen.whole for seen in columns.values()
    )
    open_form = COMMA if (COMMA in sure or comma) and not points else POINT
    for name, fitting in forms.items():
        form = fitting[0] if len(fitting) == 1 else open_form
        found.readings[name] = Reading(name, form)
        other = POINT if form == COMMA else COMMA
        example = next((t for t in columns[name].counts if plain(form, t) != plain(other, t)), None)
        if len(fitting) > 1 and example is not None:
            found.warnings.append(
                f"Column {name!r}: {example[:40]!r} is read as {plain(form, example):g}, not {plain(other, example):g}."
            )


def _share(seen: Tallied, test: Callable[[str], bool]) -> float:
    """The share of rows whose text passes, as far as texts were counted."""
    return sum(n for t, n in seen.counts.items() if test(t)) / max(1, sum(seen.counts.values())) if seen.words else 0.0


def _others(seen: Tallied, test: Callable[[str], bool]) -> str | None:
    """A text that does not pass."""
    return next((text for text in seen.counts if not test(text)), None)

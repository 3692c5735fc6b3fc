"""From what a column holds to what it is. Where that is not clear the table's owner decides, with a sentence's help."""

import re

import numpy as np

from .columns import BOOLEAN_PAIRS, parse
from .errors import TableError
from .schema import Column, Target
from .survey import TEXTS, Tallied

MOST_CLASSES = 1000
FEW_VALUES = 20
#: Values of a category in fewer rows share what is left, if they are at most this share of the rows.
RARE, SHARE = 5, 0.5
_ID = re.compile(
    r"(id|ids|uuid|guid|index|idx|key|row|row[ _]?(nr|no|num|number|id)|unnamed.*|.*[ _.-](id|uuid|key))", re.I
)
_CAMEL_ID = re.compile(r".*[a-z](Id|ID)")
_LEAVE_OUT = "leave it out (drop, --drop)"


def column(table: str, name: str, found: Tallied, max_levels: int, forced: bool) -> Column:
    """The kind of one input column, or a TableError that says what to do about it."""
    where = f"{table}: column {name!r}"
    missing = {"missing": found.missing, "indicator": found.missing > 0}
    if found.declared not in ("number", "boolean", "text"):
        raise TableError(
            f"{where} holds values of type {found.declared}: turn them into numbers or texts, or {_LEAVE_OUT}."
        )
    if found.present == 0:
        raise TableError(f"{where} has no values at all: remove it, or {_LEAVE_OUT}.")
    if forced:
        return _category(where, name, found, max_levels, missing)
    if found.declared == "boolean" or _booleans(found):
        if len(found.counts) == 1 and not found.missing:
            return Column(name, "dropped", note="dropped: always the same value")
        return Column(name, "boolean", **missing)
    if found.words == 0:
        return _number(where, name, found, missing)
    if found.words <= 0.2 * found.present:
        raise _text_among_numbers(where, found)
    return _category(where, name, found, max_levels, missing)


def _number(where: str, name: str, found: Tallied, missing: dict) -> Column:
    finite(where, found)
    if found.low == found.high and not found.missing:
        return Column(name, "dropped", note="dropped: always the same value")
    if found.whole and found.rows > 2 and not found.missing and is_id(name) and (found.rising or _all_differ(found)):
        return Column(name, "dropped", note="dropped: numbers the rows")
    return Column(name, "number", **missing)


def _category(where: str, name: str, found: Tallied, max_levels: int, missing: dict) -> Column:
    if len(found.counts) == 1 and not found.missing:
        return Column(name, "dropped", note="dropped: always the same value")
    words = sum(len(text.split()) for text in found.counts) / len(found.counts)
    levels = _levels(found, max_levels)
    many = found.overflow or len(levels) > max_levels
    if _all_differ(found) and found.present > 10 and words < 4 and (is_id(name) or not many):
        return Column(name, "dropped", note="dropped: a different value in every row")
    if words >= 4 and (many or _all_differ(found)):
        example = next(iter(found.counts))
        raise TableError(
            f"{where} holds text ({example[:40]!r}, …). Turn it into numbers or categories, or {_LEAVE_OUT}."
        )
    if many:
        raise TableError(
            f"{where} has {_how_many(found)} different values, and a category at most {max_levels:,}, even without the "
            f"rare ones. Group them, raise the limit (max_levels, --max-levels), or {_LEAVE_OUT}."
        )
    rare = len(found.counts) - len(levels)
    note = f"{rare:,} rare values count as none of the levels" if rare else ""
    return Column(name, "category", tuple(sorted(levels, key=_order)), note=note, **missing)


def _levels(found: Tallied, most: int) -> list[str]:
    """The values with features of their own: not those in fewer than RARE rows, nor beyond the `most` frequent, unless
    that leaves out one value alone, or more than SHARE of the rows."""
    often = sorted(found.counts, key=lambda text: -found.counts[text])
    kept = [text for text in often[:most] if found.counts[text] >= RARE]
    left = sum(found.counts.values()) - sum(found.counts[text] for text in kept)
    return often if len(kept) >= len(often) - 1 or left > SHARE * found.present else kept


def target(table: str, name: str, found: Tallied, task: str | None) -> Target:
    """What the target is: numbers to regress on, or classes."""
    where = f"{table}: the target {name!r}"
    if found.declared not in ("number", "boolean", "text"):
        raise TableError(f"{where} holds values of type {found.declared}: choose a column of numbers or of classes.")
    if found.first_missing is not None:
        raise TableError(
            f"{where} is missing in {found.missing:,} row(s), the first of them row {found.first_missing + 1}: remove "
            "those rows."
        )
    if not found.overflow and len(found.counts) == 1:
        raise TableError(
            f"{where} is always {next(iter(found.counts))!r}: there is nothing to learn. Choose another column."
        )
    if task == "regression":
        if found.words or found.declared == "boolean":
            row, text = found.first_word or (0, "a boolean")
            raise TableError(
                f"{where} is not a number in row {row + 1} ({text[:40]!r}): correct it, or use classification."
            )
        finite(where, found)
        return Target(name, "regression")
    few = not found.overflow and len(found.counts) <= FEW_VALUES
    alike = len(found.counts) <= 2 or found.rows >= 5 * len(found.counts)
    numbers = found.words == 0 and found.declared != "boolean"
    if task is None and numbers and not (found.whole and few and alike):
        finite(where, found)
        return Target(name, "regression")
    if task is None and 0 < found.words <= 0.2 * found.present and not few:
        raise _text_among_numbers(where, found)
    if found.overflow or len(found.counts) > MOST_CLASSES:
        raise TableError(
            f"{where} has {_how_many(found)} different values, and classes are at most {MOST_CLASSES:,}: "
            f"{_other_task(numbers)}."
        )
    if max(found.counts.values()) == 1:
        raise TableError(
            f"{where} is another class in every row, and a class is learned from several: {_other_task(numbers)}."
        )
    note = "whole numbers, few of them: taken as classes" if numbers and task is None else ""
    return Target(name, "classification", _classes(where, found), note)


def _other_task(numbers: bool) -> str:
    return "use regression (task, --task)" if numbers else "choose another column, or group them"


def _classes(where: str, found: Tallied) -> tuple[str | int | bool, ...]:
    """The classes in order: false before true, numbers by size, texts by name."""
    texts = sorted(found.counts, key=_order)
    if found.declared == "boolean" or {t.lower() for t in texts} == {"true", "false"}:
        return (False, True)
    if found.words == 0 and found.whole:
        finite(where, found)
        return tuple(sorted({int(float(t)) for t in texts}))
    return tuple(texts)


def counts_rows(name: str, found: Tallied) -> str | None:
    """A warning where a column is n, n + 1, n + 2, …, whatever it is called; such as 1900, 1901, … may be years."""
    begins = found.low in (0, 1) or found.low >= 10_000
    if not (begins and found.whole and found.rising and found.high - found.low == found.rows - 1):
        return None
    return f"Column {name!r} numbers the rows: if it is no time or place of theirs, {_LEAVE_OUT}."


def leaks(name: str, equal: bool, on_a_line: bool) -> str | None:
    """A warning where a column gives the target away: equal in every row, or on one straight line with it."""
    advice = f"predictions will look perfect and be worth nothing if it is not known beforehand. If so, {_LEAVE_OUT}."
    if equal:
        return f"Column {name!r} equals the target in every row: {advice}"
    return f"Column {name!r} is the target in other units: {advice}" if on_a_line else None


def on_a_line(sample: np.ndarray, target: int) -> np.ndarray:
    """bool [columns]: which columns of the sample lie on one straight line with the target, a few at a time."""
    out, step = np.zeros(sample.shape[1], bool), max(1, (1 << 20) // max(len(sample), 1))
    for start in range(0, sample.shape[1], step):
        part, aim = sample[:, start : start + step], sample[:, [target]]
        both = np.isfinite(part) & np.isfinite(aim)
        n = both.sum(axis=0)
        with np.errstate(all="ignore"):
            centered = lambda v, both=both, n=n: np.where(both, v - np.where(both, v, 0).sum(axis=0) / n, 0)
            a, b = centered(part), centered(aim)
            line = np.abs((a * b).sum(axis=0)) / np.sqrt((a * a).sum(axis=0) * (b * b).sum(axis=0))
        out[start : start + step] = (n >= 10) & (n >= 0.5 * len(sample)) & (line > 1 - 1e-10)
    return out


def finite(where: str, found: Tallied) -> None:
    if found.first_infinite is not None:
        row, text = found.first_infinite
        raise TableError(f"{where} is infinite in row {row + 1} ({text[:40]}): correct it, or leave the value empty.")
    if max(abs(found.low), abs(found.high)) > 1e150:
        raise TableError(f"{where} has numbers beyond 1e150: measure it in larger units.")


def _text_among_numbers(where: str, found: Tallied) -> TableError:
    row, text = found.first_word or (0, "")
    return TableError(
        f"{where} has numbers, but {text[:40]!r} in row {row + 1} ({found.words:,} such row(s)). Correct it or leave "
        "it empty, or take the column as a category (--category)."
    )


def _how_many(found: Tallied) -> str:
    """The number of different texts, as far as they were counted."""
    return f"more than {min(TEXTS, len(found.counts)):,}" if found.overflow else f"{len(found.counts):,}"


def _booleans(found: Tallied) -> bool:
    if found.overflow or found.words < found.present:
        return False
    texts = {t.lower() for t in found.counts}
    return any(texts <= pair for pair in BOOLEAN_PAIRS)


def _all_differ(found: Tallied) -> bool:
    """Every value occurs once; past the limit of counting, as far as was counted."""
    return sum(found.counts.values()) <= 1.001 * len(found.counts)


def is_id(name: str) -> bool:
    return bool(_ID.fullmatch(name) or _CAMEL_ID.fullmatch(name))


def _order(text: str) -> tuple:
    number = parse(text)
    return (number is None, number if number is not None else 0.0, text)

"""Numbers that a table writes in another way than Python: 4,148 and 3,5 and $9.50, and dates. NumPy alone.

A reading is found from all of a column's texts, kept in the schema, and done again wherever the model meets a table.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

import numpy as np

from .columns import Dates, Numbers, Values, parse
from .table import Block, Table

#: Ways to write a number: a sign and a currency or percent before or behind it are left out.
POINT, COMMA = "1,234.5", "1.234,5"
_MARKED = r"[+-]?\s?[$€£¥]?\s?[+-]?(?:{})(?:[eE][+-]?\d+)?\s?[%$€£¥]?"
#: Groups of three digits, or none; what a zero begins is no group: 0,640 has a decimal comma.
_FORMS = {
    POINT: re.compile(_MARKED.format(r"(?:[1-9]\d{0,2}(?:[,' ]\d{3})+|\d+)(?:\.\d*)?|\.\d+")),
    COMMA: re.compile(_MARKED.format(r"(?:[1-9]\d{0,2}(?:[.' ]\d{3})+|\d+)(?:,\d*)?|,\d+")),
}
_MARKS = re.compile(r"[\s'$€£¥%]")
#: What becomes of a date.
PARTS = ("days since 1970", "year", "month", "weekday", "hour")
#: Ways to write a date: "iso" is 2024-01-31, with a time behind it or not; the others are those of strptime.
ISO = "iso"
_DAYS = (
    *("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y"),
    *("%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%d-%b-%y"),
)
TIMES = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p")
_DATES = (ISO, *_DAYS, *(f"{day} {time}" for day, time in itertools.product(_DAYS, TIMES)))
_TIMES_AND_DATES = frozenset((*_DATES, *TIMES))
_LIKE_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b.*|\d{1,2}[- ][A-Za-z]{3,9}[- ]\d{2,4}.*|[A-Za-z]{3,9} \d{1,2},? \d{4}.*"
    r"|\d{1,2}:\d{2}(:\d{2}.*)?( [AaPp][Mm])?"
)
_EPOCH, _DAY = datetime(1970, 1, 1), 86_400.0
#: Texts by which forms are ruled out before all are tried.
_SAMPLE = 50
#: Different texts of a block: all of them.
_ALL = 2**62


def is_form(form: str, part: str = "") -> bool:
    """Whether a schema may say this: a way to write numbers, or one to write dates and what becomes of them."""
    return form in _TIMES_AND_DATES and part in PARTS if part else form in _FORMS


@dataclasses.dataclass(frozen=True)
class Reading:
    """How one column of numbers is read from a column of the table: a way to write numbers, or a part of a date."""

    source: str
    form: str
    part: str = ""

    @property
    def leads(self) -> bool:
        """Whether missing values are its matter, of the parts that a date becomes."""
        return self.part in ("", PARTS[0]) or self.form in TIMES

    def read(self, values: Values) -> Values:
        """The numbers; what cannot be read stays text."""
        if self.part:
            return _Read(values, functools.partial(day, self.form), functools.partial(date_part, self.part))
        if values.declared in ("number", "boolean"):
            return values
        return _Read(values, functools.partial(plain, self.form))


class _Read(Values):
    """Texts of another column read as numbers, each different one once."""

    declared = "number"

    def __init__(
        self, texts: Values, read: Callable[[str], float | None], then: Callable[[np.ndarray], np.ndarray] | None = None
    ):
        self.texts, self.read, self.then = texts, read, then

    def numbers(self):
        if isinstance(self.texts, Dates):
            numbers, words = self.texts.days, np.zeros(len(self.texts.days), bool)
        else:
            different = list(self.texts.counts(_ALL))
            known = [self.read(text) for text in different]
            codes = self.texts.codes({text: i for i, text in enumerate(different)})
            values = np.array([np.nan if v is None else v for v in known] + [np.nan])
            numbers = values[np.where(codes < 0, len(known), codes)]
            words = np.isnan(numbers) & (codes >= 0)
        return numbers if self.then is None else self.then(numbers), words

    def missing(self):
        return self.texts.missing()

    def counts(self, most):
        return Numbers(self.numbers()[0]).counts(most)

    def codes(self, lookup):
        return Numbers(self.numbers()[0]).codes(lookup)

    def text(self, row):
        return self.texts.text(row)


class ReadTable(Table):
    """A table with columns that are read from others of it, which they replace."""

    def __init__(self, table: Table, readings: Mapping[str, Reading]):
        self.table, self.readings = table, dict(readings)
        self.name, self.rows, self.bytes = table.name, table.rows, table.bytes
        made: dict[str, list[str]] = {}
        for name, reading in self.readings.items():
            made.setdefault(reading.source, []).append(name)
        self.columns = tuple(name for each in table.columns for name in made.get(each, [each]))

    def blocks(self) -> Iterator[Block]:
        for block in self.table.blocks():
            yield dataclasses.replace(block, readings=self.readings)

    def fingerprint(self) -> str | None:
        return self.table.fingerprint()


def plain(form: str, text: str) -> float | None:
    """The number that a text of this form stands for, or None."""
    if not _FORMS[form].fullmatch(text):
        return None
    bare = _MARKS.sub("", text)
    return parse(bare.replace(",", "") if form == POINT else bare.replace(".", "").replace(",", "."))


def number_forms(texts: Iterable[str]) -> tuple[str, ...]:
    """The forms that all of these texts have."""
    texts = list(texts)
    return tuple(form for form, like in _FORMS.items() if all(like.fullmatch(t) for t in texts))


@functools.lru_cache(maxsize=1 << 16)
def day(form: str, text: str) -> float | None:
    """Days from 1970 to a date of this form, or None; a time zone is left out, as the clock on the wall does."""
    try:
        when = datetime.fromisoformat(text) if form == ISO else datetime.strptime(text, form)
    except ValueError:
        return None
    return (when.replace(tzinfo=None) - _EPOCH).total_seconds() / _DAY


def date_forms(texts: Iterable[str]) -> tuple[str, ...]:
    """The ways in which all of these texts are dates: several where the day or the month may be first."""
    texts = list(texts)
    there = lambda form, some: all(day(form, text) is not None for text in some)
    likely = [form for form in (*_DATES, *TIMES) if there(form, texts[:_SAMPLE])]
    found = [form for form in likely if there(form, texts)]
    return tuple(found[:1]) if ISO in found else tuple(found)


def is_like_date(text: str) -> bool:
    """Whether a text looks like a date or a time, be it one or not."""
    return bool(_LIKE_DATE.fullmatch(text))


def date_part(part: str, days: np.ndarray) -> np.ndarray:
    """One of PARTS of days since 1970, NaN where they are: January and Monday are 0."""
    if part == PARTS[0]:
        return days
    missing = np.isnan(days)
    safe = np.where(missing, 0, days)
    whole = np.floor(safe)
    month = whole.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    found = {
        "year": 1970 + month // 12,
        "month": month % 12,
        "weekday": (whole + 3) % 7,
        "hour": (safe - whole) * 24,
    }[part]
    return np.where(missing, np.nan, found)

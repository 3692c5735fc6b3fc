"""The values of one column in one block of rows, as numbers or as texts, whatever they came as. NumPy alone.

Texts count as missing when they are one of the usual marks (empty, NA, NaN, null, ?, …); a number is what
`float` reads, blanks around it allowed.
"""

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

#: lower case; the marks pandas knows, and the question mark of the UCI tables
MISSING = frozenset({"", "na", "n/a", "nan", "-nan", "null", "none", "<na>", "#n/a", "#na", "#n/a n/a", "?"})
BOOLEAN_PAIRS = ({"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"})
#: every way to write one, and its value
BOOLEANS = {
    form: value
    for value, words in ((1, ("true", "yes", "t", "y", "1")), (0, ("false", "no", "f", "n", "0")))
    for word in words
    for form in (word, word.upper(), word.title())
}

MISSING_CODE, UNSEEN_CODE = -1, -2


class Values:
    """What the survey and the encoder ask of a column, each for all rows of the block."""

    #: "number", "boolean", "text" (which may turn out to be numbers), "date", or the name of another type
    declared: str

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """(float64 [n], NaN where missing or not a number; bool [n], True where there is text that is no number)."""
        raise NotImplementedError

    def missing(self) -> np.ndarray:
        """bool [n]."""
        raise NotImplementedError

    def counts(self, most: int) -> Mapping[str, int]:
        """How often each text occurs, missing ones left out; some `most` of them where there are more."""
        raise NotImplementedError

    def codes(self, lookup: Mapping[str, int]) -> np.ndarray:
        """int32 [n]: the code of each text, MISSING_CODE, or UNSEEN_CODE where `lookup` does not know it."""
        raise NotImplementedError

    def text(self, row: int) -> str:
        """One value, as a person would recognize it."""
        raise NotImplementedError


class Numbers(Values):
    """A column of numbers or booleans, NaN where missing."""

    def __init__(self, values: np.ndarray, declared: str = "number"):
        self.values, self.declared = np.asarray(values, np.float64), declared

    def numbers(self):
        return self.values, np.zeros(len(self.values), bool)

    def missing(self):
        return np.isnan(self.values)

    def counts(self, most):
        unique, count = np.unique(self.values[~np.isnan(self.values)], return_counts=True)
        return {number_text(v): int(c) for v, c in zip(unique[:most], count[:most], strict=True)}

    def codes(self, lookup):
        unique, where = np.unique(self.values, return_inverse=True)
        known = [MISSING_CODE if np.isnan(v) else lookup.get(number_text(v), UNSEEN_CODE) for v in unique]
        return np.array(known, np.int32)[where]

    def text(self, row):
        return number_text(self.values[row])


class Objects(Values):
    """A column of Python values: texts, numbers, booleans, None in any mixture."""

    declared = "text"

    def __init__(self, values: Any):
        self.values = [clean(v) for v in values]

    def numbers(self):
        out, doubt = np.full(len(self.values), np.nan), np.zeros(len(self.values), bool)
        for i, text in enumerate(self.values):
            if text is not None:
                number = parse(text)
                doubt[i] = number is None
                out[i] = np.nan if number is None else number
        return out, doubt

    def missing(self):
        return np.array([v is None for v in self.values], bool)

    def counts(self, most):
        counted = Counter(v for v in self.values if v is not None)
        return dict(itertools.islice(counted.items(), most))

    def codes(self, lookup):
        known = (MISSING_CODE if v is None else lookup.get(v, UNSEEN_CODE) for v in self.values)
        return np.fromiter(known, np.int32, len(self.values))

    def text(self, row):
        return str(self.values[row])


class Dates(Values):
    """A column of dates, or of times of a day, as days since 1970, NaN where missing."""

    declared = "date"

    def __init__(self, days: np.ndarray):
        self.days = days

    def numbers(self):
        return np.full(len(self.days), np.nan), ~np.isnan(self.days)

    def missing(self):
        return np.isnan(self.days)

    def counts(self, most):
        return {}

    def codes(self, lookup):
        return np.where(self.missing(), MISSING_CODE, UNSEEN_CODE).astype(np.int32)

    def text(self, row):
        return "" if np.isnan(self.days[row]) else str(np.datetime64(round(self.days[row] * 86_400), "s"))


class Opaque(Values):
    """Lists and other things that are no input as they are; only their type is known."""

    def __init__(self, declared: str, size: int):
        self.declared, self.size = declared, size

    def numbers(self):
        return np.full(self.size, np.nan), np.zeros(self.size, bool)

    def missing(self):
        return np.zeros(self.size, bool)

    def counts(self, most):
        return {}

    def codes(self, lookup):
        return np.full(self.size, UNSEEN_CODE, np.int32)

    def text(self, row):
        return self.declared


def of_array(values: Any) -> Values:
    """The values of anything NumPy can make a one-dimensional array of."""
    if hasattr(values, "to_numpy") and str(getattr(values, "dtype", "")) in _PANDAS_NULLABLE:
        declared = "boolean" if str(values.dtype) == "boolean" else "number"
        return Numbers(values.to_numpy(dtype=np.float64, na_value=np.nan), declared)
    array = np.asarray(values)
    if array.ndim != 1:
        array = np.fromiter(values, object, len(values))
    if array.dtype.kind == "b":
        return Numbers(array, "boolean")
    if array.dtype.kind in "fiu":
        return Numbers(array)
    if array.dtype.kind == "O" and any(hasattr(v, "isoformat") for v in array):
        array = _as_times(array)
    if array.dtype.kind in "mM":
        days = np.where(np.isnat(array), np.nan, array / np.timedelta64(1, "D") if array.dtype.kind == "m" else
                        (array - np.datetime64(0, "s")) / np.timedelta64(1, "D"))  # fmt: skip
        return Numbers(days) if array.dtype.kind == "m" else Dates(days)
    if array.dtype.kind in "OUST":
        return Objects(array.tolist())
    return Opaque(str(array.dtype), len(array))


_PANDAS_NULLABLE = {f"{kind}{bits}" for kind in ("Int", "UInt", "Float") for bits in (8, 16, 32, 64)} | {"boolean"}


def _as_times(array: np.ndarray) -> np.ndarray:
    """Dates of Python or pandas as NumPy's, a time zone left out; as they are where others are among them."""
    plain = [None if clean(v) is None else v.replace(tzinfo=None) if getattr(v, "tzinfo", None) else v for v in array]
    try:
        return np.array(plain, "datetime64[us]")
    except (TypeError, ValueError):
        return array


def clean(value: Any) -> str | None:
    """A value as text without blanks around it, None where it is missing."""
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, (int, float, np.number)) and not isinstance(value, (complex, np.complexfloating)):
        return None if value != value else number_text(float(value))
    text = str(value).strip()
    return None if text.lower() in MISSING else text


def parse(text: str) -> float | None:
    """The number a text stands for, or None. Underscores, which Python allows in numbers, are text."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def number_text(value: float) -> str:
    """Whole numbers without a point: 3.0 and 3 are the same class or level."""
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)

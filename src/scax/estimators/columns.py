"""Any X as a matrix of numbers: arrays, sparse matrices, and frames with texts, categories, booleans and dates."""

import dataclasses
import datetime
import decimal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..tables.readings import PARTS, date_part

#: A category's values seen in fewer rows share one level, if there are several such values.
RARE = 5
#: The most frequent values of a category that have levels of their own, at most.
MOST_LEVELS = 255
#: The code of values that are none of the levels.
OTHER = -1.0
DAY = 86_400e9  # ns
SAID = {"number": "numbers", "category": "categories", "date": "dates"}


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of X: a number, a category with levels, or a date."""

    place: int
    kind: str
    levels: tuple[Any, ...] = ()

    @property
    def width(self) -> int:
        """Columns of the matrix."""
        return len(PARTS) if self.kind == "date" else 1

    def read(self, values: "Values") -> np.ndarray:
        """[n, width]; a category's values as the places of their levels, NaN where missing."""
        if self.kind == "date":
            return values.dates()
        if self.kind == "number":
            return values.numbers()[:, None]
        lookup = {level: float(i) for i, level in enumerate(self.levels)}
        return np.array([np.nan if v is None else lookup.get(v, OTHER) for v in values.objects()], float)[:, None]


@dataclasses.dataclass(frozen=True)
class Columns:
    """How an X of this kind becomes a matrix."""

    columns: tuple[Column, ...]

    @staticmethod
    def of(X: Any, categorical: Any) -> "Columns":
        """The columns of a frame, or of an array of numbers; `categorical` as the estimators' argument."""
        values = _values(X)
        chosen = _chosen(categorical, values, getattr(X, "columns", None))
        return Columns(tuple(_column(j, each, j in chosen) for j, each in enumerate(values)))

    def read(self, X: Any) -> np.ndarray:
        """The matrix, float64 [n, Σ widths]."""
        if isinstance(X, np.ndarray) and not any(c.levels for c in self.columns):
            return X
        values = _values(X)
        return np.concatenate([c.read(values[c.place]) for c in self.columns], axis=1)

    @property
    def levels(self) -> tuple[np.ndarray, ...]:
        """Of every column of the matrix, the codes of a category; empty for a number. Rare values share OTHER."""
        out: list[np.ndarray] = []
        for c in self.columns:
            codes = np.arange(len(c.levels), dtype=float)
            out += [codes if c.kind == "category" else np.zeros(0)] * c.width
        return tuple(out)

    @property
    def source(self) -> np.ndarray:
        """The column of X that each column of the matrix comes from."""
        return np.repeat([c.place for c in self.columns], [c.width for c in self.columns])


@dataclasses.dataclass(frozen=True)
class Values:
    """One column's values, however they are kept."""

    name: str
    declared: str  # "number", "category", "date"
    objects: Callable[[], Iterable[Any]]  # None where missing
    read: Callable[[], np.ndarray] | None = None  # numbers, or a date's days, float64 [n], NaN where missing

    def numbers(self) -> np.ndarray:
        return self._read("number")

    def dates(self) -> np.ndarray:
        """[n, parts]"""
        days = self._read("date")
        return np.column_stack([date_part(part, days) for part in PARTS])

    def _read(self, kind: str) -> np.ndarray:
        if self.declared == kind and self.read is not None:
            return self.read()
        missing = [v is None for v in self.objects()]
        if not all(missing):
            holds, held = SAID[self.declared], SAID[kind]
            raise ValueError(f"column {self.name!r} holds {holds}, and the network was fitted to {held}: convert it.")
        return np.full(len(missing), np.nan)


def is_frame(X: Any) -> bool:
    """Whether X is a frame of pandas or polars."""
    return _library(X) is not None and hasattr(X, "columns")


def _library(X: Any) -> Any:
    name = type(X).__module__.partition(".")[0]
    return sys.modules.get(name) if name in ("pandas", "polars") else None


def _values(X: Any) -> list[Values]:
    if not is_frame(X):
        return [_of_array(j, X[:, j]) for j in range(X.shape[1])]
    library = _library(X)
    if library.__name__ == "polars":
        return [_of_polars(library, X[name]) for name in X.columns]
    return [_of_pandas(library, X.iloc[:, j]) for j in range(X.shape[1])]


def _of_array(place: int, column: np.ndarray) -> Values:
    objects = lambda: [None if np.isnan(v) else v for v in column.tolist()]
    return Values(f"x{place}", "number", objects, lambda: np.asarray(column, float))


def _of_pandas(pandas: Any, column: Any) -> Values:
    name, types, dtype = str(column.name), pandas.api.types, column.dtype
    objects = lambda: column.astype(object).where(column.notna(), None).tolist()
    if types.is_object_dtype(dtype):
        return _of_objects(name, objects())
    if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        naive = column.dt.tz_localize(None) if getattr(dtype, "tz", None) is not None else column
        time = naive.to_numpy().astype("datetime64[ns]" if dtype.kind == "M" else "timedelta64[ns]")
        return _of_time(name, time, objects)
    if types.is_complex_dtype(dtype):
        raise _strange(name, "complex")
    if types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype):
        return Values(name, "number", objects, lambda: column.to_numpy(dtype=float, na_value=np.nan))
    return Values(name, "category", objects)


def _of_objects(name: str, values: list[Any]) -> Values:
    """Python's own objects: numbers or dates where all are, else levels."""
    there = [v for v in values if v is not None]
    objects = lambda: values
    if all(isinstance(v, int | float | decimal.Decimal | np.number | np.bool_) for v in there):
        return Values(name, "number", objects, lambda: np.array([np.nan if v is None else v for v in values], float))
    if all(isinstance(v, datetime.date) for v in there):
        return _of_time(name, np.array([_naive(v) for v in values], "datetime64[ns]"), objects)
    for v in there:
        if isinstance(v, Iterable | complex) and not isinstance(v, str | bytes):
            raise _strange(name, type(v).__name__)
    return Values(name, "category", objects)


def _of_polars(polars: Any, column: Any) -> Values:
    name, dtype, objects = column.name, column.dtype, column.to_list
    if dtype in (polars.Date, polars.Datetime):
        return _of_time(name, column.cast(polars.Datetime("ns")).to_numpy().astype("datetime64[ns]"), objects)
    if dtype == polars.Duration:
        return _of_time(name, column.cast(polars.Duration("ns")).to_numpy().astype("timedelta64[ns]"), objects)
    if dtype.is_numeric() or dtype == polars.Boolean:
        return Values(name, "number", objects, lambda: column.cast(polars.Float64).to_numpy())
    if dtype in (polars.String, polars.Categorical, polars.Enum):
        return Values(name, "category", objects)
    if dtype in (polars.Object, polars.Null):
        return _of_objects(name, objects())
    raise _strange(name, dtype)


def _of_time(name: str, time: np.ndarray, objects: Callable[[], Iterable[Any]]) -> Values:
    """Dates, or durations as numbers of days."""
    days = np.where(np.isnat(time), np.nan, time.astype(np.int64) / DAY)
    return Values(name, "number" if time.dtype.kind == "m" else "date", objects, lambda: days)


def _naive(value: datetime.date | None) -> datetime.date | None:
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def _strange(name: str, kind: Any) -> ValueError:
    return ValueError(
        f"column {name!r} holds values of type {kind}: make columns of numbers or texts of them, or leave it out."
    )


def _column(place: int, values: Values, chosen: bool) -> Column:
    if not chosen and values.declared != "category":
        return Column(place, values.declared)
    counts: dict[Any, int] = {}
    for value in values.objects():
        if value is not None:
            counts[value] = counts.get(value, 0) + 1
    often = sorted(counts, key=lambda v: (-counts[v], str(v)))
    rare = [v for v in often if counts[v] < RARE]
    kept = often[: len(often) - len(rare)] if len(rare) > 1 else often
    return Column(place, "category", tuple(sorted(kept[:MOST_LEVELS], key=lambda v: (str(type(v)), v))))


def _chosen(categorical: Any, values: Sequence[Values], names: Any) -> set[int]:
    """Places of the columns that the estimators' argument `categorical_features` names."""
    if categorical is None or (isinstance(categorical, str) and categorical == "from_dtype"):
        return set()
    given, count = np.atleast_1d(np.asarray(categorical)), len(values)
    if given.dtype == bool:
        if given.shape != (count,):
            raise ValueError(f"categorical_features is a mask of {given.size} features; X has {count}.")
        return set(np.flatnonzero(given).tolist())
    if given.dtype.kind in "iu":
        if given.size and not (given.min() >= 0 and given.max() < count):
            raise ValueError(f"categorical_features has the places {given.tolist()}; X has {count} features.")
        return set(given.tolist())
    known = {} if names is None else {str(name): j for j, name in enumerate(names)}
    if strange := [name for name in given.tolist() if name not in known]:
        raise ValueError(f"categorical_features names {strange[0]!r}, which is no column of X.")
    return {known[name] for name in given.tolist()}

"""The one place that speaks to polars: CSV text and Parquet files in, columns out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._extras import required_by
from .columns import MISSING, MISSING_CODE, UNSEEN_CODE, Dates, Numbers, Opaque, Values
from .csv_blocks import CsvText
from .errors import TableError
from .parquet_footer import largest_row_group

MOST_GROUP_VALUES = 100 << 20  # in a row group of a Parquet file, 8 bytes each

with required_by("Reading a table"):
    import polars as pl

#: what polars raises on data it cannot read; a panic of its Rust side is no Exception
_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)


class Texts(Values):
    """A column of texts."""

    declared = "text"

    def __init__(self, series: pl.Series):
        self.series = series

    def numbers(self):
        cast = self.series.cast(pl.Float64, strict=False)
        out = cast.to_numpy()
        doubt = np.zeros(len(out), bool)
        if cast.null_count() > self.series.null_count():  # blanks, marks of missing values, or text
            doubt = (cast.is_null() & self.series.is_not_null()).to_numpy().copy()
            rest = _clean(self.series.filter(pl.Series(doubt)))
            again = rest.cast(pl.Float64, strict=False)
            out = out.copy()
            out[doubt] = again.to_numpy()
            doubt[doubt] = (again.is_null() & rest.is_not_null()).to_numpy()
        return out, doubt

    def missing(self):
        return _clean(self.series).is_null().to_numpy()

    def counts(self, most):
        counted = _clean(self.series).drop_nulls().value_counts(name="scax count").head(most)
        texts, counts = counted.get_columns()
        return dict(zip(texts.to_list(), counts.to_list(), strict=True))

    def codes(self, lookup: Mapping[str, int]):
        clean = _clean(self.series)
        unique = clean.unique().drop_nulls()
        known = pl.Series([lookup.get(text, UNSEEN_CODE) for text in unique], dtype=pl.Int32)
        if len(unique) == 0:
            return np.full(len(clean), MISSING_CODE, np.int32)
        codes = clean.replace_strict(unique, known, default=None, return_dtype=pl.Int32)
        return codes.fill_null(MISSING_CODE).to_numpy()

    def text(self, row):
        return str(self.series[row]).strip()


def _clean(series: pl.Series) -> pl.Series:
    """Without blanks around, null where missing."""
    series = series.str.strip_chars()
    missing = series.str.to_lowercase().is_in(list(MISSING))
    return series.to_frame("a").select(pl.when(~missing).then(pl.col("a"))).to_series() if missing.any() else series


def of_series(series: pl.Series) -> Values:
    """The values of a polars column."""
    dtype = series.dtype
    if dtype == pl.String or dtype == pl.Null or isinstance(dtype, pl.Categorical | pl.Enum):
        return Texts(series.cast(pl.String))
    if dtype == pl.Boolean:
        return Numbers(series.cast(pl.Float64).to_numpy(), "boolean")
    if dtype.is_numeric():
        return Numbers(series.cast(pl.Float64, strict=False).to_numpy())
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        wall = series.cast(pl.Datetime("us")) if dtype == pl.Date else series.dt.replace_time_zone(None)
        return Dates(_days(wall.dt.cast_time_unit("us")))
    if dtype == pl.Time:
        return Dates(_days(series, 1e9))
    if isinstance(dtype, pl.Duration):
        return Numbers(_days(series.dt.cast_time_unit("us")))
    return Opaque(str(dtype).lower(), len(series))


def _days(series: pl.Series, units: float = 1e6) -> np.ndarray:
    """Of times or durations counted in so many units a second, NaN where missing."""
    return series.to_physical().cast(pl.Float64).to_numpy() / (units * 86_400)


def parse_csv(text: CsvText, block: bytes, line: int) -> pl.DataFrame:
    """Whole rows of CSV text as a frame of texts; what is wrong with them, with the line, as a TableError."""
    if error := text.ragged(block, line):
        raise error
    try:
        frame = pl.read_csv(
            block,
            has_header=False,
            schema=dict.fromkeys(text.columns, pl.String),
            separator=chr(text.separator),
            infer_schema=False,
            raise_if_empty=False,
        )
    except _FAILURES:
        raise text.first_ragged(block, line) or _unparsed(text, line) from None
    if frame.width != len(text.columns):
        raise _unparsed(text, line)
    return frame


class WideRows:
    """Rows of very many columns as one column of texts, row after row: polars takes kilobytes for each column."""

    def __init__(self, series: pl.Series, columns: Mapping[str, int]):
        self.series, self.columns = series, columns

    @property
    def height(self) -> int:
        return len(self.series) // len(self.columns)

    def slice(self, start: int, count: int) -> "WideRows":
        wide = len(self.columns)
        return WideRows(self.series.slice(start * wide, count * wide), self.columns)

    def column(self, name: str) -> Texts:
        return Texts(self.series.gather_every(len(self.columns), self.columns[name]))

    def numbers(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """As `Values.numbers`, of several columns: [rows, names]."""
        numbers, words = (part.reshape(self.height, -1) for part in Texts(self.series).numbers())
        places = [self.columns[name] for name in names]
        if places == list(range(len(self.columns))):
            return numbers, words
        return numbers[:, places], words[:, places]


def parse_wide(text: CsvText, block: bytes, line: int, columns: Mapping[str, int]) -> WideRows:
    """What `parse_csv` gives, for very many columns."""
    if error := text.ragged(block, line):
        raise error
    # each field becomes a row of one column: rows end where fields end
    separator = bytes([text.separator])
    if b'"' in block:
        symbols = np.frombuffer(block, np.uint8)
        outside = (np.cumsum(symbols == ord('"'), dtype=np.uint32) & 1) == 0
        block = np.where((symbols == ord("\n")) & outside, np.uint8(text.separator), symbols).tobytes()
    else:
        block = block.replace(b"\n", separator)
    if not block.endswith(separator):
        block += separator
    try:
        frame = pl.read_csv(
            block,
            has_header=False,
            schema={"field": pl.String},
            separator="\0",  # a block has none
            eol_char=chr(text.separator),
            infer_schema=False,
            raise_if_empty=False,
        )
    except _FAILURES:
        raise text.first_ragged(block, line) or _unparsed(text, line) from None
    if frame.height % len(columns):
        raise _unparsed(text, line)
    return WideRows(frame["field"], columns)


def _unparsed(text: CsvText, line: int) -> TableError:
    return TableError(
        f"{text.name} cannot be read as CSV after line {line}: likely a stray double quote. A value with quotes in it "
        "must be in double quotes, and each quote within written as two."
    )


def parquet_head(path: str, name: str) -> tuple[tuple[str, ...], int]:
    """Column names and number of rows, without reading the rows."""
    try:
        scan = pl.scan_parquet(path, glob=False)
        columns, rows = tuple(scan.collect_schema().names()), int(scan.select(pl.len()).collect().item())
        most = MOST_GROUP_VALUES // max(len(columns), 1)
        largest = largest_row_group(path) if rows > most else rows
    except _FAILURES:
        raise _damaged(name) from None
    if largest > most:
        raise TableError(
            f"{name} has {largest:,} rows in one row group, too many to read at once: write it again with smaller "
            f"ones, such as polars' write_parquet(…, row_group_size={min(100_000, most):,})."
        )
    return columns, rows


def parquet_blocks(path: str, name: str, rows: int) -> Iterator[pl.DataFrame]:
    """The rows in order, a block at a time."""
    try:
        batches: Any = pl.scan_parquet(path, glob=False).collect_batches(chunk_size=rows, maintain_order=True)
        yield from batches
    except _FAILURES:
        raise _damaged(name) from None


def _damaged(name: str) -> TableError:
    return TableError(f"{name} is a damaged Parquet file, or one that polars cannot read: write it again.")

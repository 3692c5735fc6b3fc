"""One table in many dresses is one table."""

import gzip

import hypothesis
import numpy as np
import polars as pl
import pytest
from hypothesis import strategies as st

from scax.tables import Preprocess, Split, TableError, csv_blocks, open_table, polars_columns, preprocess, table
from scax.tables.parquet_footer import largest_row_group

COLUMNS = {
    "size": [1.5, None, -2e-3, 4.0, 5.0, 1e9],
    "count": [1, 2, 3, 2, 1, 7],
    "color": ["red", "green, dark", 'say "blue"', "red", None, "two\nlines"],
    "new": [True, False, True, True, False, None],
    "y": [0.5, 1.5, 2.25, 3.0, 1.0, -1.0],
}


def _sources(tmp_path):
    frame = pl.DataFrame(COLUMNS)
    frame.write_csv(tmp_path / "t.csv")
    text = (tmp_path / "t.csv").read_bytes()
    (tmp_path / "zipped").write_bytes(gzip.compress(text))
    (tmp_path / "windows.csv").write_bytes(
        b"\xef\xbb\xbf" + text.replace(b"two\nlines", b"two_lines").replace(b"\n", b"\r\n")
    )
    frame.write_csv(tmp_path / "semicolon.csv", separator=";")
    frame.write_csv(tmp_path / "tab.txt", separator="\t")
    frame.write_parquet(tmp_path / "t.parquet")
    files = ["t.csv", "zipped", "semicolon.csv", "tab.txt", "t.parquet"]
    return [*(tmp_path / name for name in files), frame, frame.lazy(), COLUMNS, tmp_path / "windows.csv"]


@pytest.mark.parametrize("wide", [0, 1000], ids=["very many columns", "few columns"])
def test_every_source_gives_the_same_numbers(tmp_path, monkeypatch, wide):
    monkeypatch.setattr(table, "WIDE", wide)
    *same, windows = _sources(tmp_path)
    first = Preprocess.fit(same[0], "y")
    assert [c.kind for c in first.schema.columns] == ["number", "number", "category", "boolean"]
    x, y = first.arrays(same[0])
    for source in same[1:]:
        found = Preprocess.fit(source, "y")
        assert found.to_json() == first.to_json()
        for a, b in zip(found.arrays(source), (x, y), strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(first.transform(source), x)
    assert Preprocess.fit(windows, "y").schema.rows == 6


def test_pandas(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    first = Preprocess.fit(COLUMNS, "y")
    frame = pandas.DataFrame(COLUMNS)
    assert Preprocess.fit(frame, "y").to_json() == first.to_json()
    frame = frame.convert_dtypes().astype({"color": "category"})
    frame.index = range(10, 16)
    assert Preprocess.fit(frame, "y").to_json() == first.to_json()
    frame["when"] = pandas.date_range("2020-01-30", periods=6, tz="Europe/Paris")
    text = frame.assign(when=[f"{day:%Y-%m-%d}" for day in frame["when"]])
    assert Preprocess.fit(frame, "y").to_json() == Preprocess.fit(text, "y").to_json()


def test_numbers_are_read_to_the_last_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f" {v!r} ,{i}\n" for i, v in enumerate(values.tolist())))
    (block,) = open_table(path).blocks()
    np.testing.assert_array_equal(block.column("a").numbers()[0], values)


def test_without_a_header_and_in_another_encoding(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("1,café,3\n2,thé,4.5\n3,café,5\n".encode("latin-1"))
    table = open_table(path, header=False, encoding="latin-1")
    assert table.columns == ("column_1", "column_2", "column_3")
    found = Preprocess.fit(table, "column_3")
    assert found.schema.columns[1].levels == ("café", "thé")


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=6)


@hypothesis.given(
    rows=st.lists(st.tuples(TEXT, st.integers()), min_size=1, max_size=12),
    size=st.integers(20, 60),
    wide=st.sampled_from([0, 1000]),
)
def test_cutting_into_blocks_changes_nothing(rows, size, wide, tmp_path_factory):
    """Any text in quotes, newlines and quotes included, wherever the file is cut."""
    path = tmp_path_factory.mktemp("t") / "t.csv"
    quoted = ['"' + text.replace('"', '""') + '"' for text, _ in rows]
    path.write_bytes(("text,n\n" + "".join(f"{q},{n}\n" for q, (_, n) in zip(quoted, rows, strict=True))).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "BLOCK", size)
        patch.setattr(table, "WIDE", wide)
        blocks = list(open_table(path).blocks())
    assert [b.start for b in blocks] == list(np.cumsum([0] + [b.size for b in blocks[:-1]]))
    numbers = np.concatenate([b.column("n").numbers()[0] for b in blocks])
    np.testing.assert_array_equal(numbers, [float(n) for _, n in rows])
    texts = [b.column("text").text(i) for b in blocks for i in range(b.size)]
    collapse = lambda t: "\n".join(part for part in t.split("\n") if part).strip() if "\n" in t else t.strip()
    assert [collapse(t).replace("None", "") for t in texts] == [collapse(t).replace("None", "") for t, _ in rows]


def test_lines_are_counted_across_blocks(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1,2\n" * 50 + "1\n" + "1,2\n" * 50)
    monkeypatch.setattr(csv_blocks, "BLOCK", 37)
    with pytest.raises(TableError, match=r"1 field.s. in line 52"):
        list(open_table(path).blocks())


def test_a_row_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text('a,y\n1,2\n"' + "1,2\n" * 5000)
    monkeypatch.setattr(csv_blocks, "BLOCK", 64)
    monkeypatch.setattr(csv_blocks, "LONGEST_ROW", 1000)
    with pytest.raises(TableError, match="never closed"):
        list(open_table(path).blocks())


def test_the_index_that_pandas_writes_is_dropped(tmp_path):
    (tmp_path / "t.csv").write_text(",a,y\n" + "".join(f"{i},{i * i % 7},{i * 0.3}\n" for i in range(20)))
    columns = Preprocess.fit(tmp_path / "t.csv", "y").schema.columns
    assert [(c.name, c.kind) for c in columns] == [("unnamed_1", "dropped"), ("a", "number")]


def test_fingerprint_follows_the_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,2\n3,4\n")
    before = open_table(path).fingerprint()
    assert open_table(path).fingerprint() == before
    path.write_text("a,y\n1,2\n3,5\n")
    assert open_table(path).fingerprint() != before


def test_types_of_parquet(tmp_path):
    n = 30
    base = pl.DataFrame({
        "level": pl.Series(["a", "b", None] * 10, dtype=pl.Categorical), "code": [1, 2, 3] * 10,
        "exact": pl.Series(range(n)).cast(pl.Decimal(10, 2)), "y": np.arange(n) / 7,
    })  # fmt: skip
    base.write_parquet(tmp_path / "t.parquet")
    pre = Preprocess.fit(tmp_path / "t.parquet", "y", categories=["code"])
    assert pre.schema.features == ("level=a", "level=b", "level is missing", "code=1", "code=2", "code=3", "exact")
    x = pre.transform(tmp_path / "t.parquet")
    np.testing.assert_array_equal(x[:3, :6], [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]])
    day = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 1, 30), eager=True)
    for series, message in (
        (pl.Series("new", [[1, 2]] * n), r"'new' holds values of type list\(int64\)"),
        (pl.Series("new", [None] * n), "'new' has no values at all"),
    ):
        with pytest.raises(TableError, match=message):
            Preprocess.fit(base.with_columns(series), "y")
    with pytest.raises(TableError, match="'exact' is '2020-01-01T00:00:00' in row 1"):
        pre.transform(base.with_columns(exact=day))


def test_a_parquet_file_damaged_inside(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": np.random.default_rng(0).normal(size=5000), "y": np.arange(5000.0)}).write_parquet(path)
    data = bytearray(path.read_bytes())
    data[100:20_000] = bytes(19_900)
    path.write_bytes(data)
    with pytest.raises(TableError, match="damaged Parquet"):
        Preprocess.fit(path, "y")


def test_object_columns_of_frames():
    import datetime

    y = np.arange(6.0)
    mixed = [1, 2.5, " 3 ", b"4", np.float32(5), None]
    found = Preprocess.fit({"a": np.array(mixed, object), "y": y}, "y")
    assert (found.schema.columns[0].kind, found.schema.columns[0].missing) == ("number", 1)
    days = [datetime.date(2020, 1, 1 + i) for i in range(5)]
    for dates in (
        [*days, None],
        np.array([*days, "NaT"], "datetime64[D]"),
        [*(f"{day:%d.%m.%Y}" for day in days), None],
    ):
        pre = Preprocess.fit({"a": np.array(dates), "y": y}, "y")
        assert [c.name for c in pre.schema.used] == ["a: days since 1970", "a: weekday"]
        np.testing.assert_array_equal(pre.transform({"a": np.array(dates)})[:5, 0].argsort(), range(5))
    with pytest.raises(TableError, match="'a' holds values of type complex128"):
        Preprocess.fit({"a": y + 1j, "y": y}, "y")
    with pytest.raises(TableError, match="holds values of type complex128: choose a column"):
        Preprocess.fit({"a": y, "y": y + 1j}, "y")


def test_rows_are_encoded_a_few_at_a_time(tmp_path, monkeypatch):
    """So that a category of many levels does not take more memory than the table is worth."""
    for source in _sources(tmp_path)[:8]:
        found = Preprocess.fit(source, "y")
        whole = found.arrays(source, Split(0.3))
        with monkeypatch.context() as patch:
            patch.setattr(preprocess, "ENCODED_BYTES", 2 * 4 * found.schema.width)
            assert [len(part) for part in found.parts(source)] == [2, 2, 2]
            for a, b in zip(found.arrays(source, Split(0.3)), whole, strict=True):
                np.testing.assert_array_equal(a, b)
    assert found.bytes() == 6 * (found.schema.width + 1) * 4
    with pytest.raises(TableError, match=r"takes more than .* bytes encoded: give fewer rows"):
        found.arrays(source, most=found.bytes() - 1)
    assert len(found.arrays(source, most=found.bytes())[0]) == 6


def test_a_table_with_more_rows_than_were_surveyed():
    found = Preprocess.fit(COLUMNS, "y")
    longer = {name: values * 5 for name, values in COLUMNS.items()}
    x, y = found.arrays(longer)
    np.testing.assert_array_equal(x, np.tile(found.transform(COLUMNS), (5, 1)))
    np.testing.assert_array_equal(y, np.tile(found.target(COLUMNS), 5))


@pytest.mark.parametrize("wide", [0, 1000])
def test_texts_that_come_late_are_counted_from_the_top(tmp_path, monkeypatch, wide):
    monkeypatch.setattr(csv_blocks, "BLOCK", 64)
    monkeypatch.setattr(table, "WIDE", wide)
    path = tmp_path / "t.csv"
    rows = [f"{i % 3},{i}.5\n" for i in range(60)] + [f"{'uv'[i % 2]},{i}.5\n" for i in range(60)]
    path.write_text("a,y\n" + "".join(rows))
    (column,) = Preprocess.fit(path, "y").schema.columns
    assert column.levels == ("0", "1", "2", "u", "v")
    path.write_text("a,y\n" + "".join(rows[:65]))
    with pytest.raises(TableError, match=r"'a' has numbers, but 'u' in row 61 \(5 such row"):
        Preprocess.fit(path, "y")


def test_row_groups(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    columns = {"a": list(range(50)), "b": ["é"] * 50, "c": [True, None] * 25, "d": [[1, 2]] * 50}
    for size in (7, 50, 1000):
        pl.DataFrame(columns).write_parquet(path, row_group_size=size)
        assert largest_row_group(str(path)) == min(size, 50)
    monkeypatch.setattr(polars_columns, "MOST_GROUP_VALUES", 40)
    with pytest.raises(TableError, match="50 rows in one row group"):
        open_table(path)
    pl.DataFrame(columns).write_parquet(path, row_group_size=7)
    assert open_table(path).rows == 50
    whole = path.read_bytes()
    refused = 0
    for cut in range(1, 400, 3):  # no other error, whatever the footer is
        path.write_bytes(whole[: -8 - cut] + whole[-8:])
        try:
            largest_row_group(str(path))
        except ValueError:
            refused += 1
    assert refused > 100

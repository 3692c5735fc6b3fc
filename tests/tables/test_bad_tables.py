"""Every way a table can be wrong has its sentence: what, where, what to do."""

import gzip
import os

import pytest

from scax.tables import Preprocess, TableError, open_table
from scax.tables import table as table_module

GOOD = "a,b,y\n" + "".join(f"{i + 5},{i % 3},{i * 0.5 + (i % 7)}\n" for i in range(40))


def _fit(tmp_path, text, target="y", **options):
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Preprocess.fit(path, target, **options)


def _with(column, values):
    """The good table with one more column."""
    lines = GOOD.splitlines()
    rows = [f"{line},{value}" for line, value in zip(lines[1:], values, strict=True)]
    return "\n".join([f"{lines[0]},{column}", *rows]) + "\n"


def test_the_good_table_is_good(tmp_path):
    assert _fit(tmp_path, GOOD).schema.width == 2


CASES = {
    "empty": ("", "t.csv is empty"),
    "blank lines": ("\n\n  \n", "is empty"),
    "header only": ("a,b,y\n", "has a header but no rows"),
    "one row": ("a,b,y\n1,2,3\n", "has one row: training needs at least two"),
    "one column": ("y\n1\n2\n", "has one column"),
    "no header": ("1,2,3\n4,5,6\n7,8,9\n", "has no header: its first line is all numbers"),
    "repeated name": ("a,a,y\n1,2,3\n3,4,5\n", "two columns named 'a'"),
    "constant target": ("a,y\n1,2\n2,2\n", "is always '2': there is nothing to learn"),
    "classes of one row": (
        "a,y\n" + "".join(f"{i},c{i}\n" for i in range(40)),
        "'y' is another class in every row, and a class is learned from several: choose another column, or group them",
    ),
    "missing target": ("a,y\n1,2\n2,\n3,5\n", "missing in 1 row.s., the first of them row 2: remove"),
    "infinite target": ("a,y\n1,2.5\n2,inf\n3,5\n", "infinite in row 2"),
    "all missing": (_with("c", [""] * 40), "column 'c' has no values at all: remove it, or leave it out"),
    "all NA": (_with("c", ["NA", " nan ", "?", "null"] * 10), "column 'c' has no values at all"),
    "text among numbers": (
        _with("c", [1.5 * i if i != 16 else "about 4" for i in range(40)]),
        r"'c' has numbers, but 'about 4' in row 17 \(1 such row",
    ),
    "units among numbers": (
        _with("c", [f'"1,{i:03d}"' if i != 7 else "6 kg" for i in range(40)]),
        r"column 'c' has numbers such as '1,\d+', but '6 kg' among them: correct it or leave it empty",
    ),
    "infinite": (_with("c", [i if i != 3 else "-inf" for i in range(40)]), r"'c' is infinite in row 4 \(-inf\)"),
    "overflow": (_with("c", [i if i != 3 else "1e999" for i in range(40)]), "'c' is infinite in row 4"),
    "huge": (_with("c", [i if i != 3 else "1e200" for i in range(40)]), "'c' has numbers beyond 1e150"),
    "dates of any order": (
        _with("c", [f"{i % 12 + 1}/{i % 11 + 1}/2020" for i in range(40)]),
        r"'c' holds dates such as '\d+/\d+/2020', and every one may have the day or the month first: write them as",
    ),
    "no date": (
        _with("c", [f"2020-01-{i % 28 + 1:02d}" if i != 9 else "soon" for i in range(40)]),
        r"'c' holds dates or times, not all of them .*\('soon' is none\).*or leave the column out \(drop, --drop\)",
    ),
    "dates that are none": (
        _with("c", [f"2020-02-{i % 31 + 1:02d}" for i in range(40)]),
        "'c' holds dates or times, not",
    ),
    "text": (_with("c", [f"the quick brown fox {i}" for i in range(40)]), "'c' holds text"),
    "too many levels": (
        _with("c", [f"c{i % 30}" for i in range(40)]),
        "30 different values, and a category at most 10",
    ),
    "ragged, long": ("a,b,y\n1,2,3\n1,2,3,4\n", "4 field.s. in line 3 and 3 columns"),
    "ragged, short": ("a,b,y\n1,2,3\n1,2\n", "2 field.s. in line 3 and 3 columns"),
    "ragged, both": ("a,b,y\n1,2,3\n1,2\n1,2,3,4\n", "2 field.s. in line 3"),
    "ragged, quoted": ('a,b,y\n1,"2,3",3\n1,"2\n"\n', "2 field.s. in line"),
    "unclosed quote": ('a,b,y\n1,"2,3\n4,5,6\n', "double quote is never closed"),
    "quoted header": ('"a\nb"x,"y\n1,2\n', r"double quote"),
    "stray quotes": ('a,b,y\n1,x"y,3\n4,z"w,6\n', r"double quote|field"),
    "latin-1": ("a,b,y\n1,café,3\n".encode("latin-1"), "not UTF-8 in line 2. .*encoding='latin-1'"),
    "UTF-16": ("a,b,y\n1,2,3\n".encode("utf-16"), "UTF-16"),
    "zero bytes": (b"a,b,y\n1,2\0,3\n", r"zero bytes \(line 2\)"),
    "Excel": (b"PK\x03\x04stuff", "Excel workbook or a zip"),
    "SQLite": (b"SQLite format 3", "neither CSV"),
    "bad Parquet": (b"PAR1nonsense PAR1", "damaged Parquet"),
    "cut gzip": (gzip.compress(GOOD.encode() * 20)[:-20], "damaged gzip"),
    "not gzip": (b"\x1f\x8bnonsense nonsense", "damaged gzip"),
    "text target": (
        "a,y\n" + "".join(f"{i},{i if i != 30 else 'none yet'}\n" for i in range(40)),
        "target 'y' has numbers, but 'none yet' in row 31",
    ),
    "only ids": ("id,c,y\n" + "".join(f"{i},7,{i % 2}\n" for i in range(20)), "no column to predict 'y' from"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_table(tmp_path, name):
    text, message = CASES[name]
    with pytest.raises(TableError, match=message) as caught:
        _fit(tmp_path, text, max_levels=10)
    said = str(caught.value)
    assert len(said) < 400
    assert said.endswith(".")
    assert "\n" not in said


def test_all_problems_are_listed_at_once(tmp_path):
    text = "a,when,words,y\n" + "".join(
        f"{i},{i % 9 + 1}/{i % 8 + 1}/2020,the quick brown fox {i},{i * 0.5}\n" for i in range(40)
    )
    text = text.replace("\n3,", "\nthree,")
    with pytest.raises(TableError) as caught:
        _fit(tmp_path, text)
    first, *lines = str(caught.value).split("\n")
    assert first == "t.csv has 3 problems:"
    assert [line.split("'")[1] for line in lines] == ["when", "a", "words"]
    assert all("leave it" in line or "leave the column out" in line for line in lines)


def test_bad_files(tmp_path):
    with pytest.raises(TableError, match="does not exist: check the name"):
        open_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="is a directory"):
        open_table(tmp_path)
    with pytest.raises(TableError, match="could not be read"):
        open_table("a\0b")
    with pytest.raises(TableError, match=r"^x{299}… could not be read: File name too long"):
        open_table("x" * 100_000)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(TableError, match="not a regular file"):
            open_table(tmp_path / "pipe")


def test_unreadable_file(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text(GOOD)

    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(table_module, "open", refuse, raising=False)
    with pytest.raises(TableError, match="may not be read: ask for permission"):
        open_table(tmp_path / "t.csv")


def test_no_such_target_names_the_nearest(tmp_path):
    text = "Price,size,y\n1,2,3\n4,5,6\n"
    with pytest.raises(TableError, match=r"no column 'prize'\. Did you mean 'Price'\?"):
        _fit(tmp_path, text, "prize")
    with pytest.raises(TableError, match=r"It has 'Price', 'size', 'y'\."):
        _fit(tmp_path, text, "qqqq")
    with pytest.raises(TableError, match=r"drop: .*no column 'siz'\. Did you mean 'size'"):
        _fit(tmp_path, text, drop=["siz"])
    with pytest.raises(TableError, match="is the target and is to be dropped"):
        _fit(tmp_path, text, drop=["y"])


def test_bad_options(tmp_path):
    with pytest.raises(TableError, match="task='rank' is not known"):
        _fit(tmp_path, GOOD, task="rank")
    with pytest.raises(TableError, match="max_levels must be"):
        _fit(tmp_path, GOOD, max_levels=1)
    (tmp_path / "t.csv").write_text(GOOD)
    with pytest.raises(TableError, match="cannot be read as 'klingon'"):
        open_table(tmp_path / "t.csv", encoding="klingon")
    with pytest.raises(TableError, match="cannot be read as 'utf-16'"):
        open_table(tmp_path / "t.csv", encoding="utf-16")
    with pytest.raises(TableError, match="A table is a path"):
        open_table(3)
    with pytest.raises(TableError, match="of one length"):
        open_table({"a": [1], "b": [1, 2]})


def test_wrong_task_for_the_target(tmp_path):
    words = "a,y\n1,red\n2,blue\n3,red\n"
    with pytest.raises(TableError, match=r"not a number in row 1 \('red'\)"):
        _fit(tmp_path, words, task="regression")
    many = "a,y\n" + "".join(f"{i},{i}.5\n" for i in range(1500))
    with pytest.raises(TableError, match=r"1,500 different values, and classes are at most 1,000: use regression"):
        _fit(tmp_path, many, task="classification")


def test_a_million_categories(tmp_path):
    text = "c,y\n" + "\n".join(f"c{i},{i % 2}" for i in range(1_000_000))
    with pytest.raises(TableError, match=r"'c' has more than 10,000 different values, and a category at most 100"):
        _fit(tmp_path, text)
    with pytest.raises(TableError, match=r"the target 'c' has more than 10,000 different values"):
        _fit(tmp_path, text[:200_000].rpartition("\n")[0], "c")


def test_leakage_is_a_warning(tmp_path):
    for column, told in (
        ([line.split(",")[2] for line in GOOD.splitlines()[1:]], "'c' equals the target in every row"),
        ([2 * float(line.split(",")[2]) + 1 for line in GOOD.splitlines()[1:]], "'c' is the target in other units"),
    ):
        (warning,) = _fit(tmp_path, _with("c", column)).schema.warnings
        assert told in warning
    same = "a,c,y\n" + "".join(f"{i * i},{'xy'[i % 2]},{'xy'[i % 2]}\n" for i in range(30))
    assert "'c' equals the target" in _fit(tmp_path, same).schema.warnings[0]
    assert not _fit(tmp_path, GOOD).schema.warnings


def test_more_columns_than_are_read(tmp_path, monkeypatch):
    from scax.tables import csv_blocks

    monkeypatch.setattr(csv_blocks, "MOST_COLUMNS", 3)
    with pytest.raises(TableError, match="more than 3 columns"):
        _fit(tmp_path, _with("c", range(40)))
    assert _fit(tmp_path, GOOD).schema.width == 2

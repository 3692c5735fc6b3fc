"""Numbers and dates that are written in another way than Python's."""

import numpy as np
import pytest

from scax.tables import Preprocess, TableError, open_table
from scax.tables.readings import COMMA, POINT, date_forms, day, number_forms, plain

RNG = np.random.default_rng(0)
N = 60
Y = RNG.normal(size=N)


def _fit(**columns):
    return Preprocess.fit({**columns, "y": Y}, "y")


def _values(pre, name):
    """What the model makes of a column, in its own units."""
    used = [c.name for c in pre.schema.used]
    j, at = used.index(name), sum(c.width for c in pre.schema.used[: used.index(name)])
    return lambda table: pre.transform(table)[:, at] * pre.scale[j] + pre.mean[j]


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (POINT, "4,148", 4148), (POINT, "-1,234,567.5", -1234567.5), (POINT, "$9.50", 9.5), (POINT, "12 %", 12),
        (POINT, "- £1 000", -1000), (POINT, "7e3", 7000), (COMMA, "4,148", 4.148), (COMMA, "1.234.567,5", 1234567.5),
        (COMMA, ",5", 0.5), (COMMA, "3 €", 3), (COMMA, "17'000", 17000), (POINT, "1,23", None), (COMMA, "1,2,3", None),
    ],
)  # fmt: skip
def test_a_text_of_a_form_is_a_number(form, text, value):
    assert plain(form, text) == value


def test_forms_that_all_texts_have():
    assert number_forms(["4,148", "12"]) == (POINT, COMMA)
    assert number_forms(["4,148", "0,640"]) == (COMMA,)
    assert number_forms(["4,148", "2.5"]) == (POINT,)
    assert number_forms(["4,148", "red"]) == ()
    assert date_forms(["2024-01-31", "2024-02-01 12:30"]) == ("iso",)
    assert date_forms(["31/01/2024", "01/02/2024"]) == ("%d/%m/%Y",)
    assert len(date_forms(["01/02/2024", "03/04/2024"])) == 2
    assert date_forms(["2024-02-30"]) == ()
    assert day("%d.%m.%Y", "02.01.1970") == 1


@pytest.mark.parametrize("others", [{}, {"other": [f"{v:.1f}".replace(".", ",") for v in Y]}])
def test_three_digits_behind_a_comma_mean_what_the_other_columns_say(others):
    texts = [f"{i},{RNG.integers(1000):03d}" for i in range(1, N + 1)]
    pre = _fit(a=texts, **others)
    (warning,) = pre.schema.warnings
    assert f"'a': '{texts[0]}' is read as" in warning
    expected = [float(text.replace(",", "." if others else "")) for text in texts]
    np.testing.assert_allclose(_values(pre, "a")({"a": texts, **others}), expected, rtol=1e-5)


def test_points_part_groups_where_commas_are_decimal(tmp_path):
    path, groups = tmp_path / "t.csv", [f"{i}.{i:03d}" for i in range(1, N + 1)]
    numbers = [f"{v:.2f}".replace(".", ",") for v in Y]
    path.write_text("a;y\n" + "".join(f"{g};{v}\n" for g, v in zip(groups, numbers, strict=True)))
    pre = Preprocess.fit(path, "y")
    np.testing.assert_allclose(_values(pre, "a")(path), [float(g.replace(".", "")) for g in groups], rtol=1e-5)
    np.testing.assert_allclose(pre.restore(pre.target(path)), np.round(Y, 2), atol=1e-6)
    path.write_text(
        "a;b;y\n" + "".join(f"{g};{i}.5;{v}\n" for i, (g, v) in enumerate(zip(groups, numbers, strict=True)))
    )
    pre = Preprocess.fit(path, "y")  # another column has decimal points
    np.testing.assert_allclose(_values(pre, "a")(path), [float(g) for g in groups], rtol=1e-5)


def test_a_date_becomes_its_parts_and_is_read_again(tmp_path):
    days = np.datetime64("2023-12-25T06:00") + np.arange(N) * np.timedelta64(37, "h")
    texts = [str(d).replace("T", " ") for d in days]
    pre = _fit(when=texts)
    names = [c.name for c in pre.schema.used]
    assert names == [f"when: {part}" for part in ("days since 1970", "year", "month", "weekday", "hour")]
    read = {name.partition(": ")[2]: _values(pre, name)({"when": days}) for name in names}  # dates of another kind
    np.testing.assert_allclose(
        read["days since 1970"], (days - np.datetime64(0, "s")) / np.timedelta64(1, "D"), rtol=1e-6
    )
    np.testing.assert_allclose(read["hour"], [int(t[11:13]) for t in texts], atol=1e-4)
    np.testing.assert_allclose(read["month"], [int(t[5:7]) - 1 for t in texts], atol=1e-4)
    np.testing.assert_allclose(read["weekday"][:7], np.array([d.astype(object).weekday() for d in days[:7]]), atol=1e-4)
    again = Preprocess.from_json(pre.to_json())
    np.testing.assert_array_equal(again.transform({"when": texts}), pre.transform({"when": texts}))
    with pytest.raises(TableError, match="'when' is 'soon' in row 2, where the model expects a date"):
        pre.transform({"when": [texts[0], "soon"]})
    with pytest.raises(TableError, match="no column 'when'"):
        pre.transform({"other": texts})


def test_times_of_a_day_become_hours():
    pre = _fit(at=[f"{i % 24}:30" for i in range(N)])
    np.testing.assert_allclose(_values(pre, "at: hour")({"at": ["07:45", "23:00"]}), [7.75, 23], atol=1e-5)


def test_a_target_with_signs_is_a_number(tmp_path):
    prices = [f"${1000 + 17 * i:,}.50" for i in range(N)]
    pre = Preprocess.fit({"a": RNG.normal(size=N), "price": prices}, "price")
    assert pre.schema.target.task == "regression"
    assert pre.restore(pre.target({"price": ["$1,500.25"]}))[0] == pytest.approx(1500.25)
    assert Preprocess.from_json(pre.to_json()).target({"price": prices[:3]}) == pytest.approx(
        pre.target({"price": prices[:3]})
    )


def test_rare_levels_share_what_is_left():
    colors = ["red"] * 30 + ["blue"] * 22 + [f"shade {i}" for i in range(8)]
    (column,) = _fit(c=colors).schema.used
    assert (column.levels, column.note) == (("blue", "red"), "8 rare values count as none of the levels")
    (column,) = _fit(c=["red"] * 30 + ["blue"] * 27 + ["green"] * 3).schema.used
    assert column.levels == ("blue", "green", "red")  # one alone has its own
    many = [f"c{i % 20}" for i in range(N)]
    assert len(_fit(c=many).schema.used[0].levels) == 20  # or little would be left


def test_a_column_that_counts_the_rows_is_told_of():
    assert any("numbers the rows" in told for told in _fit(t=list(range(N))).schema.warnings)
    assert any("numbers the rows" in told for told in _fit(t=list(range(50_000, 50_000 + N))).schema.warnings)
    assert not _fit(t=list(range(1900, 1900 + N))).schema.warnings


def test_a_column_is_read_from_any_block_of_rows():
    table = open_table({"a": ["1,5", "2,5", None], "y": [1, 2, 3]})
    pre = _fit(a=["1,5", "2,5", "0,5"] * 20)
    parts = [part for block in pre.read(table).blocks() for part in block.pieces(1)]
    assert [part.column("a").numbers()[0][0] for part in parts[:2]] == [1.5, 2.5]
    assert parts[2].column("a").missing()[0]

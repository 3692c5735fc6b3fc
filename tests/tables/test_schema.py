"""What a column is found to be, and what is shown and saved of it."""

import json

import numpy as np
import pytest

from scax.tables import Preprocess, Schema, TableError

N = 60
RNG = np.random.default_rng(0)
Y = RNG.normal(size=N)


def _kind(values, name="c", **options):
    pre = Preprocess.fit({name: values, "other": RNG.normal(size=N), "y": Y}, "y", **options)
    return pre.schema.columns[0]


def test_kinds():
    assert _kind(RNG.normal(size=N)).kind == "number"
    assert _kind([str(v) for v in range(N)][::-1]).kind == "number"
    assert _kind(["yes", "No"] * 30).kind == "boolean"
    assert _kind([True, False] * 30).kind == "boolean"
    assert _kind(["t", "y"] * 30).kind == "category"
    found = _kind(["b", "a", None, "10", "9", " a "] * 10)
    assert (found.kind, found.levels, found.indicator, found.missing) == ("category", ("9", "10", "a", "b"), True, 10)
    assert _kind([1, 2, 3] * 20, categories=["c"]).levels == ("1", "2", "3")
    assert _kind([1.0, np.nan, 3.5] * 20, categories=["c"]).levels == ("1", "3.5")


def test_dropped():
    for values, name in (
        ([7] * N, "c"),
        (["x"] * N, "c"),
        ([True] * N, "c"),
        (list(range(N)), "id"),
        (list(RNG.permutation(N)), "customer_id"),
        (list(range(N)), "passengerId"),
        ([f"u{i}" for i in range(N)], "user id"),
        ([f"u{i}" for i in range(N)], "name"),
    ):
        found = _kind(values, name)
        assert found.kind == "dropped", (values, name)
        assert found.note.startswith("dropped: ")
        assert found.width == 0
    assert _kind(list(range(N)), "year").kind == "number"
    assert _kind([1, 2] * 30, "id").kind == "number"
    assert _kind([7.0, np.nan] * 30).kind == "number"  # its being missing may matter


def test_asked_to_drop():
    pre = Preprocess.fit({"a": Y * 2, "b": RNG.normal(size=N), "y": Y}, "y", drop=["a"])
    assert [(c.name, c.kind) for c in pre.schema.columns] == [("b", "number"), ("a", "dropped")]
    assert pre.schema.warnings == ()


@pytest.mark.parametrize(
    ("y", "task", "classes"),
    [
        (Y, "regression", ()),
        (list(range(N)), "regression", ()),
        ([0, 1] * 30, "classification", (0, 1)),
        ([1.0, 2.0, 3.0] * 20, "classification", (1, 2, 3)),
        ([0.5, 1.5] * 30, "regression", ()),
        (["0", "1"] * 30, "classification", (0, 1)),
        (["b", "a", "c"] * 20, "classification", ("a", "b", "c")),
        (["yes", "no"] * 30, "classification", ("no", "yes")),
        (["True", "False"] * 30, "classification", (False, True)),
        ([True, False] * 30, "classification", (False, True)),
        (list(range(15)) * 4, "regression", ()),  # too few rows of each
    ],
)
def test_target(y, task, classes):
    pre = Preprocess.fit({"a": RNG.normal(size=N), "y": y}, "y")
    assert (pre.schema.target.task, pre.schema.target.classes) == (task, classes)
    assert all(type(a) is type(b) for a, b in zip(pre.schema.target.classes, classes, strict=True))
    found = pre.target({"y": y, "a": y})
    if task == "regression":
        np.testing.assert_allclose(pre.restore(found), np.asarray(y, float), rtol=1e-6, atol=1e-6)
        assert abs(found.mean()) < 1e-6
    else:
        assert found.dtype == (np.float32 if len(classes) == 2 else np.int32)
        assert [str(classes[int(i)]) for i in found] == [str(v).removesuffix(".0") for v in y]


def test_task_can_be_chosen():
    table = {"a": RNG.normal(size=N), "y": [0, 1, 2] * 20}
    assert Preprocess.fit(table, "y", task="regression").schema.target.task == "regression"
    table["y"] = [0.5, 1.5] * 30
    assert Preprocess.fit(table, "y", task="classification").schema.target.classes == ("0.5", "1.5")


def test_shown_to_people():
    table = {"size": [1.0, np.nan, 3.0] * 20, "color": ["r", "g", "b"] * 20, "id": range(N), "y": [0, 1] * 30}
    schema = Preprocess.fit({k: list(v) for k, v in table.items()}, "y").schema
    assert schema.show() == [
        ("size", "number", "20 missing"),
        ("color", "category (3)", ""),
        ("id", "dropped", "numbers the rows"),
        ("y", "target: 2 classes", "whole numbers, few of them: taken as classes"),
    ]
    assert schema.features == ("size", "size is missing", "color=b", "color=g", "color=r")
    assert (schema.width, schema.outputs, schema.rows) == (5, 1, N)


def test_json_round_trip_and_refusals():
    table = {"size": [1.0, np.nan, 3.0] * 20, "color": ["r", "g", "b"] * 20, "y": ["u", "v", "w"] * 20}
    pre = Preprocess.fit(table, "y")
    text = json.dumps(pre.to_json())
    back = Preprocess.from_json(json.loads(text))
    assert back.schema == pre.schema
    assert json.dumps(back.to_json()) == text
    np.testing.assert_array_equal(back.transform(table), pre.transform(table))
    with pytest.raises(TableError, match="format 2"):
        Schema.from_json(pre.schema.to_json() | {"version": 2})
    for broken in (
        None,
        [],
        {},
        {"version": 1},
        pre.schema.to_json() | {"target": {}},
        pre.schema.to_json() | {"columns": 3},
        pre.schema.to_json() | {"version": 10**400},
    ):
        with pytest.raises(TableError, match=r"The schema is damaged: .*: write it again"):
            Schema.from_json(broken)
    for change in ({"mean": [0.0]}, {"scale": [0.0, 1.0]}, {"median": [float("nan"), 0.0]}, {"target_scale": -1}):
        with pytest.raises(TableError, match=r"does not fit|not finite"):
            Preprocess.from_json(pre.to_json() | change)


def test_dressed_numbers_may_be_categories_and_words_are_not_numbers():
    table = {"c": [f"{i % 3}0%" for i in range(30)], "d": [f"size {i % 3}" for i in range(30)], "y": list(range(30))}
    found = Preprocess.fit(table, "y", categories=("c",)).schema
    assert [c.kind for c in found.columns] == ["category", "category"]


def test_a_strangers_schema_is_one_that_can_be_followed():
    """A name of a form that no code reads, classes of two kinds, nothing to encode: refused where it is read."""
    whole = Preprocess.fit({"day": ["01.03.2024", "15.04.2024", "30.05.2025"] * 20, "y": ["u", "v", "w"] * 20}, "y")
    columns, target = (whole.schema.to_json()[name] for name in ("columns", "target"))
    assert Schema.from_json(whole.schema.to_json()) == whole.schema
    dates = [c | {"part": ""} for c in columns], [c | {"form": "1.234,5"} for c in columns]
    nothing = [c | {"kind": "dropped", "levels": [], "edges": []} for c in columns]
    for odd in (*dates, [c | {"form": "%Q"} for c in columns], [c | {"source": ""} for c in columns]):
        with pytest.raises(TableError, match="in no known way"):
            Schema.from_json(whole.schema.to_json() | {"columns": odd})
    with pytest.raises(TableError, match="none of its columns is encoded"):
        Schema.from_json(whole.schema.to_json() | {"columns": nothing})
    for classes in (["u"], [], [0, "u"], [False, 1], ["u", "u"], [2, 1], [1, 1], [True, False]):
        with pytest.raises(TableError, match="its classes"):
            Schema.from_json(whole.schema.to_json() | {"target": target | {"classes": classes}})
    with pytest.raises(TableError, match="the target is read in no known way"):
        Schema.from_json(whole.schema.to_json() | {"target": target | {"form": "%d.%m.%Y"}})

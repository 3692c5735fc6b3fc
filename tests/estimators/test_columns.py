"""Estimators on columns as people have them: frames, texts, dates, missing values, sparse matrices."""

import datetime
import decimal

import numpy as np
import polars
import pytest
from scipy.sparse import csr_matrix

from scax.estimators import SCARegressor
from scax.estimators.columns import Columns

SMALL = {"hidden_layer_sizes": 4, "alpha": 1e-3, "max_iter": 10, "n_members": 1, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def _table(rows=120):
    random = np.random.default_rng(0)
    color = random.choice(["red", "green", "blue"], rows)
    size = random.normal(size=rows)
    y = size + 2.0 * (color == "red")
    days = [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=5 * i) for i in range(rows)]
    size[:7] = np.nan
    table = {"size": size, "color": color, "big": size > 0, "when": days, "rare": ["a"] * (rows - 2) + ["b", "c"]}
    return table, y


def _frame(library, table):
    return pytest.importorskip(library).DataFrame(table)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_expanded(library):
    table, y = _table()
    frame = _frame(library, table)
    columns = Columns.of(frame, "from_dtype")
    assert [c.kind for c in columns.columns] == ["number", "category", "number", "date", "category"]
    assert columns.columns[1].levels == ("blue", "green", "red")
    assert columns.columns[4].levels == ("a",)  # two values in a row each share what is left
    matrix = columns.read(frame)
    np.testing.assert_array_equal(columns.source, [0, 1, 2, 3, 3, 3, 3, 3, 4])
    np.testing.assert_array_equal(matrix[:7, 0], np.nan)
    np.testing.assert_allclose(matrix[9, 3:8], [19723 + 45 / 24, 2024, 0, 1, 21])  # Tuesday, 21 h
    model = SCARegressor(**SMALL | {"max_iter": 60}).fit(frame, y)
    assert model.score(frame, y) > 0.9
    assert model.features_used_.shape == (5,)
    np.testing.assert_array_equal(model.feature_names_in_, list(table))
    # a level never seen counts as none, a missing one as the others that are missing
    new = _frame(
        library,
        {name: list(values[:3]) for name, values in table.items()} | {"color": [str(table["color"][0]), "pink", None]},
    )
    assert np.isfinite(model.predict(new)).all()
    np.testing.assert_allclose(model.predict(new)[0], model.predict(frame)[0])


def test_categories_of_an_array_are_levels():
    random = np.random.default_rng(0)
    codes = random.integers(0, 5, 200).astype(float)
    y = np.array([3.0, -1, 2, 0, 5])[codes.astype(int)]
    x = np.column_stack([codes, random.normal(size=200)])
    for categorical in ([0], [True, False]):
        model = SCARegressor((), alpha=1e-6, categorical_features=categorical, n_members=1).fit(x, y)
        assert model.score(x, y) > 0.999
    assert SCARegressor((), alpha=1e-6, n_members=1).fit(x, y).score(x, y) < 0.9
    with pytest.raises(ValueError, match="'a', which is no column"):
        SCARegressor(categorical_features=["a"]).fit(x, y)
    with pytest.raises(ValueError, match=r"places \[7\]; X has 2"):
        SCARegressor(categorical_features=[7]).fit(x, y)


def test_a_sparse_matrix_is_its_numbers():
    random = np.random.default_rng(0)
    x = np.where(random.random((90, 6)) < 0.7, 0, random.normal(size=(90, 6)))
    y = x[:, 0] - x[:, 1]
    model = SCARegressor(**SMALL).fit(csr_matrix(x), y)
    np.testing.assert_array_equal(model.predict(csr_matrix(x)), SCARegressor(**SMALL).fit(x, y).predict(x))


def test_types_that_are_neither():
    pandas, rows = pytest.importorskip("pandas"), range(2)
    with pytest.raises(ValueError, match="'a' holds values of type List"):
        SCARegressor().fit(polars.DataFrame({"a": [[1], [2]]}), [1.0, 2.0])
    for value in ([1], {"k": 1}, {1}, (1, 2), np.zeros(2), 1j):
        with pytest.raises(ValueError, match=f"'a' holds values of type {type(value).__name__}: make columns"):
            SCARegressor().fit(pandas.DataFrame({"b": [0, 1], "a": [value for _ in rows]}), [1.0, 2.0])
        with pytest.raises(ValueError, match=f"'a' holds values of type {type(value).__name__}"):
            SCARegressor().fit(pandas.DataFrame({"a": [None, value]}), [1.0, 2.0])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_pythons_own_numbers_and_dates(library):
    days = [datetime.date(2024, 1, 1 + i) for i in range(20)]
    prices = [decimal.Decimal(i) / 2 for i in range(20)]
    frame = _frame(library, {"day": [None, *days[1:]], "price": [*prices[:-1], None]})
    columns = Columns.of(frame, "from_dtype")
    assert [c.kind for c in columns.columns] == ["date", "number"]
    np.testing.assert_allclose(columns.read(frame)[1, :5], [19724, 2024, 0, 1, 0])
    np.testing.assert_allclose(columns.read(frame)[:-1, 5], np.arange(19) / 2)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_of_another_kind_than_the_network_knows_is_named(library):
    days = [datetime.datetime(2024, 1, 1 + i) for i in range(20)]
    kinds = {"numbers": list(range(20)), "categories": ["x", "y"] * 10, "dates": days}
    for held, values in kinds.items():
        columns = Columns.of(_frame(library, {"a": values}), "from_dtype")
        assert np.isnan(columns.read(_frame(library, {"a": [None] * 20}))).all()
        for holds, other in kinds.items():
            if held == "categories" or holds == held:
                columns.read(_frame(library, {"a": other}))
                continue
            with pytest.raises(ValueError, match=f"'a' holds {holds}, and the network was fitted to {held}"):
                columns.read(_frame(library, {"a": other}))

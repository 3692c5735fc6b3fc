"""Encoding: against the plain formulas, on training rows only, and on tables that differ from the one fitted."""

import numpy as np
import pytest

from scax.tables import Preprocess, Split, TableError, Tally, survey
from scax.tables.encode import BINS, Encoding

N = 500


def _table(seed=0):
    rng = np.random.default_rng(seed)
    size = 1e6 + rng.normal(size=N)
    size[rng.random(N) < 0.1] = np.nan
    return {
        "size": size,
        "color": rng.choice(np.array(["r", "g", None], object), N),
        "flag": rng.choice(["yes", "no"], N),
        "y": 100 + 5 * rng.normal(size=N),
    }


def test_against_the_formulas():
    table, split = _table(), Split(0.2, seed=3)
    pre = Preprocess.fit(table, "y", split=split)
    train = ~split.held_out(0, N)
    median = np.nanmedian(table["size"][train])
    filled = np.where(np.isnan(table["size"]), median, table["size"])
    wanted = np.stack(
        [
            (filled - filled[train].mean()) / filled[train].std(),
            np.isnan(table["size"]),
            table["color"] == "g",
            table["color"] == "r",
            table["color"] == None,  # noqa: E711
            table["flag"] == "yes",
        ],
        axis=1,
    )
    np.testing.assert_allclose(pre.transform(table), wanted, atol=1e-5)
    y = (table["y"] - table["y"][train].mean()) / table["y"][train].std()
    np.testing.assert_allclose(pre.target(table), y, atol=1e-5)
    np.testing.assert_allclose(pre.restore(y), table["y"])
    parts = pre.arrays(table, split)
    for part, whole, rows in zip(parts, (wanted, y, wanted, y), (train, train, ~train, ~train), strict=True):
        np.testing.assert_allclose(part, whole[rows], atol=1e-5)
    raw = Preprocess.fit(table, "y", split=split, standardize_target=False)
    np.testing.assert_allclose(raw.target(table), table["y"], rtol=1e-6)


def test_blocks_change_nothing_but_rounding(monkeypatch):
    table = _table()
    whole = Preprocess.fit(table, "y")
    monkeypatch.setattr("scax.tables.table.ROWS", 7)
    parts = Preprocess.fit(table, "y")
    assert parts.schema == whole.schema
    np.testing.assert_array_equal(parts.median, whole.median)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-14)
    np.testing.assert_allclose(parts.scale, whole.scale, rtol=1e-10)
    np.testing.assert_array_equal(
        whole.transform(table), np.concatenate([whole.transform(_rows(table, i)) for i in range(N)])
    )


def _rows(table, i):
    return {name: values[i : i + 1] for name, values in table.items()}


def test_median_of_a_sample(monkeypatch):
    """Beyond the sample's capacity every row has the same chance to be in it."""
    monkeypatch.setattr(survey, "SAMPLE_BYTES", 0)  # the least: 1000 rows
    kept = np.zeros(5000)
    for seed in range(200):
        sample = survey.Sample(1, seed)
        for start in range(0, 5000, 700):
            sample.add(np.arange(start, min(start + 700, 5000), dtype=float)[:, None])
        assert sample.values.shape == (1000, 1)
        assert len(np.unique(sample.values)) == 1000
        kept[sample.values[:, 0].astype(int)] += 1
    share = kept.reshape(10, 500).mean(axis=1) / 200
    np.testing.assert_allclose(share, 0.2, atol=0.01)


def test_a_new_table():
    table = _table()
    pre = Preprocess.fit(table, "y")
    new = dict(reversed(_table(1).items())) | {"more": table["size"]}
    new["flag"] = np.where(np.arange(N) < 3, None, new["flag"].astype(object))
    new["color"] = np.where(np.arange(N) < 5, "purple", new["color"])
    tally = Tally()
    x = pre.transform(new, tally)
    assert tally == Tally(unseen={"color": 5}, filled={"flag": 3}, extra=("more",), examples={"color": "purple"})
    assert len(tally.sentences()) == 3
    assert "5 value(s) new or rare in training, such as 'purple':" in tally.sentences()[0]
    assert not x[:5, 2:5].any()
    del new["y"]
    np.testing.assert_array_equal(pre.transform(new), x)
    with pytest.raises(TableError, match="no column 'y', the target"):
        pre.target(new)
    new["Size"] = new.pop("size")
    with pytest.raises(TableError, match=r"no column 'size', which .* Did you mean 'Size'\?"):
        pre.transform(new)
    del new["flag"]
    with pytest.raises(TableError, match=r"'size' \(and 1 more\)"):
        pre.transform(new)


def test_bad_values_in_a_new_table():
    table = _table()
    pre = Preprocess.fit(table, "y")
    for name, value, message in (
        ("size", "big", "'size' is 'big' in row 4, where the model expects a finite number"),
        ("size", np.inf, "'size' is 'inf' in row 4"),
        ("flag", "maybe", "'flag' is 'maybe' in row 4, where the model expects true or false"),
    ):
        new = dict(table)
        new[name] = new[name].astype(object)
        new[name][3] = value
        with pytest.raises(TableError, match=message):
            pre.transform(new)
    with pytest.raises(TableError, match="has no rows"):
        pre.transform({name: values[:0] for name, values in table.items()})
    classes = Preprocess.fit(table, "flag")
    with pytest.raises(TableError, match="none of the classes"):
        classes.target(dict(table, flag=np.full(N, "perhaps", object)))
    with pytest.raises(TableError, match="missing in row 1"):
        classes.target(dict(table, flag=np.full(N, None)))


def test_arrays_of_raw_columns():
    table = _table()
    pre = Preprocess.fit(table, "y", drop=["color", "flag"])
    np.testing.assert_array_equal(pre.transform(table["size"][:, None]), pre.transform(table))
    with pytest.raises(TableError, match=r"x has shape \(500, 2\)"):
        pre.transform(np.zeros((N, 2)))
    full = Preprocess.fit(table, "y")
    objects = np.stack([table[name].astype(object) for name in ("size", "color", "flag")], axis=1)
    np.testing.assert_array_equal(full.transform(objects), full.transform(table))


def test_booleans_in_any_writing():
    pre = Preprocess.fit({"f": ["true", "False"] * 10, "y": np.arange(20.0)}, "y")
    forms = ["TRUE", "False", 1, 0.0, True, "yes", "N", " true ", None]
    x = pre.transform({"f": np.array(forms, object)})
    np.testing.assert_array_equal(x[:8, 0], [1, 0, 1, 0, 1, 1, 0, 1])


def test_numbers_in_bins_are_encoded_as_estimators_do():
    """Through JSON, too; missing values have the last feature."""
    table = _table()
    pre = Preprocess.from_json(Preprocess.fit(table, "y", numbers="bins").to_json())
    x, size = pre.transform(table), table["size"][:, None]
    found = Encoding.of(size, np.ones(N), "bins")
    column = next(c for c in pre.schema.used if c.name == "size")
    at = pre.schema.features.index("size")
    assert column.width == found.widths[0] == 1 + BINS + 1
    there = ~np.isnan(size[:, 0])
    np.testing.assert_allclose(x[there, at : at + column.width], found.apply(size)[there], atol=1e-5)
    assert (x[~there, at + column.width - 1] == 1).all()
    assert len(pre.schema.features) == pre.schema.width == x.shape[1]
    assert Preprocess.fit(table, "y", numbers="auto").schema.width < x.shape[1]  # few rows
    with pytest.raises(TableError, match="numbers='deep'"):
        Preprocess.fit(table, "y", numbers="deep")

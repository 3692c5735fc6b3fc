"""Model files that are whole and impossible, or nearly so: each predicts and is scored, or is refused in a sentence."""

import itertools
import json

import numpy as np
import pytest

from scax.runs import scoring
from scax.storage import FileError, load
from scax.storage.model import Model, write_model
from scax.storage.run_folder import finite
from scax.tables import Preprocess, Schema, TableError
from scax.tables.schema import Column, Target

ROWS = {
    "a": np.arange(12) / 2,
    "b": np.array(["u", "v"] * 6, object),
    "day": np.array([f"{i + 1:02}.03.2024" for i in range(12)], object),
    "n": np.array([f"1.00{i % 10},5" for i in range(12)], object),
    "y": np.arange(12.0),
    "k": np.arange(12) % 3,
}
NUMBER, CATEGORY, GOAL = Column("a", "number"), Column("b", "category", ("u", "v")), Target("y", "regression")
DAY, COMMA = "%d.%m.%Y", "1.234,5"


def read(form, part="", kind="number", source="day"):
    return Column("q", kind, ("u",) if kind == "category" else (), source=source, form=form, part=part)


def classes(*names):
    return Target("k", "classification", names)


#: name → columns, target, hidden widths, other numbers of the preprocessing
CASES = {
    "nothing encoded": ([Column("a", "dropped")], GOAL),
    "a category of nothing": ([Column("b", "category")], GOAL),
    "a column twice": ([NUMBER, NUMBER], GOAL),
    "a number and a category of one name": ([NUMBER, Column("a", "category", ("0.5",))], GOAL),
    "the target as an input": ([Column("y", "number"), NUMBER], GOAL),
    "classes of two kinds": ([NUMBER], classes(0, "x")),
    "truths that are numbers": ([NUMBER], classes(True, 0)),
    "classes that fall": ([NUMBER], classes(2, 1, 0)),
    "huge classes": ([NUMBER], classes(-(10**100), 0, 10**100)),
    "one class": ([NUMBER], classes("a")),
    "classes of odd names": ([NUMBER], classes("", "\x1b[2J", "\u202e")),
    "a date without a part": ([read(DAY)], GOAL),
    "a number with a part": ([read(COMMA, "year", source="n")], GOAL),
    "a year that is a category": ([read(DAY, "year", "category")], GOAL),
    "a year that is a boolean": ([read(DAY, "year", "boolean")], GOAL),
    "numbers read as days": ([read(DAY, "year", source="a")], GOAL),
    "a column from nowhere": ([read(COMMA, source="nowhere")], GOAL),
    "a target that is a date": ([NUMBER], Target("y", "regression", form=DAY)),
    "a target with commas": ([NUMBER], Target("n", "regression", form=COMMA)),
    "bins without a width": ([Column("a", "number", edges=(0.0, 5e-324))], GOAL, (4,), {"limit": [1.0]}),
    "a tiny limit": ([NUMBER], GOAL, (4,), {"limit": [1e-300]}),
    "a tiny scale": ([NUMBER], GOAL, (4,), {"mean": [1e300], "scale": [1e-300]}),
    "a huge target": ([NUMBER], GOAL, (4,), {"target_mean": 1e300, "target_scale": 1e300}),
    "no neurons": ([NUMBER, CATEGORY], GOAL, (0,)),
    "three hundred thousand neurons": ([NUMBER], GOAL, (300_000,)),
    "a thousand layers": ([NUMBER], GOAL, (1,) * 1000),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CASES)
def test_a_result_or_a_sentence(tmp_path, name):
    columns, target, hidden, numbers = (*CASES[name], *((4,), {})[len(CASES[name]) - 2 :])
    schema, rng = Schema(tuple(columns), target), np.random.default_rng(0)
    used = len(schema.used)
    statistics = {"median": np.zeros(used), "mean": np.zeros(used), "scale": np.ones(used), "limit": np.zeros(used)}
    pre = Preprocess(schema, **statistics | {k: np.array(v) if isinstance(v, list) else v for k, v in numbers.items()})
    sizes = (schema.width, *hidden, schema.outputs)
    layers = tuple(
        (rng.normal(size=s).astype(np.float32), np.zeros(s[1], np.float32)) for s in itertools.pairwise(sizes)
    )
    link = {0: "identity", 2: "logistic"}.get(len(target.classes), "softmax")
    write_model(tmp_path / "m", Model(layers, "tanh", "linear", link, pre))
    refusal = None
    try:
        model = load(tmp_path / "m")
        assert len(model.predict(ROWS)) == 12
        assert not target.classes or model.predict_proba(ROWS).shape == (12, len(target.classes))
        truth = model.preprocess.target(ROWS)
        json.dumps(finite(scoring.scores(model.preprocess, model.outputs(ROWS), truth)), allow_nan=False)
    except (FileError, TableError) as error:
        refusal = str(error)
    assert refusal is None or 20 < len(refusal) < 1000

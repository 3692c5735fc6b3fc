"""Names of columns, classes and files that mean something to a terminal, a spreadsheet or a report."""

import csv
from pathlib import Path

import numpy as np
import polars
import pytest

from scax import MLP, save
from scax._text import printable

SMALL = ("--steps", "4", "--batch-size", "8", "--hidden", "2")
ODD = ["\x1b[31mred", "$x$", 'say "hi", you', "two\nlines", "\u202eabc"]


@pytest.fixture
def table(scax):
    rng = np.random.default_rng(0)
    classes = np.array(["$a$", "b, c", '"q"', "</svg>"])[rng.integers(0, 4, 60)]
    frame = polars.DataFrame({name: rng.normal(size=60) for name in ODD} | {"probability b, c": classes})
    frame.write_parquet("[red] t.parquet")
    frame.write_csv("t.csv")
    return frame


def test_a_run_with_odd_names(table, scax):
    for name in ("[red] t.parquet", "t.csv"):
        outcome = scax("train", name, "--target", "probability b, c", *SMALL, "--out", f"run {name}")
        assert outcome.code == 0, outcome.err
        assert "\x1b" not in outcome.out + outcome.err
        assert r"\x1b[31mred" in outcome.out
        assert scax("report", f"run {name}").code == 0
        assert "$a$" in Path(f"run {name}", "report.html").read_text()

        outcome = scax("evaluate", f"run {name}", name, "--importance")
        assert outcome.code == 0, outcome.err
        assert "\x1b" not in outcome.out + outcome.err
        assert all(word in outcome.out for word in ("$a$", "</svg>", r"\x1b[31mred"))
        outcome = scax("predict", f"run {name}", name, "-o", "p.csv")
        with open("p.csv", newline="") as file:
            head, *rows = csv.reader(file)
        # four probabilities, and a prediction that none of them has replaced
        assert head == [
            "probability b, c", 'probability "q"', "probability $a$", "probability </svg>", "probability b, c (2)",
        ]  # fmt: skip
        assert {row[0] for row in rows} <= set(table["probability b, c"])
        np.testing.assert_allclose([sum(map(float, row[1:])) for row in rows], 1, rtol=1e-5)


def test_names_in_messages(table, scax, refused):
    told = refused("train", "t.csv", "--target", "\x1b[31mred?")
    assert "\x1b" not in told
    told = refused("train", "\x1b[31m\n.csv", "--target", "y")
    assert r"\x1b[31m\n.csv" in told
    assert "\x1b" not in refused("train", "t.csv", "--target", "y", "--\x1b[31m")
    assert len(refused("train", "t.csv", "--target", "y" * 5000)) < 1100


def test_a_comparison_of_a_table_with_an_odd_name(table, scax):
    options = ("--methods", "sca", "--steps", "3", "--repeats", "1", "--hidden", "2", "--out", "run")
    outcome = scax("compare", "[red] t.parquet", "--target", ODD[0], *options)
    assert outcome.code == 0, outcome.err
    assert "[red] t: 60 rows" in outcome.out
    assert "\x1b" not in outcome.out + outcome.err
    assert printable(ODD[0]) in Path("run/report.html").read_text()


def test_a_name_that_is_not_text(scax, refused):
    import os

    name = os.fsdecode(b"t\xff.csv")
    Path(name).write_text("a,y\n" + "".join(f"{i},{i * i % 7}.5\n" for i in range(40)))
    assert "must be UTF-8" in refused("train", name, "--target", "y")


def test_a_model_without_preprocessing(refused):
    net = MLP((2, 3, 1))
    import jax

    save("model.safetensors", net, net.init(jax.random.key(0)))
    Path("t.csv").write_text("a,b\n1,2\n")
    assert "saved without preprocessing" in refused("predict", "model.safetensors", "t.csv")

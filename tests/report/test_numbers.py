"""Numbers as people read them."""

import numpy as np
import pytest

from scax.report.charts import Ticks
from scax.report.numbers import margin, number, short, ticks
from scax.report.svg import figure


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (138_700.2, "138,700"),
        (16_115.4, "16,115"),
        (999.96, "1,000"),
        (-0.0, "0"),
        (0.0123456, "0.01235"),
        (1e12, "1e+12"),
        (None, "not finite"),
    ],
)
def test_numbers_in_sentences(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([8e4, 1e5, 1.2e5], ["80,000", "100,000", "120,000"]),
        ([1e6, 1.2e6, 1.4e6], ["10⁶", "1.2·10⁶", "1.4·10⁶"]),
        ([0, 5e5, 1e6], ["0", "5·10⁵", "10⁶"]),
        ([-2e6, -1e6], ["-2·10⁶", "-10⁶"]),
        ([1000.1, 1000.2], ["1,000.1", "1,000.2"]),
        ([1e-17, 0.25, 0.5], ["0", "0.25", "0.5"]),
        ([12_500, 15_000], ["12,500", "15,000"]),
        ([5e-4, 1e-3], ["5·10⁻⁴", "0.001"]),
        ([], []),
    ],
)
def test_ticks_have_the_digits_of_their_spacing(values, texts):
    assert ticks(values) == texts


def test_no_two_ticks_look_alike():
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = np.arange(6) * rng.choice([1, 2, 2.5, 5]) * 10.0 ** rng.integers(-6, 7) + rng.integers(0, 9) * 1e5
        assert len(set(ticks(values.tolist()))) == 6
    assert short(138_700.0) == "1.387·10⁵"


def test_margins_have_no_exponents():
    assert [margin(v) for v in (2013.4, 123.4, 99.7, 12.34, 0.01234)] == ["2,013", "123", "100", "12", "0.012"]


def test_places_beyond_an_axis_do_not_decide_its_labels():
    ax = figure().add_subplot()
    ax.set_ylim(1e5, 9e5)
    ax.yaxis.set_major_formatter(Ticks())
    assert ax.yaxis.get_major_formatter().format_ticks([2e5, 4e5, 1e6]) == ["200,000", "400,000", ""]

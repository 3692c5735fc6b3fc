"""Numbers as people read them."""

import numpy as np
import pytest

from scax.report.numbers import number, short, ticks


@pytest.mark.parametrize(
    ("value", "text"),
    [(138_700.2, "138,700"), (16_115.4, "16,115"), (0.0123456, "0.01235"), (1e12, "1e+12"), (None, "not finite")],
)
def test_numbers_in_sentences(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1e5, 1.2e5, 1.4e5], ["10⁵", "1.2·10⁵", "1.4·10⁵"]),
        ([0, 1e5, 2e5], ["0", "10⁵", "2·10⁵"]),
        ([-2e5, -1e5], ["-2·10⁵", "-10⁵"]),
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

"""Where a path of strengths ends."""

import pytest

from scax.training.strength import until_hopeless


@pytest.mark.parametrize(
    ("losses", "weights", "end"),
    [
        # weak penalties fit the noise, some worse than nothing at all: a strength that helps is still to come
        ([0.94, 0.99, 0.98, 0.30, 0.31], [88, 88, 88, 45, 8], None),
        ([0.45, 0.49, 0.48, 0.30, 0.31], [88, 88, 80, 45, 8], None),
        # what the best gains is lost along with its weights
        ([0.30, 0.31, 0.45, 0.49, 0.50], [88, 60, 20, 3, 1], 2),
        ([float("nan"), 0.30, 0.31, 0.49, 0.50], [88, 60, 20, 3, 1], 3),
    ],
)
def test_a_path_ends_where_stronger_only_leaves_less(losses, weights, end):
    hopeless = until_hopeless(0.5)
    ends = [hopeless({"loss": a, "weights": b}) for a, b in zip(losses, weights, strict=True)]
    assert (ends.index(True) if any(ends) else None) == end

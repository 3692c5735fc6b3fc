"""What the page of a training says of the network."""

import pytest

from scax.report.training import _beside


@pytest.mark.parametrize(
    ("error", "line", "said"),
    [
        (1.0, 2.0, "50% less"),
        (1.0, 1.01, "which is as good"),
        (1.0, 0.5, "which is better"),
        (1.0, 0.0, "which is better"),
        (0.0, 0.0, "which is as good"),
    ],
)
def test_beside_a_linear_model(error, line, said):
    assert _beside(error, line) == said

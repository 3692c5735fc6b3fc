"""The picture for pages that are not ours."""

import re

from scax.report.picture import picture

from .results import results


def test_standalone_svg():
    svg = picture(results())
    assert svg.startswith("<svg")
    assert "var(" not in svg
    assert "#d55e00" in svg  # SCA's color
    assert not re.search(r"https?://(?!www\.w3\.org/)", svg)

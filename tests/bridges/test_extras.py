"""Without the extra: one line that says what to install."""

import sys

import pytest

import scax


@pytest.mark.parametrize("package", ["flax", "equinox", "torch"])
def test_a_missing_extra_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        getattr(scax, f"from_{package}")(None)
    assert str(caught.value) == (
        f"scax.from_{package} needs {package}, which is not installed: pip install 'scax[{package}]'"
    )

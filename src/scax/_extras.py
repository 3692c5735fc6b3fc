"""Packages that `pip install scax` leaves out: one sentence names what is missing and what to install.

    with required_by("Reading a table"):
        import polars as pl

This module imports the standard library alone: it must run where the packages are missing.
"""

from typing import Any

#: package, as it is imported → the extra in pyproject.toml that brings it (a test compares them)
EXTRAS = {
    "equinox": "equinox",
    "flax": "flax",
    "flwr": "federated",
    "matplotlib": "cli",
    "onnx": "onnx",
    "polars": "cli",
    "ray": "ray",
    "rich": "cli",
    "sklearn": "sklearn",
    "tensorboardX": "tensorboard",
    "torch": "torch",
    "typer": "cli",
}
_TITLES = {"sklearn": "scikit-learn"}  # where pip has another name


class MissingPackageError(ModuleNotFoundError):
    """A package of an extra is not installed; the message says what needs it and how to install it."""


class required_by:
    """Around imports: where a package of an extra is missing, say that this part of scax needs it."""

    def __init__(self, part: str):
        self.part = part

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if message := explain_missing(self.part, error):
            raise MissingPackageError(message, name=getattr(error, "name", None)) from None


def explain_missing(part: str, error: BaseException | None) -> str | None:
    """The sentence for an import that failed because an extra is not installed; None for any other error."""
    if isinstance(error, MissingPackageError):
        return str(error)
    if not isinstance(error, ModuleNotFoundError) or error.name not in EXTRAS:
        return None
    title = _TITLES.get(error.name, error.name)
    return f"{part} needs {title}, which is not installed: pip install 'scax[{EXTRAS[error.name]}]'"

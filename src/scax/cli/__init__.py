"""The command line."""

from .._extras import MissingPackageError, required_by
from .errors import fail


def app() -> None:
    """The `scax` command; without its packages, one line that says what to install."""
    try:
        with required_by("The scax command"):
            from .main import app as run
    except MissingPackageError as error:
        fail(str(error))
    run()

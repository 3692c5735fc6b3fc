"""How a command ends badly: a line or two on stderr, and an exit code that scripts can rely on."""

import errno
import os
import re
import sys
from typing import NoReturn

from .._extras import explain_missing
from .._text import fitted, printable

USAGE = 2  # what the user can put right
INTERRUPTED = 130  # Ctrl-C, as shells count it
LOST = 75  # a process of the same run is gone
LONGEST, MOST_LINES = 1000, 25  # of a message: a name in it may be of any length
LAUNCHED = "SCAX_LAUNCHED"  # in the environment of processes that `scax launch` speaks for


class UserError(Exception):
    """What is wrong, where, and what to do, in a sentence or two."""


def fail(message: str, code: int = USAGE) -> NoReturn:
    """Ends with a sentence, or with a list: lines that are indented. Any other line end belongs to a name."""
    for line in re.split(r"\n(?=  )", f"scax: {message}")[:MOST_LINES]:
        print(fitted(printable(line, LONGEST), sys.stderr), file=sys.stderr)
    raise SystemExit(code)


def explain(error: BaseException) -> str | None:
    """The sentence for an error that a person can put right; None for one that is ours."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:
        return _system(error)
    if isinstance(error, ModuleNotFoundError):
        missing = explain_missing("The scax command", error)
        return missing or f"the package {error.name} is not installed. Install it: pip install {error.name}"
    if any(
        kind.__name__ in {"TableError", "FileError", "RunFolderError", "DatasetError"} for kind in type(error).__mro__
    ):
        return str(error)
    return None


def _system(error: OSError) -> str:
    where = error.filename2 or error.filename
    name = f"{os.fspath(where)!r}: " if isinstance(where, (str, bytes, os.PathLike)) else ""
    advice = {
        errno.ENOSPC: " Free some space, or choose another place with --out.",
        errno.EDQUOT: " Free some space, or choose another place with --out.",
        errno.EACCES: " Check its permissions.",
        errno.EROFS: " Choose another place with --out.",
        errno.ENOENT: " Check the path.",
    }
    return f"{name}{error.strerror}.{advice.get(error.errno or 0, '')}"

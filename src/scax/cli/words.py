"""Small pieces of sentences."""

import difflib
import sys
from collections.abc import Iterable

from .._text import fitted, printable


def say(text: str, to_stderr: bool = False, flush: bool = False) -> None:
    """Print a line for people: names in it may be a stranger's, and must not speak to the terminal."""
    stream = sys.stderr if to_stderr else sys.stdout
    print(fitted(printable(text), stream), file=stream, flush=flush)


def count(n: int, what: str) -> str:
    """ "1 row", "1,200 rows"."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def near(name: str, names: Iterable[str]) -> str:
    """ " Did you mean 'adam'?", or what there is to choose from."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else f" Choose from {', '.join(names)}."

"""Small pieces of sentences."""

import difflib
from collections.abc import Iterable


def near(name: str, names: Iterable[str]) -> str:
    """ " Did you mean 'adam'?", or what there is to choose from."""
    names = list(names)
    found = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {found[0]!r}?" if found else f" Choose from {', '.join(names)}."

"""What is wrong with a table, in a sentence or two: what, where, what to do."""

import difflib
import itertools
from collections.abc import Iterable, Sequence

MOST_PROBLEMS = 20
MOST_NAMES = 5000  # that are compared with one that is not there


class TableError(ValueError):
    """A table that cannot be used as it is. The message is meant for the person who owns the table."""


def near(name: str, names: Iterable[str]) -> str:
    """ " Did you mean 'price'?", or nothing where no name is near."""
    names = [str(n) for n in itertools.islice(names, MOST_NAMES)]
    lower = {n.lower(): n for n in reversed(names)}
    found = difflib.get_close_matches(str(name).lower(), lower, n=1, cutoff=0.6)
    if found:
        return f" Did you mean {lower[found[0]]!r}?"
    return f" It has {', '.join(map(repr, names[:8]))}{', …' if len(names) > 8 else ''}."


def together(table: str, problems: Sequence[TableError]) -> TableError:
    """All that is wrong with a table as one error, a line for each."""
    if len(problems) == 1:
        return problems[0]
    lines = [str(problem).removeprefix(f"{table}: ") for problem in problems[:MOST_PROBLEMS]]
    more = [f"… and {len(problems) - MOST_PROBLEMS} more."] if len(problems) > MOST_PROBLEMS else []
    return TableError("\n  ".join([f"{table} has {len(problems)} problems:", *lines, *more]))

"""Ctrl-C and a polite kill: noted when they come, obeyed at a good moment.

A handler that raises does so wherever Python happens to be. Within a callback of a compiled library the exception is
swallowed, and the command goes on as if nothing had been asked; or the library is left in a state in which it crashes.
So every signal is noted. While a command is patient it looks at `asked` between pieces of work, and the first signal
does nothing else; a second one raises, a third ends the process. Elsewhere the first one raises, and `check` is where
it is obeyed should that be swallowed.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

from .errors import INTERRUPTED

_seen: list[int] = []
_patience = [False]


def _note(number: int, _frame: FrameType | None) -> None:
    _seen.append(number)
    if len(_seen) > 2:
        os._exit(INTERRUPTED)
    if len(_seen) > 1 or not _patience[-1]:
        raise KeyboardInterrupt


@contextlib.contextmanager
def listen() -> Iterator[None]:
    """Note signals from here on; at the end all is as it was."""
    _seen.clear()
    try:
        before = {number: signal.signal(number, _note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _seen.clear()


def asked() -> bool:
    """Whether a signal has come."""
    return bool(_seen)


def check() -> None:
    """Stop here if it has."""
    if _seen:
        raise KeyboardInterrupt


@contextlib.contextmanager
def patient(yes: bool = True) -> Iterator[None]:
    """Work in pieces, between which `asked` or `check` is called; with `yes=False`, work that may be left anywhere."""
    _patience.append(yes)
    try:
        check()
        yield
        if not yes:
            check()
    finally:
        _patience.pop()

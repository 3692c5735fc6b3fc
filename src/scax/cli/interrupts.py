"""Ctrl-C, a polite kill and a terminal that is closed: noted when they come, obeyed at a good moment.

A handler that raises does so wherever Python happens to be. Within a callback of a compiled library the exception is
swallowed, and the command goes on as if nothing had been asked; or the library is left in a state in which it crashes.
So every signal is noted. While a command is patient it looks at `asked` between pieces of work, and the first signal
does nothing else; a second one ends the process when Python has its turn again, for what is on disk under its own name
is whole at every moment. Elsewhere a signal raises, and `check` is where it is obeyed should that be swallowed; a third
one ends the process.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from .errors import INTERRUPTED

#: SIGHUP comes when a terminal is closed, and is not there on every system
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_seen: list[int] = []
_terminals: list[int] = []  # of stdout and stderr, those that were terminals when the command began
_patience: list[str | None] = [None]  # the last words of a command that is patient, None for one that is not


def handled() -> tuple[int, ...]:
    """The signals to be handled: nohup asks that one of them be ignored."""
    return tuple(number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN)


def _note(number: int, frame: FrameType | None) -> None:
    _part_from_terminal()
    words = _patience[-1]
    if words is None and frame is not None and frame.f_code.co_name == "_xla_gc_callback":  # JAX's: it would be lost
        threading.Timer(0.02, os.kill, (os.getpid(), number)).start()
        return
    _seen.append(number)
    if len(_seen) > (2 if words is None else 1):
        _leave(words or "stopped.")
    if words is None:
        raise KeyboardInterrupt
    slow = threading.Timer(1.5, _tell, ("stopping after this piece of work; Ctrl-C once more to stop at once.\n",))
    slow.daemon = True  # not heard of where the piece is short
    slow.start()


def _part_from_terminal() -> None:
    """Where the terminal is gone, print to nowhere: an error from printing must not keep a run from saving."""
    for handle in _terminals:
        if not os.isatty(handle):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, handle)
            os.close(nowhere)


def _tell(words: str) -> None:
    """To a person; what is printed by ordinary means may be in the middle of something."""
    if sys.stderr.isatty():
        os.write(2, f"\nscax: {words}".encode())


def _leave(words: str) -> None:
    _tell(f"{words}\n\x1b[?25h")  # with the cursor that a progress bar may have hidden
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def listen() -> Iterator[None]:
    """Note signals from here on; at the end all is as it was."""
    _seen.clear()
    del _patience[1:]
    _terminals[:] = [handle for handle in (1, 2) if os.isatty(handle)]
    try:
        before = {number: signal.signal(number, _note) for number in handled()}
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
def patient(words: str = "stopped.") -> Iterator[None]:
    """Work in pieces, between which `asked` or `check` is called; `words` are said when it is ended at once."""
    check()
    _patience.append(words)
    try:
        yield
    finally:
        _patience.pop()


@contextlib.contextmanager
def anywhere() -> Iterator[None]:
    """Work that a signal may end anywhere."""
    try:
        _patience.append(None)
        check()
        yield
        check()
    finally:
        _patience.pop()

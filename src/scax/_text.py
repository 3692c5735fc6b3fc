"""Names and sentences that a stranger may have written, made fit to be shown."""

import shutil
import textwrap
from typing import Any


def printable(text: str, most: int | None = None) -> str:
    """The text with every character that would be obeyed rather than shown (terminal escapes, line ends, marks that
    reverse the direction of writing) as an escape such as \\x1b; with `most`, cut to so many characters."""
    if most is not None and len(text) > most:
        text = text[: most - 1] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quoted(value: object, most: int = 60) -> str:
    """A value as it would be written in Python, cut to so many characters."""
    return printable(repr(value), most)


def fitted(text: str, stream: Any) -> str:
    """The text in lines that end between words, where the stream is a terminal; as it is elsewhere."""
    if not stream.isatty() or len(text) <= (width := max(20, shutil.get_terminal_size().columns)):
        return text
    indent = " " * min(len(text) - len(text.lstrip()) + 2, 8)
    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)

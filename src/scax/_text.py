"""Names and sentences that a stranger may have written, made fit to be shown."""


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

"""Reading options that are more than a number, and refusing absurd ones."""

from .errors import UserError


def absurd(name: str, value: float | int, least: float | int, most: float | int) -> None:
    """Refuse a value outside a range in which it could mean anything."""
    from ..runs.config import outside

    if reason := outside(name, value, least, most):
        raise UserError(reason)


def names(option: str, text: str) -> list[str]:
    """A list separated by commas."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UserError(f"--{option} is empty: give names separated by commas.")
    return parts


def numbers(option: str, text: str) -> list[int]:
    """Whole numbers separated by commas, each at least 1; "none" or nothing is an empty list."""
    if text.strip() in {"", "none"}:
        return []
    try:
        parts = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--{option} is {text!r}: give whole numbers separated by commas, such as 10,6.") from None
    for value in parts:
        absurd(option, value, 1, 100_000)
    return parts

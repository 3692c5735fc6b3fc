"""What a stranger may have written: opened only if it is a regular file, read only up to a limit, and JSON compared
with a declared type before anyone uses it.

`Unreadable` says what is wrong as the rest of a sentence that begins with the file's name; each room adds the name and
what to do.
"""

import contextlib
import functools
import json
import math
import os
import stat
import types
from collections.abc import Iterable
from typing import (
    Annotated,
    Any,
    BinaryIO,
    Literal,
    NamedTuple,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ._text import printable

MOST_BYTES = 256 << 20  # of a text file
MOST_MEMORY = 768 << 20  # that the values of a JSON text may take
LARGEST = 1e300  # beyond it a chart or a sum overflows
#: how a value is called in a message
_NAMES = {type(None): "null", bool: "true or false", int: "a whole number", float: "a number", str: "a text",
          list: "a list", dict: "an object"}  # fmt: skip


class Unreadable(ValueError):
    """What is wrong with a file: "is a link", "is damaged: step is a text, not a whole number"."""


class Between(NamedTuple):
    """`Annotated[int, Between(0, 9)]`: the smallest and the largest value."""

    least: float
    most: float


def open_regular(path: str | os.PathLike, *, follow: bool = True, most: int | None = None) -> BinaryIO:
    """Open a file for reading if it is a regular one of at most `most` bytes: a pipe or a device would never end.

    With `follow=False` a symbolic link is refused as well. An OSError is passed on.
    """
    _require_regular(os.stat(path, follow_symlinks=follow))  # opening a device can have effects of its own
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))
    file = open(handle, "rb")  # noqa: SIM115
    try:
        size = _require_regular(os.fstat(handle)).st_size
        if most is not None and size > most:
            raise Unreadable(f"is too large ({size:,} bytes, and at most {most:,} are read)")
    except BaseException:
        file.close()
        raise
    return file


def _require_regular(info: os.stat_result) -> os.stat_result:
    if stat.S_ISLNK(info.st_mode):
        raise Unreadable("is a link, and a regular file is expected")
    if stat.S_ISDIR(info.st_mode):
        raise Unreadable("is a directory, and a regular file is expected")
    if not stat.S_ISREG(info.st_mode):
        raise Unreadable("is not a regular file")
    return info


def read_text(path: str | os.PathLike, *, follow: bool = True, most: int = MOST_BYTES) -> str:
    """The UTF-8 text of a regular file."""
    with open_regular(path, follow=follow, most=most) as file:
        data = file.read(most + 1)
    if len(data) > most:  # it has grown
        raise Unreadable(f"is too large (at most {most:,} bytes are read)")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Unreadable("is damaged: it is not UTF-8 text") from None


def parse_json(text: str) -> Any:
    """The value of a JSON text; NaN and infinities, which JSON does not have, are read as null."""
    # a list or an object takes at most about 100 bytes, what stands between two commas at most about 40 and its text
    if 100 * (text.count("[") + text.count("{")) + 40 * text.count(",") + len(text) > MOST_MEMORY:
        raise Unreadable("is damaged: it holds more values than fit into memory")
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except RecursionError:
        raise Unreadable("is damaged: it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"is damaged: it is not JSON (line {error.lineno}: {error.msg})") from None
    except ValueError:  # a number of thousands of digits
        raise Unreadable("is damaged: it has a number that is too long") from None


def check(value: Any, kind: Any, where: str = "") -> None:
    """Refuse a JSON value that is not of the declared type.

    `kind` is made of bool, int, float, str, None, Any, Literal, unions, list[…], dict[str, …], TypedDict (other keys
    are ignored) and Annotated[…, Between]. A float may be written as a whole number. Numbers are finite and at most
    1e300 in size, whole ones below 2⁵³; texts have no unpaired surrogates, which cannot be written again.
    """
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if origin is Annotated:
        check(value, args[0], where)
        for limit in args[1:]:
            if not limit.least <= value <= limit.most:
                raise _mismatch(where, f"is {value:g}, not between {limit.least:g} and {limit.most:g}")
    elif origin in (Union, types.UnionType):
        _check_union(value, args, where)
    elif origin is Literal:
        if not any(type(value) is type(choice) and value == choice for choice in args):
            raise _mismatch(where, f"is {_short(value)}, not {' or '.join(map(_short, args))}")
    elif is_typeddict(kind):
        _require(value, dict, where)
        for name, each, required in _fields(kind):
            if name in value:
                check(value[name], each, _join(where, name))
            elif required:
                raise _mismatch(where, f"has no {name!r}")
    elif origin is list:
        _require(value, list, where)
        if not _all_numbers(value, args[0]):
            for i, each in enumerate(value):
                check(each, args[0], f"{where}[{i}]")
    elif origin is dict:
        _require(value, dict, where)
        for name, each in value.items():
            check(name, str, f"a key of {where}" if where else "a key")
            check(each, args[1], _join(where, name))
    else:
        _check_plain(value, type(None) if kind is None else kind, where)


def _check_plain(value: Any, kind: type, where: str) -> None:
    _require(value, kind, where)
    if kind is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _mismatch(where, "has characters that are none") from None
    if kind is int and abs(value) > 2**53:
        raise _mismatch(where, "is too large")
    if kind is float and not abs(value) <= LARGEST:
        raise _mismatch(where, "is not finite, or too large")


def _check_union(value: Any, kinds: Iterable[Any], where: str) -> None:
    *others, last = kinds
    for kind in others:
        with contextlib.suppress(Unreadable):
            return check(value, kind, where)
    check(value, last, where)


def _all_numbers(values: list[Any], kind: Any) -> bool:
    """Whether a list is of plain numbers that need no closer look: the long lists of a results file are."""
    if kind is not float and kind != float | None:
        return False
    kinds = set(map(type, values))
    if not kinds <= ({int, float} if kind is float else {int, float, type(None)}):
        return False
    numbers = [v for v in values if v is not None] if type(None) in kinds else values
    return not numbers or (max(numbers) <= LARGEST and min(numbers) >= -LARGEST and not any(map(math.isnan, numbers)))


def _require(value: Any, kind: type, where: str) -> None:
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise _mismatch(where, f"is {_NAMES.get(type(value), type(value).__name__)}, not {_NAMES[kind]}")


@functools.cache
def _fields(kind: Any) -> list[tuple[str, Any, bool]]:
    """(name, type, whether it must be there) of each key of a TypedDict."""
    hints = get_type_hints(kind, include_extras=True)
    bare = lambda each: get_args(each)[0] if get_origin(each) is NotRequired else each
    return [(name, bare(each), name in kind.__required_keys__) for name, each in hints.items()]


def _mismatch(where: str, what: str) -> Unreadable:
    return Unreadable(f"is damaged: {printable(where, 80)} {what}" if where else f"is damaged: it {what}")


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _short(value: Any) -> str:
    return repr(value[:40]) if isinstance(value, str) else _NAMES.get(type(value), type(value).__name__)

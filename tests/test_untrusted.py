"""Files of strangers: what is opened, what is read, and which values have the declared type."""

import json
import os
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from scax import _untrusted
from scax._text import printable
from scax._untrusted import Between, Unreadable, check, open_regular, parse_json, read_text
from scax.storage.run_files import Error


class Inner(TypedDict):
    n: Annotated[int, Between(0, 9)]
    kind: Literal["a", "b"]


class Outer(TypedDict):
    inner: Inner
    numbers: list[float | None]
    names: dict[str, str | None]
    flag: NotRequired[bool]


GOOD = {"inner": {"n": 3, "kind": "a"}, "numbers": [1, 2.5, None], "names": {"x": None}, "more": "is ignored"}
BAD = {
    "a list": ([], "it is a list, not an object"),
    "a missing key": (GOOD | {"inner": {"n": 3}}, "inner has no 'kind'"),
    "another type": (GOOD | {"inner": {"n": "3", "kind": "a"}}, "inner.n is a text, not a whole number"),
    "a truth for a number": (GOOD | {"inner": {"n": True, "kind": "a"}}, "inner.n is true or false, not a whole"),
    "out of range": (GOOD | {"inner": {"n": 12, "kind": "a"}}, "inner.n is 12, not between 0 and 9"),
    "another word": (GOOD | {"inner": {"n": 1, "kind": "c"}}, "inner.kind is 'c', not 'a' or 'b'"),
    "a text in a list": (GOOD | {"numbers": [1.0, "x"]}, r"numbers\[1\] is a text"),
    "not finite": (GOOD | {"numbers": [1.0, float("inf")]}, r"numbers\[1\] is"),
    "a giant": (GOOD | {"numbers": [10**400]}, r"numbers\[0\] is"),
    "an optional key": (GOOD | {"flag": 1}, "flag is a whole number, not true or false"),
    "half a character": (GOOD | {"names": {"x": "\ud800"}}, "names.x"),
    "half a character in a key": (GOOD | {"names": {"\ud800": "x"}}, "a key of names has characters that are none"),
    "an escape": (GOOD | {"names": {"\x1b[31m": 3}}, r"names.\\x1b\[31m is"),
}


def test_what_has_the_type():
    check(GOOD, Outer)
    check(3, Any)
    check([1.0] * 10, list[float])


@pytest.mark.parametrize("case", BAD)
def test_what_has_another_type(case):
    value, why = BAD[case]
    with pytest.raises(Unreadable, match=why):
        check(value, Outer)


def test_json_is_bounded(monkeypatch):
    assert parse_json('{"a": NaN, "b": -Infinity}') == {"a": None, "b": None}
    for text, why in (
        ("[" * 200_000, "nested too deeply"),
        ("9" * 5000, "too long"),
        ("{", "line 1"),
        ("[1]\n]", "line 2"),
    ):
        with pytest.raises(Unreadable, match=why):
            parse_json(text)
    monkeypatch.setattr(_untrusted, "MOST_MEMORY", 10_000)
    with pytest.raises(Unreadable, match="more values than fit"):
        parse_json(json.dumps([[]] * 1000))


def test_only_regular_files_are_opened(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "device").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"text"
    assert read_text(tmp_path / "file", follow=False) == "text"
    for name, why in (("device", "not a regular"), ("pipe", "not a regular"), (".", "a directory")):
        with pytest.raises(Unreadable, match=why):
            open_regular(tmp_path / name)
    with pytest.raises(Unreadable, match="is a link"):
        read_text(tmp_path / "link", follow=False)
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "none")


def test_only_so_much_is_read(tmp_path):
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Unreadable, match="too large"):
        read_text(tmp_path / "huge")
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(Unreadable, match="not UTF-8"):
        read_text(tmp_path / "bytes")


def test_printable():
    assert printable("größe 日本") == "größe 日本"
    assert printable("a\x1b[31mb\n\u202e\udcff") == r"a\x1b[31mb\n\u202e\udcff"
    assert printable("abcdef", 4) == "abc…"


def test_a_standard_error_is_not_negative():
    """A chart of a path draws it as a bar; null is one that was not finite."""
    check([0.5, 0.0, None, 1], list[Error], "error")
    with pytest.raises(Unreadable, match=r"error\[1\]"):
        check([0.5, -0.1], list[Error], "error")

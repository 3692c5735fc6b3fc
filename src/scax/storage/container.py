"""One container for models and checkpoints: arrays and a JSON description in the safetensors format.

    8 bytes: length of the header | header: JSON, one entry per array and __metadata__ | the arrays, end to end

Any safetensors reader opens such a file. `__metadata__` adds the format's name and version, the kind of content, its
description, and the sha256 of every byte of the file (its own 64 digits counted as zeros), so that an altered file
is noticed. It is read here with NumPy and json alone: nothing in it is ever executed, and every length is compared
with the size of the file before memory is asked for.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeGuard

import numpy as np

from .._untrusted import Unreadable, open_regular, parse_json
from .errors import FileError
from .whole import write_bytes

VERSION = 1
FORMAT = "scax"
_NO_DIGEST = "0" * 64
_HEADER_LIMIT = 64 << 20  # bytes; safetensors itself allows 100 MB
_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "U32": 4, "I32": 4, "U64": 8, "I64": 8,
    "F16": 2, "F32": 4, "F64": 8, "C64": 8, "BF16": 2,
    "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip
_NAME = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
    "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip
_CODE = {name: code for code, name in _NAME.items()}


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a file holds: its kind ("model", "checkpoint"), a JSON description, and named arrays."""

    kind: str
    description: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Place(NamedTuple):
    """An array of a file before it is read."""

    name: str
    code: str  # of its dtype
    shape: tuple[int, ...]
    nbytes: int

    @property
    def dtype(self) -> str:
        return _NAME[self.code]


def write(
    path: str | os.PathLike,
    kind: str,
    description: Mapping[str, Any],
    arrays: Mapping[str, Any],
    *,
    follow: bool = True,
) -> None:
    """Write arrays and a description as one file, whole or not at all; `follow` as in `write_bytes`."""
    # the bytes of an array that is not contiguous are not in the order of its entries
    ready = {name: np.ascontiguousarray(np.asarray(array)).reshape(np.shape(array)) for name, array in arrays.items()}
    header: dict[str, Any] = {
        "__metadata__": {
            "format": FORMAT,
            "version": str(VERSION),
            "kind": kind,
            "description": json.dumps(description, allow_nan=False, ensure_ascii=False),
            "sha256": _NO_DIGEST,
        }
    }
    parts, offset = [], 0
    # wide entries first: every array then starts at a multiple of its entries' size
    for name, array in sorted(ready.items(), key=lambda item: -item[1].dtype.itemsize):
        if name == "__metadata__" or array.dtype.name not in _CODE:
            raise FileError(
                f"{path} could not be written: {name!r} is of type {array.dtype}, which has no place in it."
            )
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        end = offset + array.nbytes
        header[name] = {"dtype": _CODE[array.dtype.name], "shape": list(array.shape), "data_offsets": [offset, end]}
        # seen as bytes: a memoryview knows nothing of bfloat16
        parts.append(little.reshape(-1).view(np.uint8).data if array.nbytes else b"")
        offset = end
    write_bytes(path, seal(header, parts), *parts, follow=follow)


def seal(header: Mapping[str, Any], parts: Sequence[bytes | memoryview]) -> bytes:
    """The first bytes of the file, length and header, with the checksum of them and of the arrays filled in."""
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    length = len(text).to_bytes(8, "little")
    digest = hashlib.sha256(length + text)
    for part in parts:
        digest.update(part)
    mark = b'"sha256":"%s"'
    return length + text.replace(mark % _NO_DIGEST.encode(), mark % digest.hexdigest().encode(), 1)


def read(
    path: str | os.PathLike, kind: str | None = None, accept: Callable[[Sequence[Place]], Any] | None = None
) -> Contents:
    """Read a file of this kind (any, if None); refuse one that is damaged, altered, or from a newer version.

    `accept` sees the names, types and shapes of the arrays before memory is asked for them, and may raise.
    """
    with _opened(path) as file:
        head = _read_head(file, kind, Path(path))
        if accept is not None:
            accept(head.places)
        return _read_arrays(file, head, Path(path))


def read_places(path: str | os.PathLike, kind: str) -> list[Place]:
    """What arrays a file of this kind holds, from its head alone: the checksum is not looked at."""
    with _opened(path) as file:
        return _read_head(file, kind, Path(path)).places


def read_description(path: str | os.PathLike, kind: str) -> dict[str, Any]:
    """What a file of this kind says beside its arrays, from its head alone: the checksum is not looked at."""
    with _opened(path) as file:
        return _description(_read_head(file, kind, Path(path)), Path(path))


@contextlib.contextmanager
def _opened(path: str | os.PathLike) -> Iterator[BinaryIO]:
    try:
        with open_regular(path) as file:
            yield file
    except Unreadable as error:
        raise FileError(f"{path} {error}: give the name of a file that scax has written.") from None
    except FileNotFoundError:
        raise FileError(f"{path} does not exist: check the name.") from None
    except MemoryError:
        raise FileError(f"{path} does not fit into memory.") from None
    except OSError as error:
        raise FileError(f"{path} could not be read: {error.strerror or error}.") from None


class _Head(NamedTuple):
    """What stands before the arrays, as bytes and as what they mean."""

    length: bytes
    text: bytes
    meta: dict[str, Any]
    places: list[Place]


def _read_head(file: BinaryIO, kind: str | None, path: Path) -> _Head:
    size = os.fstat(file.fileno()).st_size
    length = file.read(8)
    count = int.from_bytes(length, "little")
    if len(length) < 8 or count > min(size - 8, _HEADER_LIMIT):
        raise _damaged(path, "it is cut short or is not a file of scax")
    text = file.read(count)
    header = _header(text, path)
    meta = header.pop("__metadata__", None)
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise FileError(f"{path} is not a file that scax has written: check the name.")
    version = _whole(meta.get("version"))
    if version is None or version < 1:
        raise _damaged(path, "its version is unreadable")
    if version > VERSION:
        raise FileError(
            f"{path} was written by a newer scax (file format {version}; this one reads up to {VERSION}). "
            "Upgrade: pip install --upgrade scax."
        )
    if kind is not None and meta.get("kind") != kind:
        raise FileError(f"{path} holds a {str(meta.get('kind'))[:40]}, not a {kind}: check the name.")
    return _Head(length, text, meta, _places(header, size - 8 - count, path))


def _description(head: _Head, path: Path) -> dict[str, Any]:
    description = _json(head.meta.get("description"), path)
    if not isinstance(description, dict):
        raise _damaged(path, "its description is unreadable")
    return description


def _read_arrays(file: BinaryIO, head: _Head, path: Path) -> Contents:
    recorded = head.meta.get("sha256")
    if not isinstance(recorded, str) or len(recorded) != 64 or not recorded.isascii():
        raise _damaged(path, "its checksum is missing")
    digest = hashlib.sha256(head.length + head.text.replace(recorded.encode(), _NO_DIGEST.encode(), 1))
    arrays = {}
    for place in head.places:
        data = bytearray(place.nbytes)
        if file.readinto(data) != place.nbytes:  # type: ignore[attr-defined]
            raise _damaged(path, "it is cut short")
        digest.update(data)
        arrays[place.name] = (data, place.code, place.shape)
    if digest.hexdigest() != recorded:
        raise _damaged(path, "its checksum does not match its content")
    description = _description(head, path)
    decoded = {name: _array(*entry) for name, entry in arrays.items()}
    return Contents(str(head.meta.get("kind")), description, decoded)


def _header(text: bytes, path: Path) -> dict[str, Any]:
    header = _json(text, path)
    if not isinstance(header, dict):
        raise _damaged(path, "its header is unreadable")
    return header


def _json(text: Any, path: Path) -> Any:
    try:
        return parse_json(text if isinstance(text, str) else text.decode())
    except (ValueError, AttributeError):
        raise _damaged(path, "its header is unreadable") from None


def _places(header: dict[str, Any], room: int, path: Path) -> list[Place]:
    """The arrays in the order of the file; they must fill the rest of it exactly."""
    places = []
    for name, entry in header.items():
        if not isinstance(entry, dict):
            raise _damaged(path, f"the entry of {name[:80]!r} is unreadable")
        dtype, shape, span = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
        if not (isinstance(dtype, str) and dtype in _BYTES and _sizes(shape) and _sizes(span) and len(span) == 2):
            raise _damaged(path, f"the entry of {name[:80]!r} is unreadable")
        if len(shape) > 32 or math.prod(shape) * _BYTES[dtype] != span[1] - span[0]:
            raise _damaged(path, f"the size of {name[:80]!r} does not fit its shape")
        places.append((span[0], span[1], name, dtype, tuple(shape)))
    end = 0
    for start, stop, name, _, _ in sorted(places, key=lambda place: place[:2]):
        if start != end:
            raise _damaged(path, f"{name[:80]!r} is not where it should be")
        end = stop
    if end != room:
        raise _damaged(path, f"it has {room} bytes of arrays where {end} should be")
    return [Place(name, dtype, shape, stop - start) for start, stop, name, dtype, shape in sorted(places)]


def _sizes(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 2**48 for v in value)


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else None


def _array(data: bytearray, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    name = _NAME[dtype]
    if dtype in ("BF16", "F8_E4M3", "F8_E5M2"):
        import ml_dtypes  # comes with JAX

        kind = np.dtype(getattr(ml_dtypes, name))
    else:
        kind = np.dtype(name).newbyteorder("<")
    array = np.frombuffer(data, kind).reshape(shape)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _damaged(path: Path, why: str) -> FileError:
    return FileError(f"{path} is damaged: {why}. Use another copy, or write it again.")

"""A file is there whole, or it is not there: written beside its place, made durable, then renamed over it."""

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from .errors import FileError


def write_bytes(path: str | os.PathLike, *parts: bytes | memoryview, follow: bool = True) -> None:
    """Write the parts one after the other; a reader sees the old file or the new one, never a mixture.

    Where `path` is a symbolic link, the file that it points to is replaced, or with `follow=False` the link itself:
    in a folder that a stranger may have made, a link could point to any file.
    """
    _write(Path(path), parts, follow)


def write_text(path: str | os.PathLike, text: str, *, follow: bool = True) -> None:
    """Write UTF-8 text, whole or not at all; `follow` as in `write_bytes`."""
    _write(Path(path), (text.encode(),), follow)


def remove_parts(folder: str | os.PathLike) -> int:
    """Remove what a killed process left half-written in a folder, for its one writer only; how many things it was."""
    parts = list(Path(folder).glob(".*.part"))
    for part in parts:
        with contextlib.suppress(OSError):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part)
            else:
                part.unlink()
    return len(parts)


def _write(path: Path, parts: Iterable[bytes | memoryview], follow: bool) -> None:
    target = Path(os.path.realpath(path)) if follow else path
    aside = target.with_name(f".{target.name[:40]}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        if target.is_dir() and not target.is_symlink():
            raise FileError(f"{path} is a directory: give the name of a file in it.")
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        with open(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise FileError(f"{path} could not be written: {_reason(error, target)}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(aside)


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself durable, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _reason(error: OSError, target: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full. Free some space, or write elsewhere; the previous file, if any, is untouched."
    if error.errno == errno.ENOENT:
        return f"the folder {target.parent} does not exist. Create it first."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no permission to write in {target.parent}. Choose another folder."
    return f"{error.strerror or error}. Check the path and the disk."

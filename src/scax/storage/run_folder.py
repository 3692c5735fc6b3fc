"""The folder of a run: made aside and renamed, so that nobody ever sees half of one."""

import contextlib
import errno
import json
import math
import os
import platform
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from .whole import write_text

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None

FORMAT = 1
LOCK = ".lock"


class RunFolderError(ValueError):
    """A run folder that cannot be made or read; the message says which, why and what to do."""


def free(stem: str, parent: Path = Path("runs")) -> Path:
    """The first of runs/stem-1, runs/stem-2, … that does not exist."""
    number = 1
    while (parent / f"{stem}-{number}").exists():
        number += 1
    return parent / f"{stem}-{number}"


def refuse_existing(path: Path) -> None:
    """A run is never written over another."""
    if path.exists():
        raise RunFolderError(f"{path} exists already. Give another --out, or remove it first.")
    above = next((parent for parent in path.parents if parent.exists()), None)
    if above is not None and not above.is_dir():
        raise RunFolderError(f"{path} cannot be made, for {above} is a file. Give another --out.")


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A folder beside `path` to fill; it gets its name at the end, or vanishes if anything went wrong.

    It is locked while it is filled. What a process that was killed has left of one is not, and is removed here.
    """
    refuse_existing(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(path.parent)
    working, lock = _make_aside(path)
    try:
        working.chmod(0o755)
        yield working
        refuse_existing(path)
        working.rename(path)
    except BaseException:
        shutil.rmtree(working, ignore_errors=True)
        raise
    finally:
        os.close(lock)


#: .name.process-token.new
_ASIDE = re.compile(r"\..*\.\d+-[0-9a-f]{8}\.new", re.S)


def _make_aside(path: Path) -> tuple[Path, int]:
    """(a new folder, its lock); again if another process took it for a leftover before it was locked."""
    while True:
        working = path.with_name(f".{path.name[:40]}.{os.getpid()}-{secrets.token_hex(4)}.new")
        working.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            handle = _open_lock(working / LOCK)
            if _try_lock(handle) and os.fstat(handle).st_nlink:
                return working, handle
            os.close(handle)


def remove_stale(parent: Path) -> int:
    """Remove folders that killed processes were filling; how many. Those of living processes are locked, and stay."""
    if fcntl is None:
        return 0
    removed = 0
    with os.scandir(parent) as entries:
        leftovers = [Path(e.path) for e in entries if _ASIDE.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
    for folder in leftovers:
        with contextlib.suppress(OSError, RunFolderError):
            if not (folder / LOCK).exists():
                folder.rmdir()  # its process was killed, or has not come to lock it: then it makes another
                removed += 1
                continue
            handle = _open_lock(folder / LOCK, make=False)
            try:
                if _try_lock(handle) and folder.stat().st_uid == os.getuid():
                    shutil.rmtree(folder)
                    removed += 1
            finally:
                os.close(handle)
    return removed


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run folder; the lock ends with the process, however it ends."""
    handle = _open_lock(folder / LOCK)
    try:
        if not _try_lock(handle):
            raise RunFolderError(f"{folder} is in use by another process: wait for it, or stop it.")
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    """Lock an open file, if no other process has; without locks on this system, always."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _open_lock(path: Path, make: bool = True) -> int:
    """The file to lock, made if it is not there; a link or a pipe that someone put in its place is refused."""
    flags = os.O_RDWR | (os.O_CREAT if make else 0)
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"):
        flags |= getattr(os, name, 0)
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RunFolderError(f"{path} is a link, and a regular file is expected: remove it.") from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise RunFolderError(f"{path} is not a regular file: remove it.")
    return handle


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file into a run folder; null where a number is not finite, and a link is replaced."""
    text = json.dumps(finite(value), indent=1, ensure_ascii=False, allow_nan=False)
    # the name of a file need not be UTF-8
    write_text(path, text.encode(errors="replace").decode() + "\n", follow=False)


def finite(value: Any) -> Any:
    """For JSON, which has no other numbers: None where one is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, (list, tuple)) else value


def other_versions(packages: Mapping[str, str | None]) -> str | None:
    """ "scax 0.1 (now 0.2)": what decides the last bits of a run and is not here as it was; None if all is."""
    changed = []
    for name in ("scax", "jax", "jaxlib", "numpy"):
        then, now = packages.get(name), _version(name)
        if then != now:
            changed.append(f"{name} {then or 'of an unknown version'} (now {now or 'unknown'})")
    return ", ".join(changed) or None


def environment() -> dict[str, Any]:
    """What the numbers of a run depend on; nothing that names the machine or its user."""
    import jax

    packages = ("scax", "jax", "jaxlib", "numpy", "optax", "scikit-learn", "polars")
    return {
        "packages": {name: _version(name) for name in packages},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "devices": [f"{len(jax.devices())} × {jax.devices()[0].device_kind}"],
        "cores": os.cpu_count(),
        "float64": jax.dtypes.canonicalize_dtype("float64") == "float64",
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

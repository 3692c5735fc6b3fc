"""The folder of a run: made aside and renamed, so that nobody ever sees half of one."""

import contextlib
import errno
import json
import math
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from .whole import write_text

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
    """A folder beside `path` to fill; it gets its name at the end, or vanishes if anything went wrong."""
    refuse_existing(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    working = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        working.chmod(0o755)
        yield working
        refuse_existing(path)
        working.rename(path)
    except BaseException:
        shutil.rmtree(working, ignore_errors=True)
        raise


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run folder; the lock ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on this system
        yield
        return
    handle = _open_lock(folder / LOCK)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunFolderError(f"{folder} is in use by another process: wait for it, or stop it.") from None
        yield
    finally:
        os.close(handle)


def _open_lock(path: Path) -> int:
    """The file to lock, made if it is not there; a link or a pipe that someone put in its place is refused."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
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
    text = json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False)
    # the name of a file need not be UTF-8
    write_text(path, text.encode(errors="replace").decode() + "\n", follow=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, (list, tuple)) else value


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

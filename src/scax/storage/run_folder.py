"""The folder of a run: made aside and renamed, so that nobody ever sees half of one."""

import contextlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from .whole import write_text

FORMAT = 1


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
    with open(folder / ".lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunFolderError(f"{folder} is in use by another process: wait for it, or stop it.") from None
        yield


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """A JSON file of a run folder, or a sentence that says why not."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunFolderError(f"{path} is missing: {path.parent} is not a complete run folder.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path} is damaged ({error}). Restore it, or run again.") from None


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

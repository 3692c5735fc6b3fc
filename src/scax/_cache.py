"""The user's cache folder, and the compiled programs stored in it.

XLA takes seconds to compile a training; JAX can store the programs and load them in the next process. The command line
and the estimators let it, in the user's cache folder. `SCAX_CACHE=off` switches that off, `SCAX_CACHE=/some/folder`
stores them elsewhere, and a `jax_compilation_cache_dir` that the user has set is left as it is. `import scax` changes
nothing.
"""

import contextlib
import functools
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

SWITCH = "SCAX_CACHE"
#: Bytes that compiled programs may take, some 20 kB each; beyond, those unused for longest are removed.
LIMIT = 512 << 20

_FOLDER, _SECONDS = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
_DEFAULT_SECONDS = 1.0  # of JAX: it stores what took longer to compile


def cache_folder() -> Path:
    """The user's cache folder for scax, by the customs of the system."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "scax"


def programs_folder() -> Path | None:
    """Where compiled programs are stored; None where that is switched off, or the folder cannot be used."""
    switch = os.environ.get(SWITCH, "").strip()
    if switch.lower() in {"off", "no", "false", "0"}:
        return None
    try:
        folder = Path(switch).expanduser() if switch else cache_folder() / "programs"
        return folder if _prepare(folder.absolute(), own=not switch) else None
    except (OSError, RuntimeError):  # no home, no permission, a file where the folder should be
        return None


def set_environment() -> None:
    """Store programs in this process, which has not imported JAX yet, and in those that it starts."""
    if _FOLDER.upper() not in os.environ and (folder := programs_folder()) is not None:
        os.environ[_FOLDER.upper()] = str(folder)
        os.environ.setdefault(_SECONDS.upper(), "0")


@contextlib.contextmanager
def stored_programs() -> Iterator[None]:
    """Store and load the programs compiled within; JAX's settings are the user's again afterwards."""
    import jax
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    if getattr(jax.config, _FOLDER) is not None or (folder := programs_folder()) is None:
        yield
        return
    seconds = getattr(jax.config, _SECONDS)
    jax.config.update(_FOLDER, str(folder))
    jax.config.update(_SECONDS, 0.0 if seconds == _DEFAULT_SECONDS else seconds)
    reset_cache()  # JAX opens a folder once
    try:
        yield
    finally:
        jax.config.update(_FOLDER, None)
        jax.config.update(_SECONDS, seconds)
        reset_cache()


@functools.cache
def _prepare(folder: Path, own: bool) -> bool:
    """Make the folder and remove what is too much in it; whether this user, and for our own folder nobody else, may
    write there: a stored program is code that will run."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if (
        own
        and hasattr(os, "getuid")
        and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    ):
        return False
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return False
    _remove_oldest(folder)
    return True


def _remove_oldest(folder: Path) -> None:
    """Remove empty files, which a killed process leaves; beyond LIMIT, also those unused for longest, to half of it."""
    with os.scandir(folder) as entries:
        files = [(entry.path, entry.stat()) for entry in entries if entry.is_file(follow_symlinks=False)]
    total = sum(status.st_size for _, status in files)
    too_many = total > LIMIT
    for path, status in sorted(files, key=lambda file: max(file[1].st_atime, file[1].st_mtime)):
        if status.st_size == 0 or (too_many and total > LIMIT // 2):
            with contextlib.suppress(OSError):
                os.remove(path)
            total -= status.st_size

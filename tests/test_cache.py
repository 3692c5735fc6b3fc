"""Compiled programs in the user's cache folder: by default, switched off, elsewhere, where nothing can be written."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from scax import _cache

#: A fit, and what JAX's settings are afterwards.
FIT = """
import warnings, jax, numpy as np, sklearn.exceptions
from scax.estimators import SCARegressor
warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
jax.numpy.ones(3) + 1  # JAX has compiled something before: it opens its folder at the first program
x = np.random.default_rng(0).normal(size=(40, 2))
SCARegressor(hidden_layer_sizes=(3,), alpha=0.1, max_iter=2, random_state=0).fit(x, x[:, 0])
print(jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A cache folder of our own, and none of JAX's settings."""
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "SCAX_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    _cache._prepare.cache_clear()
    return tmp_path


def fit() -> str:
    run = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, timeout=250)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return run.stdout.strip()


def test_a_fit_stores_its_programs_and_the_next_process_loads_them(home):
    assert fit() == "None 1.0"  # as the user had it
    folder = _cache.cache_folder() / "programs"
    first = {file.name: file.stat().st_mtime_ns for file in folder.glob("*-cache")}
    assert any(name.startswith("jit_") for name in first)
    assert fit() == "None 1.0"
    assert {file.name: file.stat().st_mtime_ns for file in folder.glob("*-cache")} == first


@pytest.fixture
def settings():
    """JAX's settings of this process, restored afterwards."""
    before = {name: getattr(jax.config, name) for name in (_cache._FOLDER, _cache._SECONDS)}
    yield jax.config
    for name, value in before.items():
        jax.config.update(name, value)


def test_jax_s_own_setting_is_left_alone(home, settings):
    own = str(home / "own")
    settings.update(_cache._FOLDER, own)
    with _cache.stored_programs():
        assert settings.jax_compilation_cache_dir == own
    settings.update(_cache._FOLDER, None)
    settings.update(_cache._SECONDS, 7.0)
    with _cache.stored_programs():
        assert settings.jax_compilation_cache_dir == str(_cache.programs_folder())
        assert settings.jax_persistent_cache_min_compile_time_secs == 7.0
    assert settings.jax_compilation_cache_dir is None


def test_switched_off_nothing_is_set_or_made(home, settings, monkeypatch):
    monkeypatch.setenv("SCAX_CACHE", "off")
    settings.update(_cache._FOLDER, None)
    with _cache.stored_programs():
        assert settings.jax_compilation_cache_dir is None
    assert not _cache.cache_folder().exists()


def test_the_folder(home, monkeypatch):
    assert _cache.programs_folder() == _cache.cache_folder() / "programs"
    monkeypatch.setenv("SCAX_CACHE", str(home / "elsewhere"))
    assert _cache.programs_folder() == home / "elsewhere"
    assert (home / "elsewhere").is_dir()
    monkeypatch.setenv("SCAX_CACHE", "~/there")
    assert _cache.programs_folder() == home / "there"
    for switch in ("off", "OFF", "0", "no", "false"):
        monkeypatch.setenv("SCAX_CACHE", switch)
        assert _cache.programs_folder() is None


@pytest.mark.parametrize(
    ("platform", "folder"),
    [("linux", "cache/scax"), ("darwin", "Library/Caches/scax"), ("win32", "cache/scax")],
)
def test_the_customs_of_systems(home, monkeypatch, platform, folder):
    monkeypatch.setattr(sys, "platform", platform)
    assert _cache.cache_folder() == home / folder
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA")
    default = {"linux": ".cache", "darwin": "Library/Caches", "win32": "AppData/Local"}[platform]
    assert _cache.cache_folder() == home / default / "scax"


def test_a_folder_that_cannot_be_used_is_not(home, monkeypatch):
    (home / "cache").write_text("a file")
    assert _cache.programs_folder() is None
    monkeypatch.setenv("SCAX_CACHE", "/proc/no")
    assert _cache.programs_folder() is None
    monkeypatch.delenv("SCAX_CACHE")
    monkeypatch.setattr(Path, "home", _no_home)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA")
    assert _cache.programs_folder() is None


def _no_home():
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
def test_a_folder_that_others_may_write_to_is_not_used(home):
    """What is stored there runs in this process."""
    folder = _cache.cache_folder() / "programs"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert _cache.programs_folder() is None
    folder.chmod(0o700)
    _cache._prepare.cache_clear()
    assert _cache.programs_folder() == folder


def test_too_much_is_removed_from_the_old_end(home, monkeypatch):
    monkeypatch.setattr(_cache, "LIMIT", 100)
    folder = _cache.cache_folder() / "programs"
    folder.mkdir(parents=True, mode=0o700)
    for i in range(6):
        (folder / f"{i}-cache").write_bytes(bytes(20))
        os.utime(folder / f"{i}-cache", (i, i))
    (folder / "killed-cache").touch()
    _cache.programs_folder()
    assert sorted(file.name for file in folder.iterdir()) == ["4-cache", "5-cache"]


def test_the_command_line_sets_it_for_itself_and_its_processes(home, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    _cache.set_environment()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(_cache.cache_folder() / "programs")
    assert os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "0"
    monkeypatch.setattr(os, "environ", os.environ | {"JAX_COMPILATION_CACHE_DIR": "/mine"})
    _cache.set_environment()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "/mine"

"""What holds for every test: checked annotations, hypothesis settings, precision, devices."""

import os
from importlib import metadata

os.environ.setdefault("MPLBACKEND", "Agg")

# Nearly all of the suite's time goes into compiling small programs that run once or twice: compile them fast, not well.
# Several test processes share the cores, and threads of BLAS that wait for each other would take all of them.
# Both are read when the libraries are loaded.
QUICKLY = [
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_llvm_disable_expensive_passes=true",
]
if tuple(map(int, metadata.version("jaxlib").split(".")[:2])) < (0, 11):  # XLA ends a process over a flag it lacks
    QUICKLY.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *QUICKLY])
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

# What one test process, or the last run, has compiled, the others read: half of a run's time, if nothing has changed.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import gc
import signal
import sys
from collections.abc import Iterator

import hypothesis
import jax
import jaxtyping
import numpy as np
import pytest

import tests.typecheck

# Tracing makes many small objects that live on: looking through all of them every 700 is a thirtieth of the time.
gc.set_threshold(100_000, 50, 100)

# A run in the background ignores these, and so would the processes that tests start and interrupt.
for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, default)

# Every annotation of scax, array shapes included, is checked at run time while the tests run.
# Modules imported before the hook would escape it.
if any(name.partition(".")[0] == "scax" for name in sys.modules):
    raise RuntimeError("scax was imported before tests/conftest.py could install the import hook")
jaxtyping.install_import_hook("scax", f"{tests.typecheck.__name__}.check")

# deadline=None: the first example compiles. Function-scoped fixtures (`dtype`, `x64`) are the same for
# every example, so hypothesis need not warn about them.
hypothesis.settings.register_profile(
    "scax",
    deadline=None,
    max_examples=25,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.register_profile("scax-ci", hypothesis.settings.get_profile("scax"), derandomize=True)
hypothesis.settings.register_profile("scax-thorough", hypothesis.settings.get_profile("scax"), max_examples=500)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "scax-ci" if os.environ.get("CI") else "scax"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip `tests/multidevice` where there is one device; `make test` runs it on eight."""
    folder = Path(__file__).parent / "multidevice"
    sharded = [item for item in items if item.path.is_relative_to(folder)]
    if sharded and jax.device_count() < 8:
        for item in sharded:
            item.add_marker(pytest.mark.skip(reason="needs 8 devices: run make test"))


@pytest.fixture(scope="module", autouse=True)
def compiled_programs() -> Iterator[None]:
    """Forget what a module compiled: thousands of programs in one process exhaust its memory maps."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Run the test in float64; `parametrize("x64", [False, True], indirect=True)` runs it both ways."""
    enabled = getattr(request, "param", True)
    with jax.enable_x64(enabled):
        yield enabled


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> Iterator[np.dtype]:
    """Run the test once in each precision, JAX's default dtype being the one yielded."""
    with jax.enable_x64(request.param is np.float64):
        yield np.dtype(request.param)

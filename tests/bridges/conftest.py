"""These tests compare numbers of tiny networks: compiling them well would take most of the time."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def quickly_compiled() -> Iterator[None]:
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)

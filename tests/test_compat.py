"""Releases of JAX: what is refused, what is warned about, and what is not traced where it cannot run."""

import jax
import jax.numpy as jnp
import pytest

from scax import _compat
from scax.solvers.linear import cholesky


def test_an_old_jax_is_refused_with_what_to_install():
    with pytest.raises(ImportError, match=r"scax needs jax>=0\.10,<0\.13, and 0\.9\.2 is installed: pip install"):
        _compat.check_version("0.9.2")


def test_a_jax_that_is_not_known_yet_is_warned_about():
    with pytest.warns(UserWarning, match=r"0\.13\.0 is installed, which it has not been tested with"):
        _compat.check_version("0.13.0")


@pytest.mark.parametrize("version", ["0.10.2", "0.11.0.dev20260101", "0.12.0.1"])
def test_the_releases_between_them_pass(version, recwarn):
    _compat.check_version(version)
    assert not recwarn.list


@pytest.mark.parametrize("gpu", [False, True])
def test_the_kernel_is_traced_only_where_there_is_a_gpu(monkeypatch, gpu):
    monkeypatch.setattr(cholesky, "has_gpu", lambda: gpu)
    solve = lambda matrix, right: cholesky.solve_positive(matrix, right)  # a new function: JAX keeps traces of old ones
    program = jax.make_jaxpr(solve)(jnp.eye(20, dtype=jnp.float32), jnp.ones(20, jnp.float32))
    assert ("pallas_call" in str(program)) == gpu


def test_sizes_of_a_scan():
    body = lambda carry, x: ((jnp.tanh(carry[0] @ a + x), carry[1] + 1.0), carry[0])
    a = jnp.eye(2)
    program = jax.make_jaxpr(lambda a, x: jax.lax.scan(lambda c, x: body(c, x @ a), (x[0], 0.0), x))(
        a, jnp.ones((3, 2))
    )
    (scan,) = [eqn for eqn in program.jaxpr.eqns if eqn.primitive.name == "scan"]
    constants, carried = _compat.scan_sizes(scan)
    assert carried == 2
    assert constants + carried + 1 == len(scan.invars)

"""Newton: monotone, at rest at the solution, and honest about where it stopped."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.solvers import SOLVERS, ConjugateGradients, Direct
from scax.solvers.linear import Space
from scax.solvers.newton import step_length
from scax.surrogate.datafit import Datafit
from tests.test_surrogate import LOSS_NAMES, build


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_newton_is_monotone(loss, x64):
    """Every iteration more lowers the surrogate, down to where its gradient is zero."""
    surrogate = build(loss, "l2")
    deltas = [jnp.zeros_like(surrogate.w)]
    deltas += [jax.jit(lambda n=n: Direct(max_iterations=n).solve(surrogate).delta)() for n in range(1, 7)]
    values = [float(surrogate.value(delta)) for delta in deltas]
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(values))
    assert np.linalg.norm(jax.grad(surrogate.value)(deltas[-1])) < 1e-8


def test_the_step_is_halved_until_the_surrogate_falls():
    """On the way from 0 to 1 along which (z − ¼)² falls at first and is not known beyond ½."""

    class Flat(Space):
        def energy(self, point):
            return 0 * point

    class Well(Datafit):
        def __init__(self, edge):
            self.edge = edge

        def value(self, z):
            return jnp.where(jnp.sum(z) <= self.edge, jnp.sum((z - 0.25) ** 2), jnp.nan)

    ends = (jnp.zeros(()), jnp.zeros((1, 1))), (jnp.ones(()), jnp.ones((1, 1)))
    assert step_length(Flat(), Well(0.5), jnp.zeros((1, 1)), *ends) == 0.25
    assert step_length(Flat(), Well(0.0), jnp.zeros((1, 1)), *ends) == 0, "nothing helps: stay"


@pytest.mark.parametrize("name", ["weight-space", "sample-space", "newton", "cg"])
def test_an_iteration_limit_is_reported(name, x64):
    surrogate = build("poisson", "l2")
    solver = dataclasses.replace(SOLVERS[name], max_iterations=1)
    solution = solver.solve(surrogate)
    assert solution.iterations == 1
    assert solution.status == scax.Status.NOT_CONVERGED
    assert solution.optimality > 1e-6
    done = SOLVERS[name].solve(surrogate)
    assert done.status == scax.Status.OK
    assert 1 < done.iterations < 20


def test_tolerance_changes_the_result(x64):
    surrogate = build("poisson", "l2")
    loose = Direct(tolerance=0.3).solve(surrogate)
    fine = Direct().solve(surrogate)
    assert loose.iterations < fine.iterations
    assert loose.optimality > fine.optimality
    few = ConjugateGradients(cg_iterations=2).solve(build("squared", "l2"))
    assert few.status == scax.Status.NOT_CONVERGED
    many = ConjugateGradients().solve(build("squared", "l2"))
    assert few.optimality > 1e-6 > many.optimality

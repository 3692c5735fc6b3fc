"""When a run ends by itself, and which solution it keeps."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.training import engine
from scax.training.feed import Whole
from scax.training.method import check_method
from scax.training.stopping import Stopping
from tests.cases import mlp

PROBLEM = scax.Problem(mlp(1).apply, scax.Squared())
FEED = Whole(scax.Batch(jnp.zeros((1, 3)), jnp.zeros(1)))
KEY = jax.random.key(0)


@pytest.mark.parametrize("by_validation", [False, True])
def test_stopping(by_validation):
    """A value that falls to 1 and rises again: the least is kept, or the last."""
    values = [5.0, 2.0, 1.0, 1.5, 1.5, 1.5, 1.5, 1.5]
    toy = check_method(Counter())
    stopping = Stopping(0.1, 2, by_validation)
    carry = engine.start(toy, jnp.zeros(1), FEED, KEY, stopping=stopping)
    run = engine.run(toy, Falling(jnp.asarray(values)), stopping)
    parts = list(engine.drive(run, carry, FEED, range(1, 9)))
    assert parts[-1].is_over
    assert parts[-1].step == 5  # 1 at the third, two records without a fall
    best = parts[-1].carry.best
    assert float(best.value) == 1.0
    np.testing.assert_array_equal(best.params, [3.0 if by_validation else 5.0])


def test_a_value_that_is_not_a_number_is_no_improvement():
    toy, stopping = check_method(Counter()), Stopping(0.0, 9, True)
    carry = engine.start(toy, jnp.zeros(1), FEED, KEY, stopping=stopping)
    run = engine.run(toy, Falling(jnp.asarray([2.0, np.nan, 1.0, np.nan])), stopping)
    *_, last = engine.drive(run, carry, FEED, range(1, 5))
    np.testing.assert_array_equal(last.carry.best.params, [3.0])
    assert float(last.carry.best.value) == 1.0


def test_a_fall_within_the_tolerance_is_none():
    """The last solution is kept and `tol` is measured from the last clear fall; by validation from the least value."""
    for by_validation, since, value in [(False, 2, 1.0), (True, 2, 0.9)]:
        stopping, best = Stopping(0.2, 5, by_validation), None
        for step, value_ in enumerate([1.0, 0.95, 0.9]):
            best = stopping.start(jnp.zeros(1)) if best is None else best
            measured = {"objective": jnp.asarray(value_), "validation_loss": jnp.asarray(value_)}
            best = stopping.update(best, measured, jnp.full(1, float(step)))
        assert int(best.since) == since
        assert float(best.value) == pytest.approx(value)
        np.testing.assert_array_equal(best.params, [2.0])
        assert not stopping.is_over(best)
        assert dataclasses.replace(stopping, patience=2).is_over(best)


def test_the_objective_serves_where_no_rows_are_held_out():
    stopping = Stopping(0.0, 1, False)
    best = stopping.update(stopping.start(jnp.zeros(1)), {"objective": jnp.asarray(3.0)}, jnp.ones(1))
    assert float(best.value) == 3.0


@dataclasses.dataclass(frozen=True)
class Counter:
    """A method that counts its steps in its only weight."""

    problem = PROBLEM

    def init(self, params):
        return params

    def step(self, state, batch):
        return state + 1, types.SimpleNamespace(records={})

    def solution(self, state):
        return state


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Falling:
    values: jax.Array

    def __call__(self, method, state):
        value = self.values[state[0].astype(int) - 1]
        return {"objective": value, "validation_loss": value}

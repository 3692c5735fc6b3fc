"""A method of one's own trains like SCA; what lacks a part is told which."""

import dataclasses
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scax
from scax.rules import Rule
from scax.training.method import check_method
from tests.cases import mlp, rows, start

NET = mlp(1)
X = rows(0, 24, dtype=np.float32)
Y = np.sin(2 * X[:, 0])
PROBLEM = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-3))
PARAMS = start(NET, 0, np.float32)


@dataclasses.dataclass
class Descent:
    """Gradient descent, as a user would write it: no pytree, no JAX but in the step."""

    problem: Any
    rate: float = 0.05

    def init(self, params):
        return params, jnp.zeros((), jnp.int32)

    def step(self, state, batch):
        value, slope = jax.value_and_grad(lambda p: self.problem.objective(p, batch.x, batch.y))(state[0])
        moved = jax.tree.map(lambda w, g: w - self.rate * g, state[0], slope)
        info = types.SimpleNamespace(records={"batch_loss": value, "slope": optax.tree.norm(slope)})
        return (moved, state[1] + 1), info

    def solution(self, state):
        return state[0]


def test_a_method_of_ones_own_trains():
    result = scax.train(Descent(PROBLEM), PARAMS, (X, Y), steps=40, batch_size=8, records=4)
    assert result.history["objective"][-1] < 0.8 * PROBLEM.objective(PARAMS, X, Y)
    assert result.history["slope"].shape == (4,)
    assert int(result.state[1]) == result.steps == 40
    assert result.status == "steps"
    same = scax.train(scax.baseline(optax.sgd(0.05), PROBLEM), PARAMS, (X, Y), steps=40, batch_size=8, records=4)
    np.testing.assert_allclose(result.history["objective"], same.history["objective"], rtol=1e-4)


@dataclasses.dataclass
class Refusing:
    """Takes as many steps as it is told, and no more."""

    problem: Any
    taken: int

    def init(self, params):
        return params, jnp.zeros((), jnp.int32)

    def step(self, state, batch):
        return (state[0], state[1] + 1), types.SimpleNamespace(records={"accepted": state[1] < self.taken})

    def solution(self, state):
        return state[0]


def test_many_refused_steps_in_a_row_warn():
    scax.train(Refusing(PROBLEM, 35), PARAMS, (X, Y), steps=40, batch_size=8, records=40)  # warnings are errors here
    with pytest.warns(RuntimeWarning, match="not one of 20 steps in a row was taken"):
        scax.train(Refusing(PROBLEM, 20), PARAMS, (X, Y), steps=40, batch_size=8, records=40)


def test_a_method_without_the_prox_is_not_finished():
    """A run with a nonsmooth penalty ends with exact zeros only if the method says that it solves for them."""
    problem = scax.Problem(NET.apply, scax.Squared(), scax.L1(0.05))
    count = lambda method: sum(
        int(jnp.sum(leaf == 0))
        for leaf in jax.tree.leaves(scax.train(method, PARAMS, (X, Y), steps=5, batch_size=8).params)
    )
    assert count(Descent(problem)) == 0
    assert count(scax.SCA(problem)) > 0


def without(part):
    parts = {"problem": PROBLEM, "init": lambda p: p, "step": lambda s, b: (s, None), "solution": lambda s: s}
    return types.SimpleNamespace(**{name: value for name, value in parts.items() if name != part})


@pytest.mark.parametrize("part", ["problem", "init", "step", "solution"])
def test_a_missing_part_is_named(part):
    with pytest.raises(TypeError, match=f"method SimpleNamespace lacks '{part}': a method has problem"):
        scax.train(without(part), PARAMS, (X, Y), steps=1)


def test_a_step_that_cannot_be_used():
    method = without("nothing")
    with pytest.raises(TypeError, match=r"method SimpleNamespace lacks 'records': the info of a step"):
        scax.train(method, PARAMS, (X, Y), steps=1)
    method.step = lambda state, batch: state
    with pytest.raises(TypeError, match=r"step must return \(state, info\), got list"):
        scax.train(method, PARAMS, (X, Y), steps=1)
    method.step = lambda state, batch: ((state, 1), None)
    with pytest.raises(TypeError, match="step must return a state like the one it was given"):
        scax.train(method, PARAMS, (X, Y), steps=1)


def test_an_optimizer_is_no_method():
    for optimizer in (optax.adam(1e-3), scax.as_optax(scax.SCA(PROBLEM))):
        with pytest.raises(TypeError, match=r"give scax\.baseline\(optimizer, problem\)"):
            scax.train(optimizer, PARAMS, (X, Y), steps=1)
    with pytest.raises(TypeError, match=r"give scax\.baseline\(optimizer, problem\)"):
        scax.train_many(optax.adam(1e-3), NET.init, (X, Y), steps=1, keys=jax.random.split(jax.random.key(0), 2))


def test_one_trace_for_a_grid_of_rates():
    """The rate, decay and horizon of a tuned baseline are numbers of its state."""
    from scax.training.methods import optimizer, tuned

    method = scax.baseline(optimizer("adam"), PROBLEM)
    state = method.init(PARAMS)
    traces = []

    @jax.jit
    def step(state):
        traces.append(1)
        return method.step(state, (X, Y))[0]

    ends = []
    for rate, cosine, steps in [(0.1, False, 10), (0.01, True, 20), (0.001, True, 5)]:
        ends.append(step(dataclasses.replace(state, optimizer=tuned(state.optimizer, rate, cosine, steps))).trained[0])
    assert len(traces) == 1
    assert not np.allclose(ends[0], ends[1])
    assert check_method(method) is method


def test_names_of_the_engines_columns_are_refused():
    method = without("nothing")
    method.step = lambda state, batch: (state, types.SimpleNamespace(records={"objective": jnp.zeros(())}))
    with pytest.raises(ValueError, match="method SimpleNamespace reports 'objective', which is a column of every"):
        scax.train(method, PARAMS, (X, Y), steps=1)


@jax.tree_util.register_static
class Counting(Rule):
    """A constant damping that counts its steps, and shows the count."""

    def init(self, w):
        return jnp.zeros((), w.dtype)

    def propose(self, state, seen):
        return 0.1, state

    def update(self, state, outcome):
        return state + 1

    def report(self, state):
        return {"counted": state}


def test_what_a_rule_reports_becomes_a_column():
    sca = scax.SCA(PROBLEM, damping=Counting())
    history = scax.train(sca, PARAMS, (X, Y), steps=6, batch_size=8, records=2).history
    np.testing.assert_allclose(history["counted"], [2, 5])  # averages of 1, 2, 3 and of 4, 5, 6
    _, info = sca.step(sca.init(PARAMS), (X, Y))
    assert info.reported == {"counted": 1}

"""Every solver, on everything it supports, gives the same ŵ; on what it does not, it says so.

One row of the table is a solver, a loss, a regularizer, a number of outputs and a precision; its four columns are
{ρ = 1, ρ < 1 with d ≠ 0} × {β = 0, β > 0}, numbers to one compiled step. With step_size 1, fixed damping and
acceptance off a step lands on ŵ itself.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import scax
from scax.solvers import SOLVERS
from tests.agreement.reference import Reference
from tests.cases import LOSS_OUTPUTS, LOSSES, REGULARIZERS, mlp, rows, start

TAU = 0.1
RHO = np.array([1.0, 1.0, 0.6, 0.6])
BETA = np.array([0.0, 0.8, 0.0, 0.8])
L = 12  # 12 rows × 1 output is fewer than the weights, 12 × 3 is more: both sides of every solver


@functools.cache
def setting(loss: str, k: int, dtype: str, regularizer: str = "l2"):
    """Network, weights, batch, memory and carried step: the same numbers in every precision."""
    net = mlp(k)
    w, unravel = ravel_pytree(start(net, 1, dtype))
    params = unravel(REGULARIZERS[regularizer](w.size).project(w))  # some must start from zeros
    rng = np.random.default_rng(2)
    memory, carried = (0.3 * rng.normal(size=(2, w.size))).astype(dtype)
    return net, params, rows(3, L, dtype=dtype), LOSSES[loss].draw(4, L, k, dtype), memory, carried


def size(params) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))


@functools.cache
def reference(loss: str, regularizer: str, k: int) -> list[tuple[np.ndarray, Reference]]:
    """δ* of the four columns, in float64, each certified."""
    with jax.enable_x64(True):
        net, params, x, y, memory, carried = setting(loss, k, "float64", regularizer)
        part = REGULARIZERS[regularizer](size(params))
        problems = [
            Reference(net.apply, LOSSES[loss].loss, part, params, x, y, memory, carried, rho, beta, TAU)
            for rho, beta in zip(RHO, BETA, strict=True)
        ]
        return [(problem.solve(), problem) for problem in problems]


def landed(solver, loss: str, regularizer: str, k: int, dtype: str) -> np.ndarray:
    """δ of the four columns from the solver."""
    net, params, x, y, memory, carried = setting(loss, k, dtype, regularizer)
    problem = scax.Problem(net.apply, LOSSES[loss].loss, REGULARIZERS[regularizer](size(params)))
    sca = scax.SCA(problem, step_size=1.0, averaging=0.5, damping=TAU, mean_power=None, solver=solver, acceptance=False)
    state = dataclasses.replace(sca.init(params), memory=jnp.asarray(memory), carried=jnp.asarray(carried))
    deltas = []
    for rho, beta in zip(RHO.astype(dtype), BETA.astype(dtype), strict=True):
        w, accepted = land(sca, state, rho, beta, (x, y))
        assert accepted
        deltas.append(np.asarray(w - state.w, np.float64))
    return np.stack(deltas)


@jax.jit
def land(sca, state, rho, beta, batch):
    after, info = dataclasses.replace(sca, carry=beta, averaging=rho).step(state, batch)
    return after.w, info.accepted


def configured(name: str):
    """The solver, asked for more than its default where it stops on a gap."""
    solver = SOLVERS[name]
    return dataclasses.replace(solver, tolerance=1e-13) if solver.stops_on_gap else solver


def compare(name, loss, regularizer, k, dtype):
    deltas = landed(configured(name), loss, regularizer, k, dtype)
    wanted = reference(loss, regularizer, k)
    eps = np.finfo(dtype).eps
    for column, (delta, (best, problem)) in enumerate(zip(deltas, wanted, strict=True)):
        error = np.linalg.norm(delta - best)
        where = f"ρ={RHO[column]}, β={BETA[column]}: ‖δ − δ*‖ = {error:.2e}, ‖δ*‖ = {np.linalg.norm(best):.2e}"
        if SOLVERS[name].stops_on_gap:
            # μ‖δ − δ*‖² ≤ F(δ) − F* ≤ gap · |F|, and F itself is only known to a few roundings of its terms
            gap = max(1e-13, 16 * eps)
            terms = abs(problem.value(best)) + np.abs(problem.linear) @ np.abs(best)
            assert error <= np.sqrt((gap * abs(problem.value(best)) + 8 * eps * terms) / problem.mu), where
        else:
            # float32: rounding times the condition number, (‖J‖² ∂²l/L + 2μ)/2μ ≈ 10² here
            tolerance = 1e-8 if dtype == "float64" else 300 * eps
            assert error <= tolerance * (np.linalg.norm(best) + 0.01 * np.linalg.norm(problem.w)), where


@pytest.fixture(params=["float32", "float64"])
def precision(request):
    with jax.enable_x64(request.param == "float64"):
        yield request.param


#: one of every kind, and one sum with all of them at once; the other sums are the same code (see tests/regularizers)
TABLE = ["l2", "l1", "elastic-net", "group", "box", "all"]
#: those that are one of the others at every step, or nearly
LIKE_OTHERS = ["log-sum", "log-sum-groups", "support"]
#: one smooth loss, and one whose outputs are coupled
TWO_LOSSES = [("squared", 1), ("softmax", 3)]

#: every solver on every loss; semismooth Newton, which compiles for seconds, on two:
#: tests/solvers/test_semismooth.py certifies it on all of them
CASES = [
    (name, regularizer, loss, k)
    for name in SOLVERS
    if name != "newton"  # the same solver as "structured"
    for regularizer in [*TABLE, *LIKE_OTHERS]
    for loss, k in LOSS_OUTPUTS
    if loss != "softmax-probabilities"
    if (name != "semismooth" and regularizer in TABLE) or (loss, k) in TWO_LOSSES
]


@pytest.mark.parametrize(("name", "regularizer", "loss", "k"), CASES)
def test_every_solver_gives_the_same_answer(name, regularizer, loss, k, precision):
    net, params, *_ = setting(loss, k, precision)
    problem = scax.Problem(net.apply, LOSSES[loss].loss, REGULARIZERS[regularizer](size(params)))
    reason = SOLVERS[name].supports(problem)
    if reason is None:
        compare(name, loss, regularizer, k, precision)
        return
    with pytest.raises(ValueError, match="solver") as refusal:
        scax.SCA(problem, solver=name)
    sentence = str(refusal.value)
    assert sentence == reason
    assert repr(SOLVERS[name].name) in sentence  # both parts are named, and what to try
    assert type(problem.regularizer).__name__ in sentence or type(problem.loss).__name__ in sentence
    assert "use solver=" in sentence

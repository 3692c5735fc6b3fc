"""The linear system of a smooth step: every space gives the same solution, and says so where there is none."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scax
from scax.linearize import Dense
from scax.solvers import SOLVERS, ConjugateGradients, Direct
from scax.solvers.base import OUTCOMES, Solution, join_blocks, worst_status
from scax.solvers.linear import MatrixFreeSpace, SampleSpace, WeightSpace
from scax.solvers.linear.cholesky import by_cholesky, in_one_kernel, solve_positive
from scax.surrogate.datafit import Factor
from tests.test_surrogate import LOSS_NAMES, build

Status = scax.Status
SIZES = [(4, 1, 9), (5, 3, 7), (3, 2, 6)]  # rows × outputs below, above and equal to the number of weights


def system(seed, n, k, q, coupled, remains):
    """J, F, α, r, h and μ of a random linear system."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape))
    lin = Dense(draw(n, k), draw(n, k, q))
    factor = Factor(draw(n, k, k) if coupled else draw(n, k))
    mu = jnp.asarray(10.0 ** rng.uniform(-3, 1))
    return lin, factor, draw(n, k), draw(n, k) if remains else None, draw(q), mu


def matrices(lin, factor, alpha, remainder, h, mu):
    """(JᵀFᵀFJ + 2μI) and JᵀFᵀα − Jᵀr + 2h, written out."""
    j, q = np.asarray(lin.jacobian()), lin.size
    blocks = np.asarray(factor.blocks)
    blocks = blocks if blocks.ndim == 3 else np.stack([np.diag(b) for b in blocks])
    fj = np.einsum("nab,nbq->naq", blocks, j).reshape(-1, q)
    right = fj.T @ np.asarray(alpha).ravel() + 2 * np.asarray(h)
    if remainder is not None:
        right -= j.reshape(-1, q).T @ np.asarray(remainder).ravel()
    return fj.T @ fj + 2 * float(mu) * np.eye(q), right


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("remains", [False, True])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**31), sizes=st.sampled_from(SIZES))
def test_spaces_agree_on_random_systems(coupled, remains, seed, sizes, x64):
    lin, factor, alpha, remainder, h, mu = system(seed, *sizes, coupled, remains)
    matrix, right = matrices(lin, factor, alpha, remainder, h, mu)
    best = np.linalg.solve(matrix, right)
    for delta, rows, change, is_singular in solved(lin.outputs, lin.jacobian(), factor.blocks, alpha, remainder, h, mu):
        assert not is_singular
        np.testing.assert_allclose(delta, best, rtol=1e-7, atol=1e-9 * np.linalg.norm(best))
        np.testing.assert_allclose(matrix @ delta, right, rtol=1e-7, atol=1e-8 * np.linalg.norm(right))
        np.testing.assert_allclose(rows, change, rtol=1e-8, atol=1e-10)


@jax.jit
def solved(outputs, jacobian, blocks, alpha, remainder, h, mu):
    """(δ, its rows, Jδ, whether the system is singular) of every space."""
    lin, factor, free = Dense(outputs, jacobian), Factor(blocks), {"tolerance": 1e-14, "max_iterations": 1000}
    results = []
    for space in (
        SampleSpace(lin, h, mu),
        WeightSpace(lin, h, mu),
        MatrixFreeSpace(lin, h, mu, in_samples=True, **free),
        MatrixFreeSpace(lin, h, mu, in_samples=False, **free),
    ):
        point, is_singular = space.solve(factor, alpha, remainder)
        delta = space.weights(point)
        results.append((delta, space.rows(point), lin.jvp(delta), is_singular))
    return results


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_spaces_measure_the_same(loss, x64):
    """Energy, rows and residual of one point, in coordinates of three kinds."""
    surrogate = build(loss, "l2")
    args = surrogate.lin, surrogate.pull, surrogate.curvature
    sample, weight = SampleSpace(*args), WeightSpace(*args)
    free = MatrixFreeSpace(*args, tolerance=1e-12, max_iterations=100)
    rng = np.random.default_rng(0)
    point = (jnp.asarray(0.4), jnp.asarray(rng.normal(size=surrogate.lin.outputs.shape)))

    @jax.jit
    def measured():
        delta = sample.weights(point)
        slope = surrogate.datafit.gradient(surrogate.lin.outputs + sample.rows(point))
        terms = [surrogate.lin.vjp(slope), 2 * surrogate.curvature * delta, 2 * surrogate.pull]
        residual = jnp.linalg.norm(jax.grad(surrogate.value)(delta)) / sum(jnp.linalg.norm(t) for t in terms)
        others = [(o.energy(delta), o.rows(delta), o.residual(delta, slope), o.weights(delta)) for o in (weight, free)]
        return (sample.energy(point), sample.rows(point), residual, delta), others

    (energy, rows, residual, delta), others = measured()
    for other in others:
        np.testing.assert_allclose(other[0], energy, rtol=1e-9)
        np.testing.assert_allclose(other[1], rows, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other[2], residual, rtol=1e-9)
        assert np.array_equal(other[3], delta)
    assert np.all(weight.zero() == 0)
    assert np.all(free.zero() == 0)
    assert np.all(sample.weights(sample.zero()) == 0)


def test_conjugate_gradients_take_the_smaller_side(x64):
    for n, k, q in SIZES:
        lin, *_, h, mu = system(0, n, k, q, False, False)
        assert MatrixFreeSpace(lin, h, mu, tolerance=1e-9, max_iterations=9).in_samples is (n * k <= q)


# -- failures are data -------------------------------------------------------------------------------


def changed(surrogate, **values):
    """The same problem with another linear term or curvature."""
    return dataclasses.replace(surrogate, rest=dataclasses.replace(surrogate.rest, **values))


@pytest.mark.parametrize("loss", ["squared", "poisson"])
@pytest.mark.parametrize("name", ["weight-space", "sample-space", "structured"])
def test_a_matrix_that_is_not_positive_definite_gives_a_status(name, loss, x64):
    surrogate = build(loss, "l2")
    saddle = changed(surrogate, curvature=jnp.asarray(-0.5))
    solution = jax.jit(lambda: SOLVERS[name].solve(saddle))()
    assert solution.status == Status.SINGULAR
    assert "not positive definite" in Status(int(solution.status)).message


@pytest.mark.parametrize("loss", ["squared", "poisson"])
@pytest.mark.parametrize("solver", [Direct("weight", "dense"), Direct(), ConjugateGradients()])
def test_numbers_that_are_not_finite_give_another_status(solver, loss, x64):
    surrogate = build(loss, "l2")
    for bad in (np.nan, np.inf):
        lin = surrogate.lin
        jacobian = dataclasses.replace(surrogate, lin=Dense(lin.outputs, lin.matrix.at[1, 0, 2].set(bad)))
        outputs = dataclasses.replace(surrogate, lin=Dense(lin.outputs.at[1, 0].set(bad), lin.matrix))
        for broken in (jacobian, outputs):
            assert jax.jit(lambda broken=broken: solver.solve(broken).status)() == Status.NOT_FINITE


def test_rounding_is_another_cause_than_a_limit():
    """With hardly any damping float32 cannot do better; conjugate gradients have not gone on for long enough."""
    surrogate = build("squared", "l2")
    pull = 0.3 * np.random.default_rng(0).normal(size=surrogate.w.size).astype(np.float32)
    loose = changed(surrogate, linear=surrogate.linear + pull, curvature=jnp.asarray(1e-5))
    rounded = jax.jit(lambda: Direct().solve(loose))()
    assert rounded.status == Status.STALLED
    assert 3e-3 < rounded.optimality < 0.3
    status = lambda solver: jax.jit(lambda: solver.solve(surrogate).status)()
    assert status(ConjugateGradients(cg_iterations=2)) == Status.NOT_CONVERGED
    assert status(Direct()) == Status.OK


def test_a_singular_step_is_not_taken_and_says_why():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4)).astype(np.float32)
    x[:, 0] = 0  # the weights of this input have no curvature at all, and a damping that is zero in float32
    net = scax.MLP((4, 5, 1))
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(0.0))
    sca = scax.SCA(problem, solver="weight-space", damping=1e-45, metric=None)
    state = sca.init(net.init(jax.random.key(0)))
    after, info = sca.step(state, (x, x[:, 1:2]))
    assert info.status == Status.SINGULAR
    assert not info.accepted
    np.testing.assert_array_equal(after.w, state.w)


def test_the_worst_status_of_all_blocks_counts():
    codes = jnp.asarray([Status.OK, Status.STALLED, Status.NOT_CONVERGED], jnp.int32)
    assert worst_status(codes) == Status.STALLED
    for better, worse in itertools.pairwise(OUTCOMES):
        assert worst_status(jnp.asarray([worse, better])) == worst_status(jnp.asarray([better, worse])) == worse
    parts = jax.vmap(Solution)(jnp.zeros((3, 2)), codes, jnp.asarray([1, 7, 2]), jnp.asarray([0.1, 0.0, 0.3]))
    whole = join_blocks(parts, jnp.ones(4))
    assert (int(whole.status), int(whole.iterations), float(whole.optimality)) == (6, 7, pytest.approx(0.3))


# -- the factorization -------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 7, 16, 20, 33, 64])
def test_the_kernel_solves_what_the_library_solves(m):
    """The GPU's kernel, interpreted; `vmap` gives one system per block."""
    rng = np.random.default_rng(m)
    half = rng.normal(size=(3, m, m + 2))
    matrix = jnp.asarray(half @ half.transpose(0, 2, 1) / m + 0.1 * np.eye(m), jnp.float32)
    right = jnp.asarray(rng.normal(size=(3, m)), jnp.float32)
    kernel = jax.vmap(lambda a, b: in_one_kernel(a, b, interpret=True))
    np.testing.assert_allclose(kernel(matrix, right), jax.vmap(by_cholesky)(matrix, right), rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(
        jax.vmap(solve_positive)(matrix, right), jax.vmap(by_cholesky)(matrix, right), rtol=1e-4, atol=1e-5
    )
    negative = matrix.at[:, -1, -1].set(-1.0)
    for solve in (kernel, jax.vmap(by_cholesky), jax.vmap(solve_positive)):
        assert not np.any(np.isfinite(solve(negative, right).sum(axis=1)))

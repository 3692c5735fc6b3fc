"""Names, capabilities and what `auto` takes; a direct solve does no more than it must."""

import re
from collections import Counter

import jax
import numpy as np
import pytest

import scax
from scax.solvers import SOLVERS, Auto, ConjugateGradients, Direct, Fista, Semismooth, as_solver
from scax.solvers.choose import LARGEST_SYSTEM
from scax.solvers.cost import Dimensions

NET = scax.MLP((3, 4, 2))
SMOOTH = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-3))
LASSO = scax.Problem(NET.apply, scax.Squared(), scax.L1(1e-3))


def chosen(problem, rows: int, outputs: int, weights: int) -> str:
    return Auto().choose(Dimensions(problem, rows, outputs, weights)).solver.name


def test_every_name_is_a_solver():
    for name, solver in SOLVERS.items():
        assert as_solver(name) is solver
        assert solver.name == ("structured" if name == "newton" else name)
    assert isinstance(as_solver("auto"), Auto)
    own = Semismooth(max_iterations=3)
    assert as_solver(own) is own
    with pytest.raises(ValueError, match=r"solver='sample' is not known: .* Did you mean 'sample-space'"):
        as_solver("sample")
    with pytest.raises(TypeError, match=r"solver must be a name or a scax\.solvers\.Solver, got 3"):
        as_solver(3)


def test_a_solver_says_what_it_needs():
    needs = {name: (s.form, s.uses_gram, s.in_sample_space, s.stops_on_gap) for name, s in SOLVERS.items()}
    assert needs == {
        "weight-space": ("dense", False, False, False),
        "sample-space": ("dense", True, True, False),
        "structured": ("structured", True, True, False),
        "newton": ("structured", True, True, False),
        "cg": ("matrix-free", False, False, False),
        "fista": ("structured", False, False, True),
        "semismooth": ("structured", False, False, True),
    }
    for solver in (Direct(), Direct("weight", "dense"), ConjugateGradients()):
        assert solver.supports(SMOOTH) is None
        assert "needs a smooth regularizer (L2) and got L1: use solver='fista'" in solver.supports(LASSO)
    assert Fista().supports(LASSO) is Semismooth().supports(LASSO) is None


def test_a_direct_solver_has_two_spaces_and_two_forms():
    with pytest.raises(ValueError, match=r"space='samples' is not known: .* Did you mean 'sample'"):
        Direct("samples")
    with pytest.raises(ValueError, match="form='matrix-free' is not known"):
        Direct(form="matrix-free")


def test_auto_chooses_by_size():
    assert chosen(SMOOTH, 10**6, 3, 10**6) == "cg"
    assert chosen(SMOOTH, 200, 2, 30) == "weight-space"
    small = Auto().choose(Dimensions(SMOOTH, 10, 2, 10_000))
    assert small.solver.name == "sample-space"
    assert "multiply-adds" in small.reason
    lasso = Auto().choose(Dimensions(LASSO, 10, 2, 100))
    assert lasso.solver.supports(LASSO) is None
    assert "L1" in lasso.reason
    assert Direct().choose(Dimensions(SMOOTH, 1, 1, 1)).reason == "asked for"


@pytest.mark.parametrize("loss", [scax.Squared(), scax.Huber()])
@pytest.mark.parametrize("rows", [1, 100, 400, 1000, 2000])
@pytest.mark.parametrize("weights", [30, 300, 3000, 30_000])
def test_a_small_system_is_solved_directly(loss, rows, weights):
    """Conjugate gradients lose digits as damping falls, and time as soon as it is small."""
    problem = scax.Problem(NET.apply, loss, scax.L2(1e-3))
    assert chosen(problem, rows, 1, weights) != "cg"


def test_conjugate_gradients_serve_many_outputs_of_a_damped_loss():
    for loss, taken in ((scax.Softmax(), "cg"), (scax.Squared(), "weight-space")):
        assert chosen(scax.Problem(NET.apply, loss, scax.L2(1e-3)), 256, 8, 1168) == taken


def test_many_rows_and_few_weights_are_solved_in_weight_space():
    for rows, weights in ((400, 40), (2000, 173), (50_000, 300)):
        assert chosen(SMOOTH, rows, 1, weights) == "weight-space"
    assert min(50_000, 300) <= LARGEST_SYSTEM


@pytest.mark.parametrize("name", ["structured", "sample-space", "weight-space"])
def test_a_step_has_one_factorization_and_two_substitutions(name):
    net = scax.MLP((3, 4, 8, 1))
    x = np.random.default_rng(0).normal(size=(70, 3)).astype(np.float32)
    sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)), solver=name, metric=None)
    program = jax.jit(sca.step).lower(sca.init(net.init(jax.random.key(0))), (x, x[:, :1])).compile().as_text()
    assert Counter(re.findall(r'custom_call_target="lapack_(\w+)_ffi"', program)) == {"spotrf": 1, "strsm": 2}
    if name == "sample-space":
        assert len(re.findall(r"f32\[70,70\]\S* dot\(", program)) == 1  # JJᵀ

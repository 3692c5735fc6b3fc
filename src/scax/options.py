"""The options of `SCA` as a person gives them: made into parts, and refused where they cannot work together."""

from typing import TYPE_CHECKING, Any

import numpy as np

from . import checks
from .losses import Loss
from .problem import Problem
from .rules.acceptance import Acceptance, AcceptanceRule, Descent, EveryFinite
from .rules.base import Rule
from .rules.clock import Progress, StepCount
from .rules.curvature_memory import FullMatrix, LowRank, as_metric
from .rules.damping import DAMPING, Fixed, GainRatio, Relative, as_damping
from .rules.iterate_average import IterateAverage
from .rules.rules import Rules
from .rules.sequences import CARRY, STEP_SIZE, Constant, as_carry, as_sequence, warn_about_convergence
from .sharding import Blocks, Parallel
from .solvers import as_solver

if TYPE_CHECKING:
    from .sca import SCA


def resolve_options(sca: "SCA") -> None:
    """Numbers and functions become rules, names solvers; in place, while the SCA is being made."""
    assign = lambda name, value: object.__setattr__(sca, name, value)
    if not isinstance(sca.problem, Problem):
        raise TypeError(f"problem must be a scax.Problem, got {sca.problem!r}.")
    checks.choice("surrogate", sca.surrogate, list(DAMPING))
    if sca.clock is not None and not isinstance(sca.clock, Rule):
        raise TypeError(f"clock must be None or a scax.rules.Rule such as scax.rules.StepCount(), got {sca.clock!r}.")
    assign("step_size", None if sca.step_size is None else as_sequence("step_size", sca.step_size))
    assign("averaging", None if sca.averaging is None else as_sequence("averaging", sca.averaging))
    assign("damping", None if sca.damping is None else as_damping(sca.damping))
    assign("curvature", _check_curvature(sca.curvature))
    assign("metric", as_metric(sca.metric))
    assign("carry", None if sca.carry is None else as_carry(sca.carry))
    if sca.mean_power is not None:
        IterateAverage(sca.mean_power)  # refuses what is no power
    assign("solver", as_solver(sca.solver))
    if isinstance(sca.acceptance, bool):  # None: the rule that suits the batches
        assign("acceptance", None if sca.acceptance else EveryFinite())
    for name, kind, wanted in (
        ("blocks", Blocks, "None or scax.Blocks(count, by=...)"),
        ("parallel", Parallel, "None or scax.Parallel(mesh, scheme=...)"),
        ("acceptance", AcceptanceRule, "True, False or a scax.Acceptance"),
    ):
        value = getattr(sca, name)
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be {wanted}, got {value!r}.")
    _check_combination(sca)


def _check_combination(sca: "SCA") -> None:
    if reason := sca.solver.supports(sca.problem):
        raise ValueError(reason)
    if sca.parallel is not None:
        sca.parallel.check(sca)
    if sca.curvature == "quadratic" and (reason := _needs_loss(sca)):
        raise ValueError(f"curvature='quadratic': {reason}; leave curvature= out.")
    if isinstance(sca.curvature, int) and (reason := _needs_exact(sca)):
        raise ValueError(f"curvature={sca.curvature}: {reason}; leave curvature= out.")
    if sca.averaging is not None:
        warn_about_convergence(STEP_SIZE if sca.step_size is None else sca.step_size, sca.averaging)
    if isinstance(sca.metric, FullMatrix) and (reason := _cannot_keep_matrix(sca)):
        raise ValueError(f"metric='full': {reason}.")
    if sca.metric is not None and not (isinstance(sca.metric, LowRank) and sca.metric.automatic):
        if sca.surrogate == "full":
            raise ValueError(
                "metric: surrogate='full' has no rows left that others could stand beside: leave metric= out."
            )
        if sca.blocks is not None:
            raise ValueError(
                "metric: blocks are solved apart, and rows that all of them share would tie them together: "
                "leave metric= out."
            )
    if sca.blocks is not None and sca.blocks.own_batch and sca.surrogate == "full":
        raise ValueError("blocks: own_batch=True needs surrogate='partial': the full linearization has no rows left.")
    damping, ridge = sca.damping, sca.problem.regularizer.ridge
    if isinstance(damping, Fixed) and is_static(damping.value, 0) and is_static(ridge, 0):
        raise ValueError(
            "damping is 0 and the regularizer has no ridge: the surrogate has no unique minimizer. "
            "Give damping > 0, or add L2(strength) to the regularizer."
        )


def _cannot_keep_matrix(sca: "SCA") -> str | None:
    """Why a matrix of past curvature cannot stand in the problem of a step, None where it can."""
    if not sca.problem.regularizer.is_smooth:
        return f"{type(sca.problem.regularizer).__name__} is not smooth: use scax.L2, or leave metric= out"
    if sca.problem.manifold is not None:
        return "the manifold penalty has no place beside it: leave metric= out"
    for name in ("parallel", "averaging", "carry"):
        if getattr(sca, name) is not None:
            return f"it takes the place of {name}=: leave one of them out"
    return None if sca.curvature in ("auto", "exact") else "it has a model of the loss of its own: leave curvature= out"


def _check_curvature(value: Any) -> str | int:
    """ "auto", "exact", "quadratic" or a whole number of directions."""
    if isinstance(value, str):
        checks.choice("curvature", value, ["auto", "exact", "quadratic"])
        return value
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(
            "curvature must be 'auto', 'exact', 'quadratic' or a whole number >= 1 of directions per row, "
            f"got {value!r}."
        )
    return int(value)


def _needs_loss(sca: "SCA") -> str | None:
    """Why no model of the loss can stand for it, None where one can."""
    if sca.surrogate == "full":
        return "surrogate='full' linearizes the loss, and no Hessian is left"
    if type(sca.problem.loss).factor is Loss.factor:
        return f"{type(sca.problem.loss).__name__} has no factor() of its Hessian"
    if sca.blocks is not None and sca.blocks.own_batch:
        return "blocks with own_batch=True need the columns of each block's own rows with all their outputs"
    return None


def _needs_exact(sca: "SCA") -> str | None:
    """Why directions cannot be sampled, None where they can."""
    if reason := _needs_loss(sca):
        return reason
    if len(sca.problem.names) > 1:
        return "terms have outputs of their own, and their Hessians are kept whole"
    if sca.problem.manifold is not None:
        return "the manifold penalty compares all outputs of neighbors, which a few directions do not have"
    return None


def needs_exact_curvature(sca: "SCA") -> str | None:
    """Why "auto" keeps the loss whatever a step costs, None where it does not."""
    return "all rows are in every step, and nothing else is random" if sca.all_rows else _needs_exact(sca)


def active_rules(sca: "SCA") -> Rules:
    """The rules of a method: its options, and where an option was left out what suits the batches: rules that tell
    noise from signal, or where all rows leave no noise, Levenberg–Marquardt's."""
    given = lambda option, default: default if option is None else option
    if sca.all_rows:
        step_size, carry, damping = Constant(1.0), None, GainRatio()
        acceptance, clock = Descent(), StepCount()
    elif isinstance(sca.metric, FullMatrix):
        step_size, carry, damping = Constant(1.0), None, GainRatio(fall=0.1)  # past curvature damps, too
        acceptance, clock = Descent(), Progress(free_steps=10.0)
    else:
        step_size, carry, damping = STEP_SIZE, CARRY, DAMPING[sca.surrogate]
        acceptance, clock = Acceptance(), Progress() if sca.surrogate == "partial" else StepCount()
    damping, carry, memory = given(sca.damping, damping), given(sca.carry, carry), sca.metric
    if isinstance(memory, FullMatrix) and sca.all_rows:
        memory = None  # no row is missing
    if isinstance(memory, LowRank) and memory.automatic:
        plain = sca.blocks is None and sca.surrogate == "partial" and sca.problem.regularizer.is_smooth
        memory = memory if plain and isinstance(damping, Relative) else None
    return Rules(
        clock=given(sca.clock, clock),
        step_size=given(sca.step_size, step_size),
        averaging=None if is_static(getattr(sca.averaging, "value", None), 1) else sca.averaging,
        carry=None if is_static(getattr(carry, "value", None), 0) else carry,
        damping=damping,
        memory=memory,
        acceptance=given(sca.acceptance, acceptance),
        iterate_average=None if sca.mean_power is None or sca.all_rows else IterateAverage(sca.mean_power),
        weights=sca.problem.term_weights,
    )


def is_static(value: Any, number: float) -> bool:
    """Whether the value is concretely this number; a traced value or a sweep is not."""
    if value is None:
        return False
    concrete = checks.concrete(value)
    return concrete is not None and concrete.ndim == 0 and bool(concrete == number)

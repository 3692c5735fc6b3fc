"""The options of `SCA` as a person gives them: made into parts, and refused where they cannot work together."""

from typing import TYPE_CHECKING, Any

from . import checks
from .problem import Problem
from .rules.acceptance import Acceptance, AcceptanceRule, Descent, EveryFinite
from .rules.base import Rule
from .rules.clock import Progress, StepCount
from .rules.curvature_memory import as_metric
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
    if sca.averaging is not None:
        warn_about_convergence(STEP_SIZE if sca.step_size is None else sca.step_size, sca.averaging)
    if sca.metric is not None and not sca.metric.automatic:
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


def active_rules(sca: "SCA") -> Rules:
    """The rules of a method: its options, and where an option was left out what suits the batches: rules that tell
    noise from signal, or where all rows leave no noise, Levenberg–Marquardt's."""
    given = lambda option, default: default if option is None else option
    if sca.all_rows:
        step_size, carry, damping = Constant(1.0), None, GainRatio()
        acceptance, clock = Descent(), StepCount()
    else:
        step_size, carry, damping = STEP_SIZE, CARRY, DAMPING[sca.surrogate]
        acceptance, clock = Acceptance(), Progress() if sca.surrogate == "partial" else StepCount()
    damping, carry, memory = given(sca.damping, damping), given(sca.carry, carry), sca.metric
    if memory is not None and memory.automatic:
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
    known = checks.concrete(value)
    return known is not None and known.ndim == 0 and bool(known == number)

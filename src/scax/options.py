"""The options of `SCA` as a person gives them: made into parts, and refused where they cannot work together."""

from typing import TYPE_CHECKING, Any

from . import checks
from .problem import Problem
from .rules.acceptance import Acceptance, EveryFinite
from .rules.base import Rule
from .rules.clock import StepCount
from .rules.curvature_memory import as_metric
from .rules.damping import DAMPING, Fixed, Relative, as_damping
from .rules.iterate_average import IterateAverage
from .rules.rules import Rules
from .rules.sequences import as_carry, as_sequence, warn_about_convergence
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
    assign("step_size", as_sequence("step_size", sca.step_size))
    assign("averaging", None if sca.averaging is None else as_sequence("averaging", sca.averaging))
    assign("damping", None if sca.damping is None else as_damping(sca.damping))
    assign("metric", as_metric(sca.metric))
    assign("carry", as_carry(sca.carry))
    if sca.mean_power is not None:
        IterateAverage(sca.mean_power)  # refuses what is no power
    assign("solver", as_solver(sca.solver))
    if isinstance(sca.acceptance, bool):
        assign("acceptance", Acceptance() if sca.acceptance else EveryFinite())
    for name, kind, wanted in (
        ("blocks", Blocks, "None or scax.Blocks(count, by=...)"),
        ("parallel", Parallel, "None or scax.Parallel(mesh, scheme=...)"),
        ("acceptance", (Acceptance, EveryFinite), "True, False or a scax.Acceptance"),
    ):
        value = getattr(sca, name)
        if not isinstance(value, kind) and not (value is None and name in ("blocks", "parallel")):
            raise TypeError(f"{name} must be {wanted}, got {value!r}.")
    _check_combination(sca)


def _check_combination(sca: "SCA") -> None:
    if reason := sca.solver.supports(sca.problem):
        raise ValueError(reason)
    if sca.parallel is not None:
        sca.parallel.check(sca)
    if sca.averaging is not None:
        warn_about_convergence(sca.step_size, sca.averaging)
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
    """The rules of a method: its options, and the defaults where an option was left out."""
    damping: Rule = DAMPING[sca.surrogate] if sca.damping is None else sca.damping
    memory = sca.metric
    if memory is not None and memory.automatic:
        plain = sca.blocks is None and sca.surrogate == "partial" and sca.problem.regularizer.is_smooth
        memory = memory if plain and isinstance(damping, Relative) else None
    return Rules(
        clock=StepCount(),
        step_size=sca.step_size,
        averaging=None if is_static(getattr(sca.averaging, "value", None), 1) else sca.averaging,
        carry=None if is_static(getattr(sca.carry, "value", None), 0) else sca.carry,
        damping=damping,
        memory=memory,
        acceptance=sca.acceptance,
        iterate_average=None if sca.mean_power is None else IterateAverage(sca.mean_power),
    )


def is_static(value: Any, number: float) -> bool:
    """Whether the value is concretely this number; a traced value or a sweep is not."""
    if value is None:
        return False
    known = checks.concrete(value)
    return known is not None and known.ndim == 0 and bool(known == number)

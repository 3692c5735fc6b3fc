"""The options of `SCA` as a person gives them, made into what the method works with; what cannot work is refused."""

from typing import Any

from . import checks
from .problem import Problem
from .rules.acceptance import Acceptance
from .rules.curvature_memory import as_metric, refuse
from .rules.damping import FULL, PARTIAL, Fixed, as_damping
from .rules.sequences import as_carry, as_sequence, warn_if_hopeless
from .sharding.blocks import Blocks
from .sharding.mesh import Parallel
from .solvers import as_solver


def settle(sca: Any) -> None:
    """Numbers become sequences and rules, names solvers; in place, while the SCA is being made."""
    fix = lambda name, value: object.__setattr__(sca, name, value)
    if not isinstance(sca.problem, Problem):
        raise TypeError(f"problem must be a scax.Problem, got {sca.problem!r}.")
    fix("step_size", as_sequence("step_size", sca.step_size))
    fix("averaging", None if sca.averaging is None else as_sequence("averaging", sca.averaging))
    left_out = any(sca.damping is rule for rule in (PARTIAL, FULL))  # also by dataclasses.replace
    fix("damping", (FULL if sca.surrogate == "full" else PARTIAL) if left_out else as_damping(sca.damping))
    fix("metric", as_metric(sca.metric))
    fix("carry", as_carry(sca.carry))
    if sca.mean_power is not None:
        checks.nonnegative("mean_power", sca.mean_power)
    checks.choice("surrogate", sca.surrogate, ["partial", "full"])
    fix("solver", as_solver(sca.solver))
    if isinstance(sca.acceptance, bool):
        fix("acceptance", Acceptance() if sca.acceptance else None)
    if sca.averaging is not None:
        warn_if_hopeless(sca.step_size, sca.averaging)
        if known(getattr(sca.averaging, "value", None), 1):
            fix("averaging", None)  # ρ ≡ 1: no memory to keep
    if sca.blocks is not None and not isinstance(sca.blocks, Blocks):
        raise TypeError(f"blocks must be None or scax.Blocks(count, by=...), got {sca.blocks!r}.")
    if sca.parallel is not None and not isinstance(sca.parallel, Parallel):
        raise TypeError(f"parallel must be None or scax.Parallel(mesh, scheme=...), got {sca.parallel!r}.")
    if sca.acceptance is not None and not isinstance(sca.acceptance, Acceptance):
        raise TypeError(f"acceptance must be True, False or a scax.Acceptance, got {sca.acceptance!r}.")
    if reason := sca.solver.supports(sca.problem):
        raise ValueError(reason)
    if sca.parallel is not None:
        sca.parallel.check(sca)
    if sca.metric is not None:
        refuse(sca)
    if isinstance(sca.damping, Fixed) and known(sca.damping.value, 0) and known(sca.problem.regularizer.ridge, 0):
        raise ValueError(
            "damping is 0 and the regularizer has no ridge: the surrogate has no unique minimizer. "
            "Give damping > 0, or add L2(strength) to the regularizer."
        )


def known(value: Any, number: float) -> bool:
    """Whether the value is concretely this number; a traced value or a sweep is not."""
    if value is None:
        return False
    found = checks.concrete(value)
    return found is not None and found.ndim == 0 and bool(found == number)

"""All rules of a method, and one pass of each through a step."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._struct import struct
from .acceptance import AcceptanceRule, AcceptanceState
from .base import Outcome, Reading, Rule, RuleState, Scalar, Seen
from .curvature_memory import CurvatureMatrix, CurvatureMemory, FullMatrix, LowRank
from .iterate_average import AverageState, IterateAverage
from .term_weights import TermWeights, WeightState


@struct
class Rules:
    """One rule for each thing that is decided between steps."""

    clock: Rule  # t
    step_size: Rule  # α
    averaging: Rule | None  # ρ, None where ρ ≡ 1
    carry: Rule | None  # β, None where β ≡ 0
    damping: Rule  # τ
    memory: LowRank | FullMatrix | None  # ς and B, or s and A, None where there is no such term
    acceptance: AcceptanceRule
    iterate_average: IterateAverage | None  # None: the last iterate is deployed
    weights: TermWeights | None = None  # ω of terms, None where they are numbers


@struct
class RuleStates:
    """What each of them remembers."""

    clock: RuleState
    step_size: RuleState
    averaging: RuleState
    carry: RuleState
    damping: RuleState
    memory: CurvatureMemory | CurvatureMatrix | None
    acceptance: AcceptanceState
    iterate_average: AverageState | None
    weights: WeightState | None = None


@dataclasses.dataclass(frozen=True)
class Proposal:
    """What they propose for a step."""

    step_size: Scalar  # α
    averaging: Scalar  # ρ
    carry: Scalar  # β
    damping: Scalar  # τ
    memory_weight: Scalar | None  # ς, or s
    memory: CurvatureMemory | CurvatureMatrix | None  # B, or A
    clock: Reading

    def pull(self, carried: Float[Array, "q"]) -> Scalar:
        """τ‖βδ_prev‖²: what is lost at most of the fall of the objective by a center away from w_n."""
        return self.damping * jnp.sum((self.carry * carried) ** 2)


PROPOSING = ("step_size", "averaging", "carry", "damping", "memory")


def init(rules: Rules, w: Float[Array, "q"]) -> RuleStates:
    """Before the first step."""
    start = lambda rule: None if rule is None else rule.init(w)
    states: dict[str, Any] = {field.name: start(getattr(rules, field.name)) for field in dataclasses.fields(RuleStates)}
    return RuleStates(**states)


def propose(rules: Rules, states: RuleStates, seen: Seen) -> tuple[Proposal, RuleStates]:
    """The clock first: the others are functions of what it shows."""
    reading, clock = rules.clock.propose(states.clock, seen)
    seen = dataclasses.replace(seen, clock=reading)
    values: dict[str, Any] = {"averaging": 1.0, "carry": 0.0, "memory": None}
    after: dict[str, Any] = {"clock": clock}
    for name in PROPOSING:
        rule, state = getattr(rules, name), getattr(states, name)
        if rule is not None and state is not None:
            values[name], after[name] = rule.propose(state, seen)
    dtype = seen.objective.dtype
    scalar = lambda name: jnp.asarray(values[name], dtype)
    return (
        Proposal(
            step_size=scalar("step_size"),
            averaging=scalar("averaging"),
            carry=scalar("carry"),
            damping=scalar("damping"),
            memory_weight=None if values["memory"] is None else scalar("memory"),
            memory=after.get("memory"),
            clock=reading,
        ),
        dataclasses.replace(states, **after),
    )


def update(rules: Rules, states: RuleStates, outcome: Outcome) -> RuleStates:
    """After the step."""
    after = {}
    for name in ("clock", "weights", *PROPOSING):
        rule, state = getattr(rules, name), getattr(states, name)
        if rule is not None and state is not None:
            after[name] = rule.update(state, outcome)
    return dataclasses.replace(states, **after)


def report(rules: Rules, states: RuleStates) -> dict[str, Scalar]:
    """What they show after a step, by name."""
    shown: dict[str, Scalar] = {}
    for name in ("clock", "weights", *PROPOSING):
        rule, state = getattr(rules, name), getattr(states, name)
        if rule is not None and state is not None:
            columns = rule.report(state)
            if twice := shown.keys() & columns.keys():
                raise ValueError(f"two rules report {sorted(twice)[0]!r}: rename it in Rule.report of one of them.")
            shown |= columns
    return shown

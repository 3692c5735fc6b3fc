"""What the engine trains with: SCA, a baseline, or a method of your own."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._struct import static, struct
from ..problem import Problem

#: Columns of a history that are the engine's and the measurements'.
RESERVED = ("step", "seconds", "objective", "validation_loss")


@runtime_checkable
class StepInfo(Protocol):
    """What a step reports beside the new state."""

    @property
    def records(self) -> dict[str, Array]:
        """Scalars by name; the history holds their averages over the steps between two records."""
        ...


@runtime_checkable
class Method(Protocol):
    """A way to minimize U step by step.

    `init` gives the state before the first step, `step` is pure and can be compiled, `solution` gives the parameters to
    deploy. A method is a pytree whose leaves are its numbers (a sweep over them compiles nothing anew); one that is not
    registered as a pytree is taken as it is, and compiled anew for every instance.

    A method may set `solves_prox = True`: it minimizes a surrogate that contains the whole penalty, so that a run with
    a nonsmooth one may end with exact zeros (`scax.finish`).

    It may have `on_fresh_points(params, rows)`: the method to take where a problem's points are drawn anew at every
    step, `rows` of all terms together.

    It may have `on_all_rows()`: the method to take where every batch holds all rows. The info of its steps then has
    `is_end`, and a run ends after the first step for which that is true.
    """

    @property
    def problem(self) -> Problem: ...

    def init(self, params: PyTree) -> Any: ...

    def step(self, state: Any, batch: Any) -> tuple[Any, StepInfo]: ...

    def solution(self, state: Any) -> PyTree: ...


class Same:
    """Anything, equal to itself alone."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@struct
class Opaque:
    """A method that is no pytree, as one: all of it is part of the compiled program."""

    same: Same = static()

    @property
    def method(self) -> Any:
        return self.same.value

    @property
    def problem(self) -> Problem:
        return self.method.problem

    @property
    def solves_prox(self) -> bool:
        return solves_prox(self.method)

    def init(self, params: PyTree) -> Any:
        return self.method.init(params)

    def step(self, state: Any, batch: Any) -> Any:
        return self.method.step(state, batch)

    def solution(self, state: Any) -> PyTree:
        return self.method.solution(state)


def check_method(method: Any) -> Any:
    """The method, ready for the engine; a sentence that names the part it lacks."""
    if hasattr(method, "update") and not hasattr(method, "step"):
        raise TypeError(
            "method is an optax optimizer, which knows no objective: give scax.baseline(optimizer, problem)."
        )
    needed = ("problem", "init", "step", "solution")
    if not any(hasattr(method, part) for part in needed):
        raise TypeError(f"method must be scax.SCA(...) or scax.baseline(...), or have their parts, got {method!r}.")
    for part in needed:
        value = getattr(method, part, None)
        if not (isinstance(value, Problem) if part == "problem" else callable(value)):
            raise TypeError(
                f"method {type(method).__name__} lacks {part!r}: a method has problem (a scax.Problem), init(params), "
                f"step(state, batch) and solution(state)."
            )
    return method if jax.tree.structure(method) != jax.tree.structure(0) else Opaque(Same(method))


def solves_prox(method: Any) -> bool:
    """Whether a run with a nonsmooth penalty may end with exact zeros."""
    return bool(getattr(method, "solves_prox", False))


def for_all_rows(method: Any, params: PyTree, state: Any = None) -> tuple[Any, Callable[[Any, Any], Any] | None]:
    """(the method for batches that hold all rows, what ends its run); itself where a state is no state of that one."""
    if not callable(getattr(method, "on_all_rows", None)):
        return method, None
    other = method.on_all_rows()
    if state is not None and jax.tree.structure(other.init(params)) != jax.tree.structure(state):
        return method, None
    return other, end


def for_fresh_points(method: Any, params: PyTree, rows: int, state: Any = None) -> Any:
    """The method for so many points drawn anew at every step; itself where a state is no state of that one."""
    if not callable(getattr(method, "on_fresh_points", None)):
        return method
    other = method.on_fresh_points(params, rows)
    if state is not None and jax.tree.structure(other.init(params)) != jax.tree.structure(state):
        return method
    return other


def end(state: Any, info: Any) -> Array:
    """The status of a step that found nothing left to gain; 0 of any other."""
    return jnp.where(info.is_end, info.status, 0).astype(jnp.int32)


def reported_names(method: Any, state: Any, batch: Any) -> tuple[str, ...]:
    """The names of what a step reports; refuses a step that the engine cannot use."""
    name = type(getattr(method, "method", method)).__name__

    def step(state: Any, batch: Any) -> dict[str, Array]:
        outcome = method.step(state, batch)
        if not isinstance(outcome, tuple) or len(outcome) != 2:
            raise TypeError(f"method {name}: step must return (state, info), got {type(outcome).__name__}.")
        following, info = outcome
        if jax.tree.structure(following) != jax.tree.structure(state):
            raise TypeError(
                f"method {name}: step must return a state like the one it was given, {jax.tree.structure(state)}, "
                f"and gave {jax.tree.structure(following)}."
            )
        records = getattr(info, "records", None)
        if not isinstance(records, dict) or any(jnp.shape(value) for value in records.values()):
            raise TypeError(
                f"method {name} lacks 'records': the info of a step has a property records, a dict of scalars by name."
            )
        if taken := [column for column in RESERVED if column in records]:
            raise ValueError(f"method {name} reports {taken[0]!r}, which is a column of every history: rename it.")
        return records

    return tuple(jax.eval_shape(step, state, batch))

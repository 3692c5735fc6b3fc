"""A network read as a list of primitive operations, whoever wrote it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._compat import Literal

#: calls whose body is read in place → the name of the body among the call's parameters
CALLS = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint"), "jaxpr"),
    **dict.fromkeys(("custom_jvp_call", "custom_vjp_call"), "call_jaxpr"),
}


@dataclasses.dataclass(frozen=True)
class Leaves:
    """The floating arrays of a params pytree; whatever else it holds (a module's functions, say) stays as it is."""

    treedef: Any
    whole: tuple
    places: tuple[int, ...]
    names: tuple[str, ...]

    @staticmethod
    def of(params: PyTree) -> "Leaves":
        leaves, treedef = jax.tree_util.tree_flatten_with_path(params)
        kind = lambda leaf: getattr(leaf, "dtype", np.dtype(bool))
        places = tuple(i for i, (_, leaf) in enumerate(leaves) if jnp.issubdtype(kind(leaf), jnp.floating))
        names = tuple("params" + jax.tree_util.keystr(leaves[i][0]) for i in places)
        return Leaves(treedef, tuple(leaf for _, leaf in leaves), places, names)

    @property
    def arrays(self) -> list:
        return [self.whole[i] for i in self.places]

    def merge(self, arrays: list) -> PyTree:
        """The pytree with other arrays in their places."""
        replaced = dict(zip(self.places, arrays, strict=True))
        return self.treedef.unflatten([replaced.get(i, leaf) for i, leaf in enumerate(self.whole)])

    def function(self, apply: Callable[[PyTree, Array], Any]) -> Callable[[list, Any], Any]:
        """The network as a function of its arrays and rows, for `jit`."""
        return lambda arrays, x: apply(self.merge(arrays), x)


@dataclasses.dataclass(frozen=True)
class Step:
    """One operation: the equation, and the numbers of the values it takes and gives."""

    eqn: Any
    takes: tuple[int, ...]
    gives: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.eqn.primitive.name


@dataclasses.dataclass(frozen=True)
class Program:
    """What a network does with one row. Values are numbered: first the parameters, then the row, `x`."""

    steps: tuple[Step, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    constants: dict[int, Any]
    x: int
    outputs: tuple[int, ...]
    jaxpr: Any

    @staticmethod
    def of(apply: Callable[[PyTree, Array], Any], leaves: Leaves, x: Any) -> "Program":
        closed = jax.make_jaxpr(leaves.function(apply))(leaves.arrays, x[:1])
        steps: list[Step] = []
        avals: list[Any] = []
        constants: dict[int, Any] = {}

        def new(var: Any) -> int:
            avals.append(var.aval)
            return len(avals) - 1

        def constant(var: Any, value: Any) -> int:
            constants[len(avals)] = value
            return new(var)

        def read(jaxpr: Any, consts: Any, takes: list[int]) -> list[int]:
            numbers = dict(zip(jaxpr.invars, takes, strict=True))
            numbers |= {var: constant(var, value) for var, value in zip(jaxpr.constvars, consts, strict=True)}
            see = lambda var: constant(var, var.val) if isinstance(var, Literal) else numbers[var]
            for eqn in jaxpr.eqns:
                taken = [see(var) for var in eqn.invars]
                if eqn.primitive.name in CALLS:
                    body = eqn.params[CALLS[eqn.primitive.name]]
                    given = read(getattr(body, "jaxpr", body), getattr(body, "consts", ()), taken)
                else:
                    given = [new(var) for var in eqn.outvars]
                    steps.append(Step(eqn, tuple(taken), tuple(given)))
                numbers |= dict(zip(eqn.outvars, given, strict=True))
            return [see(var) for var in jaxpr.outvars]

        outputs = read(closed.jaxpr, closed.consts, [new(var) for var in closed.jaxpr.invars])
        return Program(
            tuple(steps),
            tuple(aval.shape for aval in avals),
            tuple(aval.dtype for aval in avals),
            constants,
            len(leaves.places),
            tuple(outputs),
            closed.jaxpr,
        )

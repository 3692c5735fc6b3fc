"""The network replaced by its linearization at the current weights, in several forms."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .base import Linearization as Linearization
from .dense import Dense as Dense
from .matrix_free import MatrixFree as MatrixFree
from .memory_rows import WithMemoryRows as WithMemoryRows
from .network import Directions as Directions
from .network import NetworkFunction
from .pairs import WithPairs as WithPairs
from .stacked import StackedMatrixFree as StackedMatrixFree
from .stacked import stack_dense as stack_dense
from .structured import Passes as Passes
from .structured import Structured as Structured
from .with_gram import WithGram as WithGram

FORMS = {"dense": Dense.of, "matrix-free": MatrixFree, "structured": Structured.of}


def linearize(network: NetworkFunction, w: Float[Array, "q"], x: Any, form: str) -> Linearization:
    """f and J of `network(w, x) -> [n, k]` at w, J in the form asked for; of several terms, dense or as products."""
    if len(network.problem.names) > 1:
        return StackedMatrixFree(network, w, x) if form == "matrix-free" else stack_dense(network, w, x)
    return FORMS[form](network, w, x)


def linearize_along(
    network: NetworkFunction,
    w: Float[Array, "q"],
    x: Any,
    form: str,
    directions: Callable[[Float[Array, "n k"]], Float[Array, "n r k"]],
    r: int,
) -> tuple[Linearization, Linearization]:
    """(f and products with J, the rows C_iJ_i in the form asked for): C = directions(f), r for each row."""
    if form == "structured":
        passes = Passes(network, w, x, r=r)
        return passes, passes.along(directions(passes.outputs))
    whole = MatrixFree(network, w, x)
    lin = FORMS[form](Directions.of(network), w, (x, directions(whole.outputs)))
    lin.outputs = jnp.zeros_like(lin.outputs)  # what directions show is the change
    return whole, lin

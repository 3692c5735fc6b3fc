"""The network replaced by its linearization at the current weights, in several forms."""

from typing import Any

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
from .structured import Structured as Structured
from .with_gram import WithGram as WithGram

FORMS = {"dense": Dense.of, "matrix-free": MatrixFree, "structured": Structured}


def linearize(network: NetworkFunction, w: Float[Array, "q"], x: Any, form: str) -> Linearization:
    """f and J of `network(w, x) -> [n, k]` at w, J in the form asked for; of several terms, dense or as products."""
    if len(network.problem.names) > 1:
        return StackedMatrixFree(network, w, x) if form == "matrix-free" else stack_dense(network, w, x)
    return FORMS[form](network, w, x)

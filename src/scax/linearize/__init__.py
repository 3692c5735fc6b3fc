"""The network replaced by its linearization at the current weights, in several forms."""

from collections.abc import Callable

from jaxtyping import Array, Float

from .base import Linearization as Linearization
from .dense import Dense as Dense
from .matrix_free import MatrixFree as MatrixFree
from .pairs import Paired as Paired

FORMS = {"dense": Dense.of, "matrix-free": MatrixFree}


def linearize(network: Callable, w: Float[Array, "q"], x: Array, form: str) -> Linearization:
    """f and J of `network(w, x) -> [n, k]` at w, J in the form asked for."""
    return FORMS[form](network, w, x)

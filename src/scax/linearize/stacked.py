"""The rows of several terms below each other."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..terms import stack
from .base import Linearization
from .dense import Dense
from .matrix_free import MatrixFree
from .network import NetworkFunction


def stack_dense(network: NetworkFunction, w: Float[Array, "q"], x: dict[str, Array]) -> Dense:
    """J of all terms, materialized; rows of terms with fewer outputs have zeros in place of the others."""
    parts = [Dense.of(part, w, x[name]) for name, part in zip(network.problem.names, network.parts, strict=True)]
    return Dense(stack([part.outputs for part in parts]), stack([part.matrix for part in parts]))


class StackedMatrixFree(Linearization):
    """J of all terms as products, term by term."""

    def __init__(self, network: NetworkFunction, w: Float[Array, "q"], x: dict[str, Array]):
        self.network, self.w, self.x, self.size = network, w, x, w.shape[0]
        named = zip(network.problem.names, network.parts, strict=True)
        self.terms = [MatrixFree(part, w, x[name]) for name, part in named]
        self.outputs = stack([term.outputs for term in self.terms])

    def jvp(self, delta):
        return stack([term.jvp(delta) for term in self.terms])

    def vjp(self, v):
        return sum((term.vjp(part) for term, part in self._split(v)), start=jnp.zeros_like(self.w))

    def jacobian(self):
        return stack_dense(self.network, self.w, self.x).matrix

    def gram(self):
        return stack_dense(self.network, self.w, self.x).gram()

    def row_squares(self):
        return stack([term.row_squares() for term in self.terms])

    def weighted_squares(self, weight, seed):
        return sum(
            (term.weighted_squares(part, seed) for term, part in self._split(weight)), start=jnp.zeros((), self.w.dtype)
        )

    def column_squares(self, scale):
        return sum((term.column_squares(part) for term, part in self._split(scale)), start=jnp.zeros_like(self.w))

    def _split(self, v: Float[Array, "n k"]):
        """Each term with its own rows and outputs of v."""
        start = 0
        for term in self.terms:
            n, k = term.outputs.shape
            yield term, v[start : start + n, :k]
            start += n

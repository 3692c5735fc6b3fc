"""The linear system behind every smooth step, in whichever space is cheaper.

Newton's step at outputs z̄, and the exact solution at once for a squared loss, minimizes

    ½‖F(Jδ − (z̄ − z0))‖² + ∇Φ(z̄)ᵀJδ + μ‖δ − h/μ‖²        ∇Φ = Fᵀa + r

that is    (JᵀFᵀFJ + 2μI) δ = JᵀFᵀ(F(z̄ − z0) − a) − Jᵀr + 2h.

The right-hand side has a part in output space (α = F(z̄ − z0) − a, and r) and one in weight space (h). They are kept
apart all the way: merged into one vector, float32 loses everything as μ falls.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...status import Status
from ...surrogate.datafit import Factor

Point = Any  # a pytree of coordinates in which δ, Jδ and mixtures of two points are linear


class Space:
    """Coordinates for δ, prepared once per iteration and used for as many solves as Newton needs."""

    #: what keeps a single solve from its tolerance: rounding, or a limit of its own
    limit: Status = Status.STALLED

    def zero(self) -> Point:
        """The point δ = 0."""
        raise NotImplementedError

    def solve(
        self, factor: Factor, alpha: Float[Array, "m k"], remainder: Float[Array, "m k"] | None
    ) -> tuple[Point, Bool[Array, ""]]:
        """The minimizer of the quadratic model, and whether its matrix was singular: then the point is not finite."""
        raise NotImplementedError

    def rows(self, point: Point) -> Float[Array, "m k"]:
        """J δ."""
        raise NotImplementedError

    def energy(self, point: Point) -> Float[Array, ""]:
        """μ‖δ − h/μ‖²: the surrogate's own quadratic, up to a constant."""
        raise NotImplementedError

    def residual(self, point: Point, slope: Float[Array, "m k"]) -> Float[Array, ""]:
        """‖Jᵀ∇Φ + 2μδ − 2h‖ relative to its terms: how far the point is from stationary; slope = ∇Φ(z0 + Jδ).

        The terms are the loss's slope on one side, and on the other what holds it: rows that belong to the proximal
        term are on that side, for the two nearly cancel where the term is stiff.
        """
        raise NotImplementedError

    def weights(self, point: Point) -> Float[Array, "q"]:
        """δ itself."""
        raise NotImplementedError


def is_singular(right: Float[Array, "*m"], solution: Float[Array, "*n"]) -> Bool[Array, ""]:
    """Whether a matrix had no positive definite factorization: a right-hand side that is finite, from the same outputs
    and Jacobian, has a solution that is not."""
    return jnp.isfinite(jnp.sum(right)) & ~jnp.isfinite(jnp.sum(solution))

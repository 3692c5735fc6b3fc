"""How a prox moves with its argument: the matrix D of a semismooth Newton step."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._struct import static, struct
from .groups import Groups


@struct
class ProxDerivative:
    """D = diag(diagonal) + Σ_p n_p n_pᵀ, n_p being `direction` on group p and zero elsewhere.

    Symmetric, with eigenvalues in [0, 1]. Rows and columns of weights that the prox holds fixed (at zero, or on a
    bound) are zero: only the others weigh in J D Jᵀ.
    """

    diagonal: Float[Array, "q"]
    direction: Float[Array, "q"] | None = None
    groups: Groups | None = None
    #: the diagonal is one number on each group
    uniform: bool = static(default=False)

    def apply(self, u: Float[Array, "q"]) -> Float[Array, "q"]:
        """D u."""
        moved = self.diagonal * u
        if self.direction is None or self.groups is None:
            return moved
        return moved + self.direction * self.groups.each(self.groups.sums(self.direction * u))


def derivative(w, x, *, threshold=None, groups: Groups | None = None, pull: Any = None, bound=None) -> ProxDerivative:
    """D at w of the prox x of threshold‖·‖₁ + Σ_p pull_p‖·_p‖ + (|·| ≤ bound), each None where it is absent.

    With u the soft threshold of w, a group that is not zero has x_i = κ u_i where it is free and ±bound elsewhere,
    κ = t/(t + a), a = pull_p, t = ‖x_p‖. Differentiating both, with x_F the free part of x_p:

        D = κ I_F + κq / (1 − q‖x_F‖²) x_F x_Fᵀ,        q = a / (t²(t + a))

    Without a bound x_F = x_p and the second coefficient is q itself: the shrinkage's usual derivative.
    """
    free = jnp.ones_like(w, bool) if threshold is None else jnp.abs(w) > threshold
    if bound is not None:
        # x may come as w_n + δ, which rounding leaves a little inside a bound that it is on
        free = free & (jnp.abs(x) < bound * (1 - 4 * jnp.finfo(x.dtype).eps))
    if groups is None:
        return ProxDerivative(free.astype(w.dtype))
    t = groups.norms(x)
    safe = jnp.where(t > 0, t, 1)
    kappa = jnp.where(t > 0, t / (safe + pull), 0)
    unit = jnp.where(free, x, 0) / groups.each(safe)  # x_F/t: squares of tiny groups would underflow
    lean = pull / (safe + pull)  # q t²
    spread = kappa * lean / (1 - lean * jnp.minimum(groups.sums(unit**2), 1))
    spread = jnp.where((t > 0) & (pull > 0), spread, 0)
    diagonal = jnp.where(free, groups.each(kappa), 0)
    direction = groups.each(jnp.sqrt(spread)) * unit
    return ProxDerivative(diagonal, direction, groups, uniform=threshold is None and bound is None)

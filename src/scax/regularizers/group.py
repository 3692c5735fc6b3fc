"""Group lasso: whole neurons, or other groups of weights, become exactly zero together."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .. import checks
from .._struct import Number, struct
from .base import Regularizer
from .derivative import derivative
from .groups import Groups


@struct
class GroupLasso(Regularizer):
    """Group lasso: makes whole groups of weights zero together, such as a neuron's (`neuron_groups`).

    R(w) = strength · Σ_p √(size_p) ‖w_p‖ over the groups p; strength may have a number for each of them.

    >>> penalty = scax.GroupLasso(1e-3, scax.neuron_groups(params)) + scax.L2(1e-4)
    >>> problem = scax.Problem(net.apply, scax.Squared(), penalty)
    """

    strength: Number
    groups: Groups
    has_prox_derivative = True

    def __post_init__(self):
        checks.nonnegative("strength", self.strength)
        if not isinstance(self.groups, Groups):
            raise TypeError(
                f"groups must be a Groups, got {type(self.groups).__name__}: use neuron_groups(params) or "
                "Groups.of(ids)."
            )

    @property
    def thresholds(self) -> Float[Array, "p"]:
        """strength · a_p, a_p = √size_p."""
        return jnp.sqrt(self.groups.sizes) * self.strength

    def nonsmooth(self, w):
        return jnp.sum(self.thresholds.astype(w.dtype) * self.groups.norms(w))

    def prox_nonsmooth(self, w, step):
        """w_p · max(1 − step a_p / ‖w_p‖, 0), group by group."""
        norms = self.groups.norms(w)
        threshold = step * self.thresholds.astype(w.dtype)
        shrink = jnp.where(norms > threshold, 1 - threshold / jnp.where(norms > 0, norms, 1), 0)
        return w * self.groups.each(shrink)

    def prox_derivative(self, w, x, step):
        return derivative(w, x, groups=self.groups, pull=step * self.thresholds.astype(w.dtype))

    def prox_in_box(self, w, step, bound):
        """The prox together with |x| ≤ bound, which does not split into the two.

        Where a group is not zero, x_i = clip(w_i t/(t + a), ±bound) with t = ‖x_p‖; t is the one root of
        Σ_i clip(w_i t/(t + a), ±bound)² = t², found for every group at once by bisection on (0, ‖w_p‖].
        """
        norms = self.groups.norms(w)
        a = step * self.thresholds.astype(w.dtype)

        def inside(t):
            return jnp.clip(w * self.groups.each(t / jnp.where(t + a > 0, t + a, 1)), -bound, bound)

        def halve(_, interval):
            low, high = interval
            middle = (low + high) / 2
            too_small = self.groups.norms(inside(middle)) > middle
            return jnp.where(too_small, middle, low), jnp.where(too_small, high, middle)

        # ‖x(t)‖/t falls with t and is below 1 at t = ‖w‖, so the root is bracketed unless the group is zero
        rounds = 2 * jnp.finfo(w.dtype).nmant
        _, t = jax.lax.fori_loop(0, rounds, halve, (jnp.zeros_like(norms), norms))
        return jnp.where(self.groups.each(norms > a), inside(t), 0)

    def take(self, index):
        ids = self.groups.ids[index]
        return GroupLasso(self.strength, Groups(ids, self.groups.sizes))

    def check(self, size):
        checks.each("strength", self.strength, self.groups.count, "groups")
        if self.groups.ids.shape[-1] != size:
            raise ValueError(
                f"groups cover {self.groups.ids.shape[-1]} weights but the network trains {size}: build them with "
                "neuron_groups(params), and with trainable=... where parameters are frozen."
            )

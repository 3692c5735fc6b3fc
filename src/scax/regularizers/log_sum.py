"""A penalty that hardly shrinks what it keeps: concave in the size of a weight, convexified at every iterate."""

import dataclasses

import jax.numpy as jnp

from .. import checks
from .._struct import Number, struct
from .base import Regularizer
from .group import GroupLasso
from .groups import Groups
from .l1 import L1


@struct
class LogSum(Regularizer):
    """Sparse penalty that hardly shrinks the weights it keeps.

    R(w) = strength · Σ_i ε log(1 + |w_i|/ε): pulls small weights as ℓ1 does, those far above ε hardly at all.

    With groups, strength · Σ_p √size_p ε_p log(1 + ‖w_p‖/ε_p), ε_p = ε √size_p. R is concave in |w_i|: its tangent at
    w_n touches R there and lies above it elsewhere, and is convex in w. Up to a constant it is ℓ1, or a group lasso,
    with a strength for each weight or group, strength · ε/(|w_i| + ε). ε = 0.05 suits standardized inputs.

    >>> small, large = jnp.array([0.001]), jnp.array([10.0])
    >>> float(scax.LogSum(1.0).value(large)) < float(scax.L1(1.0).value(large)) / 20
    True
    """

    strength: Number
    groups: Groups | None = None
    _: dataclasses.KW_ONLY
    epsilon: Number = 0.05
    has_prox_derivative = True
    is_convex = False

    def __post_init__(self):
        checks.positive("epsilon", self.epsilon)
        self._like()

    def nonsmooth(self, w):
        if self.groups is None:
            return jnp.sum(self.strength * self.epsilon * jnp.log1p(jnp.abs(w) / self.epsilon))
        side = jnp.sqrt(self.groups.sizes).astype(w.dtype)
        scale = self.epsilon * side
        return jnp.sum(self.strength * side * scale * jnp.log1p(self.groups.norms(w) / scale))

    def majorizer(self, w):
        if self.groups is None:
            return L1(self.strength * self.epsilon / (jnp.abs(w) + self.epsilon))
        scale = self.epsilon * jnp.sqrt(self.groups.sizes).astype(w.dtype)
        return GroupLasso(self.strength * scale / (self.groups.norms(w) + scale), self.groups)

    def prox_nonsmooth(self, w, step):
        raise TypeError("LogSum is not convex and has no prox of its own: majorizer(w) has one.")

    def check(self, size):
        self._like().check(size)

    def _like(self) -> L1 | GroupLasso:
        """The convex penalty that it is near zero."""
        return L1(self.strength) if self.groups is None else GroupLasso(self.strength, self.groups)

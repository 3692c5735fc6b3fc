"""Sums of regularizers."""

import jax.numpy as jnp

from .._struct import struct
from .base import Regularizer
from .box import Box
from .derivative import derivative
from .group import GroupLasso
from .l1 import L1, ElasticNet, soft_threshold
from .log_sum import LogSum


@struct
class Sum(Regularizer):
    """R = Σ parts. Written L1(1e-3) + L2(1e-4).

    Ridges add up. The nonsmooth parts combine into one prox when they are ℓ1, one grouping and a box, applied in this
    order: soft threshold, shrink the groups, clip (with a group *and* a box, both at once); a LogSum is one of the
    first two, through its majorizer. Any other single nonsmooth part is used as it is; two that are not in this list
    have no known joint prox and are refused.
    """

    parts: tuple[Regularizer, ...]

    def __post_init__(self):
        nonsmooth = [p for p in self.parts if not p.is_smooth]
        strange = [p for p in nonsmooth if not isinstance(p, (L1, ElasticNet, GroupLasso, LogSum, Box))]
        groups = [p for p in nonsmooth if getattr(p, "groups", None) is not None]
        if (strange and len(nonsmooth) > 1) or len(groups) > 1:
            names = " + ".join(type(p).__name__ for p in nonsmooth)
            raise ValueError(
                f"the prox of {names} together is not known: combine L1, LogSum, ElasticNet, one GroupLasso and Box, "
                "or one regularizer of your own with L2."
            )

    @property
    def is_smooth(self):
        return all(p.is_smooth for p in self.parts)

    @property
    def has_prox_derivative(self):
        return all(p.has_prox_derivative for p in self.parts)

    @property
    def is_convex(self):
        return all(p.is_convex for p in self.parts)

    @property
    def ridge(self):
        return sum(p.ridge for p in self.parts)

    def nonsmooth(self, w):
        return sum((p.nonsmooth(w) for p in self.parts), start=jnp.zeros((), w.dtype))

    def prox_nonsmooth(self, w, step):
        nonsmooth = [p for p in self.parts if not p.is_smooth]
        if len(nonsmooth) == 1:
            return nonsmooth[0].prox_nonsmooth(w, step)
        for part in nonsmooth:
            if not part.is_convex:
                return part.prox_nonsmooth(w, step)  # refuses: the sum has no prox either
        w = soft_threshold(w, step * sum(p.l1 for p in nonsmooth if isinstance(p, (L1, ElasticNet))))
        boxes = [p.bound for p in nonsmooth if isinstance(p, Box)]
        for part in nonsmooth:
            if isinstance(part, GroupLasso):
                return part.prox_in_box(w, step, min_of(boxes)) if boxes else part.prox_nonsmooth(w, step)
        return self.project(w)

    def prox_derivative(self, w, x, step):
        nonsmooth = [p for p in self.parts if not p.is_smooth]
        if len(nonsmooth) == 1:
            return nonsmooth[0].prox_derivative(w, x, step)
        l1 = [p.l1 for p in nonsmooth if isinstance(p, (L1, ElasticNet))]
        boxes = [p.bound for p in nonsmooth if isinstance(p, Box)]
        groups = [p for p in nonsmooth if isinstance(p, GroupLasso)]
        return derivative(
            w,
            x,
            threshold=step * sum(l1) if l1 else None,
            groups=groups[0].groups if groups else None,
            pull=step * groups[0].thresholds.astype(w.dtype) if groups else None,
            bound=min_of(boxes) if boxes else None,
        )

    def majorizer(self, w):
        return Sum(tuple(p.majorizer(w) for p in self.parts))

    def project(self, w):
        for part in self.parts:
            w = part.project(w)
        return w

    def take(self, index):
        return Sum(tuple(p.take(index) for p in self.parts))

    def check(self, size):
        for part in self.parts:
            part.check(size)

    def validate_start(self, w):
        for part in self.parts:
            w = part.validate_start(w)
        return w


def min_of(bounds):
    """The tightest of several bounds, traced or not."""
    tightest = bounds[0]
    for bound in bounds[1:]:
        tightest = jnp.minimum(tightest, bound)
    return tightest

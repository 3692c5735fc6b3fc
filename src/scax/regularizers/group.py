"""Group lasso: whole neurons, or other groups of weights, become exactly zero together."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from .. import checks
from .._struct import Number, struct
from ..layout import Layout, Mask
from .base import Regularizer


@struct
class Groups:
    """A partition of the flat weights: `ids[i]` is the group of weight i, `sizes[p]` the size of group p."""

    ids: Int[Array, "q"]
    sizes: Float[Array, "p"]

    @staticmethod
    def of(ids) -> "Groups":
        """From one group number per weight, numbered 0, 1, 2, … without gaps."""
        ids = np.asarray(ids)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise TypeError(f"group ids must be a vector of integers, got {ids.dtype} of shape {ids.shape}.")
        counts = np.bincount(ids)
        if (counts == 0).any():
            raise ValueError(f"group ids must be 0, 1, 2, … without gaps: no weight has id {int(counts.argmin())}.")
        return Groups(jnp.asarray(ids, jnp.int32), jnp.asarray(counts, float))

    @property
    def count(self) -> int:
        return self.sizes.shape[-1]

    def norms(self, w: Float[Array, "q"]) -> Float[Array, "p"]:
        """‖w_p‖ for every group; its gradient at a zero group is zero, not NaN."""
        squares = jax.ops.segment_sum(w**2, self.ids, self.count)
        return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)


def neuron_groups(params: PyTree, *, input_axis: int = -2, trainable: PyTree = None) -> Groups:
    """One group per neuron, holding the weights that leave it.

    A dense kernel [inputs, outputs] gives one group per row, so input features count as neurons; a convolution
    kernel [..., inputs, outputs] one per input channel; biases and scales are groups of one. For kernels stored
    as [outputs, inputs] pass `input_axis=-1`. `trainable` is the mask given to `Problem`, if any.
    """
    layout = Layout.of(params, None if trainable is None else Mask.of(trainable))
    ids, start = [], 0
    for shape in layout.trained_shapes:
        if len(shape) >= 2:
            axis = input_axis % len(shape)
            along = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
            number = np.broadcast_to(along, shape).ravel()
        else:
            number = np.arange(int(np.prod(shape)))
        ids.append(number + start)
        start += int(number.max(initial=-1)) + 1
    return Groups.of(np.concatenate(ids))


@struct
class GroupLasso(Regularizer):
    """R(w) = strength · Σ_p √(size_p) ‖w_p‖ over the groups p."""

    strength: Number
    groups: Groups

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

    def rough(self, w):
        return jnp.sum(self.thresholds.astype(w.dtype) * self.groups.norms(w))

    def prox_rough(self, w, step):
        """w_p · max(1 − step a_p / ‖w_p‖, 0), group by group."""
        norms = self.groups.norms(w)
        threshold = step * self.thresholds.astype(w.dtype)
        shrink = jnp.where(norms > threshold, 1 - threshold / jnp.where(norms > 0, norms, 1), 0)
        return w * shrink[self.groups.ids]

    def prox_in_box(self, w, step, bound):
        """The prox together with |x| ≤ bound, which does not split into the two.

        Where a group is not zero, x_i = clip(w_i t/(t + a), ±bound) with t = ‖x_p‖; t is the one root of
        Σ_i clip(w_i t/(t + a), ±bound)² = t², found for every group at once by bisection on (0, ‖w_p‖].
        """
        norms = self.groups.norms(w)
        a = step * self.thresholds.astype(w.dtype)

        def inside(t):
            return jnp.clip(w * (t / jnp.where(t + a > 0, t + a, 1))[self.groups.ids], -bound, bound)

        def halve(_, interval):
            low, high = interval
            middle = (low + high) / 2
            too_small = self.groups.norms(inside(middle)) > middle
            return jnp.where(too_small, middle, low), jnp.where(too_small, high, middle)

        # ‖x(t)‖/t falls with t and is below 1 at t = ‖w‖, so the root is bracketed unless the group is zero
        rounds = 2 * jnp.finfo(w.dtype).nmant
        _, t = jax.lax.fori_loop(0, rounds, halve, (jnp.zeros_like(norms), norms))
        return jnp.where((norms > a)[self.groups.ids], inside(t), 0)

    def take(self, index):
        ids = self.groups.ids[index]
        return GroupLasso(self.strength, Groups(ids, self.groups.sizes))

    def check(self, size):
        if self.groups.ids.shape[-1] != size:
            raise ValueError(
                f"groups cover {self.groups.ids.shape[-1]} weights but the network trains {size}: build them with "
                "neuron_groups(params), and with trainable=... where parameters are frozen."
            )

"""Partitions of the weights into groups, and the one by neurons."""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, Shaped

from .._struct import static, struct
from ..layout import Layout, Mask


@struct
class Groups:
    """A partition of the flat weights: `ids[i]` is the group of weight i, `sizes[p]` the size of group p.

    >>> groups = scax.Groups(jnp.array([0, 0, 1]), jnp.array([2.0, 1.0]))
    >>> round(float(scax.GroupLasso(1.0, groups).value(jnp.array([3.0, 4.0, 1.0]))), 3)  # √2 · 5 + 1
    8.071
    """

    ids: Int[Array, "q"]
    sizes: Float[Array, "p"]
    #: the axis of each trained leaf along which its groups are counted, None for a leaf of single weights; the whole
    #: is None where nothing of the kind is known
    axes: tuple[int | None, ...] | None = static(default=None)
    #: the shapes of these leaves
    shapes: tuple[tuple[int, ...], ...] = static(default=())

    @staticmethod
    def of(ids) -> "Groups":
        """From one group number per weight, numbered 0, 1, 2, … without gaps."""
        ids = np.asarray(ids)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise TypeError(f"group ids must be a vector of integers, got {ids.dtype} of shape {ids.shape}.")
        if ids.min(initial=0) < 0:
            raise ValueError(f"group ids must be 0, 1, 2, … without gaps, found {int(ids.min())}.")
        counts = np.bincount(ids)
        if (counts == 0).any():
            raise ValueError(f"group ids must be 0, 1, 2, … without gaps: no weight has id {int(counts.argmin())}.")
        return Groups(jnp.asarray(ids, jnp.int32), jnp.asarray(counts, float))

    @property
    def count(self) -> int:
        return self.sizes.shape[-1]

    def sums(self, w: Float[Array, "q"]) -> Float[Array, "p"]:
        """Σ_{i∈p} w_i for every group: leaf by leaf along an axis where that is known, which is ten times faster."""
        if self.axes is None:
            return jax.ops.segment_sum(w, self.ids, self.count)
        parts, start = [], 0
        for axis, shape in zip(self.axes, self.shapes, strict=True):
            leaf = w[start : start + math.prod(shape)]
            start += leaf.size
            others = tuple(i for i in range(len(shape)) if i != axis)
            parts.append(leaf if axis is None else leaf.reshape(shape).sum(others))
        return jnp.concatenate(parts)

    def each(self, values: Shaped[Array, "p *rest"]) -> Shaped[Array, "q *rest"]:
        """A number per group, handed to each of its weights: the transpose of `sums`, leaf by leaf where it can be."""
        if self.axes is None:
            return values[self.ids]
        parts, start, rest = [], 0, values.shape[1:]
        for axis, shape in zip(self.axes, self.shapes, strict=True):
            count = math.prod(shape) if axis is None else shape[axis]
            own, start = values[start : start + count], start + count
            if axis is not None:
                beside = [count if i == axis else 1 for i in range(len(shape))]
                own = jnp.broadcast_to(own.reshape(*beside, *rest), (*shape, *rest))
            parts.append(own.reshape(-1, *rest))
        return jnp.concatenate(parts)

    def norms(self, w: Float[Array, "q"]) -> Float[Array, "p"]:
        """‖w_p‖ for every group; its gradient at a zero group is zero, not NaN."""
        squares = self.sums(w**2)
        return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)


def neuron_groups(params: PyTree, *, input_axis: int = -2, trainable: PyTree = None) -> Groups:
    """One group per neuron, holding the weights that leave it.

    A dense kernel [inputs, outputs] gives one group per row, so input features count as neurons; a convolution
    kernel [..., inputs, outputs] one per input channel; biases and scales are groups of one. For kernels stored
    as [outputs, inputs] pass `input_axis=-1`. `trainable` is the mask given to `Problem`, if any.

    >>> groups = scax.neuron_groups(params)  # 2 inputs, 8 hidden units, 8 + 1 biases
    >>> len(groups.sizes)
    19
    """
    layout = Layout.of(params, None if trainable is None else Mask.of(trainable))
    ids, axes = neurons(layout.trained_shapes, input_axis)
    return dataclasses.replace(Groups.of(ids), axes=axes, shapes=tuple(layout.trained_shapes))


def neurons(shapes: Sequence[tuple[int, ...]], input_axis: int = -2) -> tuple[np.ndarray, tuple[int | None, ...]]:
    """(for every weight of leaves with these shapes the number of its neuron, for every leaf the axis they lie along).

    In numpy, so that it is known while others trace.
    """
    ids, axes, start = [], [], 0
    for shape in shapes:
        if len(shape) >= 2:
            if not -len(shape) <= input_axis < len(shape):
                raise ValueError(f"input_axis is {input_axis}, but there is a kernel of shape {shape}.")
            axis = input_axis % len(shape)
            axes.append(axis)
            along = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
            number = np.broadcast_to(along, shape).ravel()
        else:
            number = np.arange(int(np.prod(shape)))
            axes.append(None)
        ids.append(number + start)
        start += int(number.max(initial=-1)) + 1
    return np.concatenate(ids), tuple(axes)

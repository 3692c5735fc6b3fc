"""J of all rows, a chunk at a time, in float64."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..layout import Layout
from ..linearize import linearize
from ..linearize.network import NetworkFunction
from ..losses import Loss
from ..problem import Problem

#: Numbers of J that are formed at once (64 MB).
CHUNK = 2**23


@runtime_checkable
class NetworkLike(Protocol):
    """What a posterior asks of a network at fixed weights w: f, and J by the weights in `support` (places in w)."""

    @property
    def w(self) -> np.ndarray: ...
    @property
    def support(self) -> np.ndarray: ...
    def outputs(self, x: Any) -> np.ndarray: ...
    def chunks(self, x: Any, outputs: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]: ...


@dataclasses.dataclass(frozen=True)
class Jacobian:
    """f and J of any network in JAX, restricted to the weights in `support`."""

    problem: Problem
    layout: Layout
    w: np.ndarray
    frozen: tuple
    support: np.ndarray  # places in w

    @staticmethod
    def of(problem: Problem, params: PyTree, support: np.ndarray | None = None) -> "Jacobian":
        layout = problem.layout(params)
        w = np.asarray(layout.flatten(params), np.float64)
        frozen = tuple(np.asarray(leaf) for leaf in layout.split(params)[1])
        if support is None:
            # a penalty that makes zeros leaves no freedom to the weights that it holds there
            free = np.ones(len(w), bool) if problem.regularizer.is_smooth else w != 0
            support = np.flatnonzero(free)
        return Jacobian(problem, layout, w, frozen, support)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """f [n, k]."""
        with jax.enable_x64(True):
            params = self.layout.unflatten(jnp.asarray(self.w), tuple(map(jnp.asarray, self.frozen)))
            return np.asarray(self.problem.outputs(params, jnp.asarray(x)), np.float64)

    def chunks(self, x: Any, outputs: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(rows, f [n, k], J [n, k, q]) for one chunk of rows after another."""
        n = len(x)
        rows = int(np.clip(CHUNK // (outputs * len(self.w)), 1, 4096))
        rows = min(rows, 1 << (n - 1).bit_length())  # few shapes are compiled
        whole = len(self.support) == len(self.w)
        for start in range(0, n, rows):
            part = np.asarray(x[start : start + rows])
            count = len(part)
            if count < rows:
                part = np.concatenate([part, np.repeat(part[-1:], rows - count, axis=0)])
            with jax.enable_x64(True):
                if np.issubdtype(part.dtype, np.floating):
                    part = part.astype(np.float64)
                z, j = _linearize(
                    self.problem,
                    self.layout,
                    jnp.asarray(self.w),
                    tuple(map(jnp.asarray, self.frozen)),
                    jnp.asarray(part),
                )
                z, j = np.asarray(z, np.float64)[:count], np.asarray(j, np.float64)[:count]
            yield slice(start, start + count), z, j if whole else j[:, :, self.support]


def of_loss(loss: Loss, name: str, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss's `value`, `gradient` or `factor`, in float64."""
    with jax.enable_x64(True):
        return np.asarray(getattr(loss, name)(jnp.asarray(z), jnp.asarray(y)), np.float64)


@functools.partial(jax.jit, static_argnames="layout")
def _linearize(problem: Problem, layout: Layout, w: Array, frozen: tuple, x: Array) -> tuple[Array, Array]:
    lin = linearize(NetworkFunction(problem, layout, frozen), w, x, "dense")
    return lin.outputs, lin.jacobian()

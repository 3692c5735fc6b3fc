"""The problem: min_w U(w) = 1/N Σ_i l(y_i, f(w; x_i)) + R(w)."""

import dataclasses
import inspect
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ._compat import refuse_fork
from ._struct import static, struct
from .batch import Batch, Pairs
from .layout import Layout, Mask
from .losses import Loss
from .regularizers import L2, Manifold, Regularizer


@dataclasses.dataclass(frozen=True)
class Method:
    """A bound method that equals another where function and owner do, so that equal networks share compiled steps."""

    function: Callable[..., Array]
    owner: Hashable

    @staticmethod
    def of(apply: Callable[..., Array]) -> Callable[..., Array]:
        if not inspect.ismethod(apply) or not isinstance(apply.__self__, Hashable):
            return apply  # Python compares bound methods by the identity of their owner
        return Method(apply.__func__, apply.__self__)

    def __call__(self, params: PyTree, x: Any) -> Any:
        return self.function(self.owner, params, x)


@struct
class Problem:
    """A network, a loss and a regularizer; optionally a penalty on neighboring outputs, and frozen parameters.

    `apply(params, x)` is any pure function of a pytree of parameters and a batch of rows, giving [n, k] or [n];
    each row's output depends on that row alone. The loss sees raw outputs (logits): the network is linearized up
    to there. `trainable` is a pytree of True and False over params; the regularizer acts on what is trained.
    """

    apply: Callable[[PyTree, Array], Array] = static()
    loss: Loss
    regularizer: Regularizer = None  # type: ignore[assignment]
    manifold: Manifold | None = None
    trainable: Any = static(default=None)

    def __post_init__(self):
        if self.regularizer is None:
            object.__setattr__(self, "regularizer", L2(0.0))
        if self.trainable is not None and not isinstance(self.trainable, Mask):
            object.__setattr__(self, "trainable", Mask.of(self.trainable))
        for name, kind, example in (
            ("loss", Loss, "scax.Squared()"),
            ("regularizer", Regularizer, "scax.L2(1e-3)"),
            ("manifold", Manifold, "scax.Manifold(1e-3, scax.knn_graph(x, 5))"),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind) and not (name == "manifold" and value is None):
                raise TypeError(f"{name} must be a {kind.__name__} such as {example}, got {value!r}.")
        if not callable(self.apply):
            raise TypeError(f"apply must be a function (params, x) -> outputs, got {self.apply!r}.")
        object.__setattr__(self, "apply", Method.of(self.apply))

    def layout(self, params: PyTree) -> Layout:
        """Where the trained weights lie in the flat vector w."""
        layout = Layout.of(params, self.trainable)
        self.regularizer.check(layout.size)
        return layout

    def outputs(self, params: PyTree, x: Any) -> Float[Array, "n k"]:
        """f(w; x) as a matrix."""
        z = self.apply(params, x)
        return z[:, None] if z.ndim == 1 else z

    def check(self, params: PyTree, batch: Batch) -> None:
        """Refuse a network or a batch that do not fit each other, before anything compiles."""
        x = jax.ShapeDtypeStruct(jnp.shape(batch.x), jax.dtypes.canonicalize_dtype(batch.x.dtype))
        z = jax.eval_shape(self.apply, params, x)
        shape = getattr(z, "shape", None)
        if shape is None or len(shape) not in (1, 2) or shape[0] != x.shape[0]:
            raise ValueError(
                f"apply(params, x) gave {'a ' + type(z).__name__ if shape is None else f'shape {shape}'} for x of "
                f"shape {x.shape}; it must give [n] or [n, k] with one row per row of x."
            )
        k = 1 if len(shape) == 1 else shape[1]
        self.loss.check(batch.y, k)
        self.loss.check_range(batch.y, k, z.dtype)

    def ready(self, params: PyTree, batch: Any) -> Batch:
        """(x, y), (x, y, weight) or a Batch as a Batch of arrays, checked against the network and the loss.

        For the doors, where values are known. A step does the same while it is traced: shapes and dtypes are checked
        there, and values, which are not known, are not.
        """
        refuse_fork()
        batch, dtype = Batch.of(batch), self.layout(params).dtype(params)
        batch.check(dtype)
        return self.conform(params, batch.scaled(), dtype)

    def conform(self, params: PyTree, batch: Batch, dtype: Any) -> Batch:
        """The batch as arrays, checked against the network, the loss and the weights' precision."""
        batch.check(dtype)
        batch = jax.tree.map(jnp.asarray, batch)
        self.check(params, batch)
        return batch

    def pairs(self, batch: Batch) -> Pairs | None:
        """The batch's neighbor pairs; a batch that is the whole table needs none given."""
        if self.manifold is None:
            if batch.pairs is not None:
                raise ValueError(
                    "the batch has neighbor pairs but the problem no manifold penalty: give "
                    "Problem(..., manifold=scax.Manifold(strength, graph)), or leave pairs out."
                )
            return None
        if batch.pairs is not None:
            return batch.pairs
        if batch.size != self.manifold.graph.size:
            raise ValueError(
                f"the batch has {batch.size} rows and the graph {self.manifold.graph.size}: give the batch's own "
                "pairs, scax.Batch(x[i], y[i], pairs=graph.pairs(x, i)), or use scax.train, which gathers them."
            )
        return self.manifold.graph.whole()

    def rows(self, batch: Batch) -> tuple[Array, Pairs | None]:
        """All rows the network must see: the batch's own, then its pairs' extra ones."""
        pairs = self.pairs(batch)
        if pairs is None or pairs.extra.shape[0] == 0:
            return batch.x, pairs
        return jnp.concatenate([batch.x, pairs.extra.astype(batch.x.dtype)]), pairs

    def objective(self, params: PyTree, x: Any, y: Any, weight: Any = None) -> Float[Array, ""]:
        """U(w) on the rows given."""
        batch = self.ready(params, Batch(x, y, weight))
        return _objective(self, params, batch)

    def batch_objective(self, trained: tuple, params: PyTree, batch: Batch) -> Float[Array, ""]:
        """U on one batch: average loss + R(w) + manifold penalty; `trained` are the trained leaves of params."""
        rows, pairs = self.rows(batch)
        return self.data_term(self.outputs(params, rows), batch, pairs) + self.penalty(trained)

    def data_term(self, z: Float[Array, "m k"], batch: Batch, pairs: Pairs | None) -> Float[Array, ""]:
        """Average loss + manifold penalty, the outputs of all the batch's rows being known."""
        y = self.loss.targets(batch.y, z.shape[1]).astype(z.dtype)
        value = batch.shares(z.dtype) @ self.loss.value(z[: batch.size], y)
        if pairs is not None and self.manifold is not None:
            value += self.manifold.value(z, pairs)
        return value

    def penalty(self, trained: tuple) -> Float[Array, ""]:
        """R(w), leaf by leaf where it is a plain ridge."""
        if self.regularizer.is_smooth:
            return jnp.asarray(sum(jnp.sum(leaf**2) for leaf in trained)) * (self.regularizer.ridge / 2)
        return self.regularizer.value(jnp.concatenate([jnp.ravel(leaf) for leaf in trained]))


@jax.jit
def _objective(problem: Problem, params: PyTree, batch: Batch) -> Float[Array, ""]:
    return problem.batch_objective(problem.layout(params).split(params)[0], params, batch)

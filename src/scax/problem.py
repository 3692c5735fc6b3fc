"""The problem: min_w U(w) = 1/N Σ_i l(y_i, f(w; x_i)) + R(w)."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from . import checks
from ._compat import refuse_fork
from ._struct import static, struct
from .batch import AnyBatch, Batch, Pairs, TermBatch
from .layout import Layout, Mask
from .losses import Loss, StackedLoss
from .regularizers import L2, Manifold, Regularizer
from .rules.term_weights import TermWeights, is_rule
from .terms import BoundMethod, StackedFunction, read_terms

#: Rows of a term that are passed through it side by side before a run.
CHECKED_ROWS = 64
#: Rows of a term that are passed through it at once, each alone.
ROWS_AT_ONCE = 1024


@struct
class Problem:
    """A network, a loss and a regularizer; optionally a penalty on neighboring outputs, and frozen parameters.

    `apply(params, x)` is any pure function of a pytree of parameters and a batch of rows, giving [n, k] or [n];
    each row's output depends on that row alone. The loss sees raw outputs (logits): the network is linearized up
    to there. `trainable` is a pytree of True and False over params; the regularizer acts on what is trained.

    Several terms, each with rows of its own, are a dictionary: Problem({"pde": Term(residual), "boundary":
    Term(net.apply, weight=10.0)}, L2(1e-6)) is U(w) = Σ_t ω_t · 1/n_t Σ_i l_t(y_i, f_t(w; x_i)) + R(w). A batch is then
    a dictionary of batches, and so are the data of `train`.

    >>> problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    >>> problem.objective(params, x, y).shape  # average loss + penalty
    ()
    """

    apply: Any = static()  # (params, x) -> outputs; given as a dictionary of terms, they become one function
    loss: Any = None  # a Loss; beside a dictionary of terms the regularizer may stand here
    regularizer: Regularizer = None  # type: ignore[assignment]
    manifold: Manifold | None = None
    trainable: Any = static(default=None)
    names: tuple[str, ...] = static(default=())  # of the terms; none where apply is a plain function
    weights: tuple = ()  # ω of the terms

    def __post_init__(self):
        if isinstance(self.apply, Mapping):
            self._read(self.apply)
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
        if self.names and self.manifold is not None:
            raise ValueError("a manifold penalty ties rows of one table: give Problem(apply, loss, …) without terms.")
        object.__setattr__(self, "apply", BoundMethod.of(self.apply))

    def _read(self, given: Mapping[str, Any]) -> None:
        """Problem({name: Term, …}, regularizer): the terms as one function and one loss."""
        names, terms, weights = read_terms(given)
        if isinstance(self.loss, Regularizer) and self.regularizer is None:
            object.__setattr__(self, "regularizer", self.loss)
        elif self.loss is not None:
            raise TypeError(f"a problem of terms has a loss in each Term, got another beside them: {self.loss!r}.")
        losses = tuple(term.loss for term in terms)
        for name, value in (
            ("apply", StackedFunction(names, tuple(term.apply for term in terms))),
            ("loss", losses[0] if len(losses) == 1 else StackedLoss(losses)),
            ("names", names),
            ("weights", weights),
        ):
            object.__setattr__(self, name, value)

    @property
    def parts(self) -> tuple["Problem", ...]:
        """One problem for each term, without a regularizer; itself where there is one function."""
        if len(self.names) < 2:
            return (self,)
        assert isinstance(self.apply, StackedFunction)
        assert isinstance(self.loss, StackedLoss)
        pairs = zip(self.apply.functions, self.loss.losses, strict=True)
        return tuple(Problem(apply, loss, trainable=self.trainable) for apply, loss in pairs)

    @property
    def term_weights(self) -> TermWeights | None:
        """The rule of the terms' weights; None where all of them are numbers."""
        return TermWeights(self.weights, self.names) if any(map(is_rule, self.weights)) else None

    def layout(self, params: PyTree) -> Layout:
        """Where the trained weights lie in the flat vector w."""
        layout = Layout.of(params, self.trainable)
        self.regularizer.check(layout.size)
        return layout

    def outputs(self, params: PyTree, x: Any) -> Float[Array, "n k"]:
        """f(w; x) as a matrix."""
        z = self.apply(params, x)
        return z[:, None] if z.ndim == 1 else z

    def batch(self, batch: Any) -> Any:
        """What a person gives as a batch, as a Batch, or of a problem of terms a TermBatch."""
        return TermBatch.of(batch, self.names) if self.names else Batch.of(batch)

    def check(self, params: PyTree, batch: Batch) -> int:
        """Refuse a network or a batch that do not fit each other, before anything compiles; the number of outputs."""
        x = jax.ShapeDtypeStruct(jnp.shape(batch.x), jax.dtypes.canonicalize_dtype(batch.x.dtype))
        z = jax.eval_shape(self.apply, params, x)
        shape = getattr(z, "shape", None)
        if shape is None or len(shape) not in (1, 2) or shape[0] != x.shape[0]:
            raise ValueError(
                f"apply(params, x) gave {'a ' + type(z).__name__ if shape is None else f'shape {shape}'} for x of "
                f"shape {x.shape}; it must give [n] or [n, k] with one row per row of x."
            )
        if not jnp.issubdtype(z.dtype, jnp.floating):
            raise TypeError(
                f"apply(params, x) gave {z.dtype}: outputs must be real; split complex ones in two columns."
            )
        k = 1 if len(shape) == 1 else shape[1]
        self.loss.check(batch.y, k)
        self.loss.check_range(batch.y, k, z.dtype)
        return k

    def ready(self, params: PyTree, batch: Any) -> Any:
        """(x, y), (x, y, weight) or a Batch as a Batch of arrays, checked against the network and the loss.

        For the doors, where values are known. A step does the same while it is traced: shapes and dtypes are checked
        there, and values, which are not known, are not.
        """
        refuse_fork()
        batch, dtype = self.batch(batch), self.layout(params).dtype(params)
        if isinstance(batch, TermBatch):
            TermWeights(self.weights, self.names).check(dtype)
            batch = self.conform(params, batch.map(Batch.scaled), dtype)
            self._check_values(params, batch)
            return batch
        batch.check(dtype)
        return self.conform(params, batch.scaled(), dtype)

    def conform(self, params: PyTree, batch: Any, dtype: Any) -> Any:
        """The batch as arrays, checked against the network, the loss and the weights' precision."""
        if isinstance(batch, TermBatch):
            return self._conform_terms(params, batch, dtype)
        batch.check(dtype)
        batch = jax.tree.map(jnp.asarray, batch)
        self.check(params, batch)
        return batch

    def _conform_terms(self, params: PyTree, batch: TermBatch, dtype: Any) -> TermBatch:
        """The same for each term, whose name errors begin with; targets that were not given become zeros."""
        parts, widths = [], []
        functions = self.apply.functions if isinstance(self.apply, StackedFunction) else (self.apply,)
        losses = self.loss.losses if isinstance(self.loss, StackedLoss) else (self.loss,)
        for name, part, apply, loss in zip(self.names, batch.parts, functions, losses, strict=True):
            with checks.about(f"term {name!r}"):
                if part.y is None:
                    checks.features("x", part.x, dtype)
                    z = jax.eval_shape(apply, params, jax.ShapeDtypeStruct(part.x.shape, _canonical(part.x.dtype)))
                    shape = getattr(z, "shape", (part.size,))
                    if shape[:1] != (part.size,):
                        raise ValueError(
                            f"apply(params, x) gave shape {shape} for {part.size} rows: give one output, or one row of "
                            "them, for each row."
                        )
                    part = dataclasses.replace(part, y=np.zeros(shape, dtype))
                part.check(dtype)
                part = jax.tree.map(jnp.asarray, part)
                widths.append(Problem(apply, loss).check(params, part))
                parts.append(part)
        return dataclasses.replace(batch, parts=tuple(parts), widths=tuple(widths))

    def _check_values(self, params: PyTree, batch: TermBatch) -> None:
        """Refuse a term that is not finite at the start, or whose rows depend on each other."""
        if any(checks.concrete(leaf) is None for leaf in jax.tree.leaves((params, batch))):
            return
        functions = self.apply.functions if isinstance(self.apply, StackedFunction) else (self.apply,)
        for name, part, apply in zip(self.names, batch.parts, functions, strict=True):
            alone = np.asarray(_row_by_row(apply, params, part.x))
            if sentence := _singular(name, "output", alone, part.x):
                raise ValueError(sentence)
            together = np.asarray(jax.jit(apply)(params, part.x[:CHECKED_ROWS]))
            scale = np.max(np.abs(together)) + np.finfo(together.dtype).tiny
            tolerance = np.finfo(together.dtype).eps ** 0.5 * scale
            if not np.allclose(alone[: len(together)], together, rtol=0, atol=tolerance):
                raise ValueError(
                    f"term {name!r}: the output of a row changes with the other rows of x: each row's output must "
                    "depend on that row alone."
                )

    def singular_slope(self, params: PyTree, batch: TermBatch) -> str | None:
        """Which term has a derivative by the parameters that is not finite, in a sentence; None where all are."""
        functions = self.apply.functions if isinstance(self.apply, StackedFunction) else (self.apply,)
        for name, part, apply in zip(self.names, batch.parts, functions, strict=True):
            slopes = np.asarray(_slope_row_by_row(apply, params, part.x))
            if sentence := _singular(name, "derivative by the parameters", slopes, part.x):
                return sentence
        return None

    def shares(self, batch: AnyBatch, dtype: Any, weights: Any = None) -> Float[Array, "n"]:
        """Each row's weight in U: its share of its term's average, times ω of the term (`weights`, by default those
        before the first step)."""
        if not isinstance(batch, TermBatch):
            return batch.shares(dtype)
        ω = TermWeights(self.weights, self.names).at_start(dtype) if weights is None else weights
        return jnp.concatenate([ω[t] * part.shares(dtype) for t, part in enumerate(batch.parts)])

    def on(self, batch: AnyBatch) -> "Problem":
        """The same problem, its loss knowing the outputs of every term."""
        if isinstance(batch, TermBatch) and isinstance(self.loss, StackedLoss):
            return dataclasses.replace(self, loss=StackedLoss(self.loss.losses, batch.widths))
        return self

    def targets(self, batch: AnyBatch, k: int, dtype: Any) -> Float[Array, "n _"]:
        """y as the loss wants it; of several terms with the number of the term in the last column."""
        if not isinstance(batch, TermBatch):
            return self.loss.targets(batch.y, k).astype(dtype)
        if not isinstance(self.loss, StackedLoss):
            return self.loss.targets(batch.parts[0].y, k).astype(dtype)
        each = zip(self.loss.losses, batch.parts, batch.widths, strict=True)
        y = [jnp.pad(loss.targets(part.y, own), ((0, 0), (0, k - own))).astype(dtype) for loss, part, own in each]
        return jnp.column_stack([jnp.concatenate(y), jnp.asarray(batch.term, dtype)])

    def pairs(self, batch: AnyBatch) -> Pairs | None:
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

    def rows(self, batch: AnyBatch) -> tuple[Any, Pairs | None]:
        """All rows the network must see: the batch's own, then its pairs' extra ones."""
        pairs = self.pairs(batch)
        if pairs is None or pairs.extra.shape[0] == 0:
            return batch.x, pairs
        return jnp.concatenate([batch.x, pairs.extra.astype(batch.x.dtype)]), pairs

    def objective(self, params: PyTree, x: Any, y: Any = None, weight: Any = None) -> Float[Array, ""]:
        """U(w) on the rows given; of a problem of terms, on a dictionary of them."""
        batch = self.ready(params, x if self.names else Batch(x, y, weight))
        return _objective(self, params, batch)

    def batch_objective(self, trained: tuple, params: PyTree, batch: AnyBatch) -> Float[Array, ""]:
        """U on one batch: average loss + R(w) + manifold penalty; `trained` are the trained leaves of params."""
        rows, pairs = self.rows(batch)
        return self.data_term(self.outputs(params, rows), batch, pairs) + self.penalty(trained)

    def data_term(self, z: Float[Array, "m k"], batch: AnyBatch, pairs: Pairs | None) -> Float[Array, ""]:
        """Average loss + manifold penalty, the outputs of all the batch's rows being known."""
        y = self.targets(batch, z.shape[1], z.dtype)
        value = self.shares(batch, z.dtype) @ self.on(batch).loss.value(z[: batch.size], y)
        if pairs is not None and self.manifold is not None:
            value += self.manifold.value(z, pairs)
        return value

    def penalty(self, trained: tuple) -> Float[Array, ""]:
        """R(w), leaf by leaf where it is a plain ridge."""
        if self.regularizer.is_smooth:
            return jnp.asarray(sum(jnp.sum(leaf**2) for leaf in trained)) * (self.regularizer.ridge / 2)
        return self.regularizer.value(jnp.concatenate([jnp.ravel(leaf) for leaf in trained]))


@jax.jit
def _objective(problem: Problem, params: PyTree, batch: Any) -> Float[Array, ""]:
    return problem.batch_objective(problem.layout(params).split(params)[0], params, batch)


@partial(jax.jit, static_argnums=0)
def _row_by_row(apply: Callable[[PyTree, Array], Array], params: PyTree, x: Array) -> Array:
    """The output of each row, which sees no other row."""
    return jax.lax.map(lambda row: apply(params, row[None])[0], x, batch_size=ROWS_AT_ONCE)


@partial(jax.jit, static_argnums=0)
def _slope_row_by_row(apply: Callable[[PyTree, Array], Array], params: PyTree, x: Array) -> Array:
    """The sum of the derivatives of each row's outputs by all parameters."""
    slope = jax.grad(lambda params, row: jnp.sum(apply(params, row[None])))
    total = lambda row: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(slope(params, row)))
    return jax.lax.map(total, x, batch_size=ROWS_AT_ONCE)


def _singular(name: str, what: str, values: np.ndarray, x: Array) -> str | None:
    """A sentence about the first row whose value is not finite."""
    finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if finite.all():
        return None
    row = int(np.argmin(finite))
    return (
        f"term {name!r}: its {what} is not finite at row {row}, x = {np.asarray(x[row])}: keep rows away from points "
        "where a coefficient or a derivative is singular."
    )


def _canonical(dtype: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(dtype)

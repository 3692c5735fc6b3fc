"""Manifold regularization: near inputs should have near outputs."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import checks
from .._struct import Number, struct
from ..batch import Pairs

#: Rows with more columns than this are compared all with all: a tree would look at nearly all of them too.
MOST_TREE_COLUMNS = 15
#: Distances computed at a time, in rows × rows.
BLOCK_SIZE = 1 << 22


@struct
class Graph:
    """A k-nearest-neighbor graph over the rows of a table: row i's neighbors and how close each is, q_ij ∈ (0, 1]."""

    neighbors: Int[Array, "n k"]
    closeness: Float[Array, "n k"]

    @property
    def size(self) -> int:
        return self.neighbors.shape[0]

    def pairs(
        self, table: Array | np.ndarray, anchors: Int[Array | np.ndarray, "m"], *, start: int | None = None
    ) -> Pairs:
        """The pairs of some rows of the table.

        With `start=None` the anchors are themselves the rows of the batch, in that order; otherwise they come as
        extra rows, and `start` is the number of rows in the batch.
        """
        k = self.neighbors.shape[1]
        nearby = table[self.neighbors[anchors].reshape(-1)]
        m = anchors.shape[0]
        own = [] if start is None else [table[anchors]]
        first = 0 if start is None else start
        left = first + jnp.repeat(jnp.arange(m), k)
        right = first + m + jnp.arange(m * k)
        scale = self.size / (k * m)  # Σ over the graph's rows, estimated from m of them
        weight = scale * self.closeness[anchors].reshape(-1)
        return Pairs(jnp.concatenate([*own, nearby]), left, right, weight)

    def whole(self) -> Pairs:
        """All pairs at once, for a batch that is the whole table."""
        n, k = self.neighbors.shape
        left = jnp.repeat(jnp.arange(n), k)
        return Pairs(jnp.zeros((0,)), left, self.neighbors.reshape(-1), self.closeness.reshape(-1) / k)


@struct
class Manifold:
    """Penalty on differences between the outputs of neighboring rows, for unlabeled data.

    strength · Σ_i 1/k Σ_{j∈N(i)} q_ij ‖f(x_i) − f(x_j)‖² over all rows i of the graph.

    It acts on outputs and is not convex in w. Linearizing both outputs, f_i − f_j + (J_i − J_j)(w − w_n), makes it
    extra rows of a least-squares problem beside the loss's (the paper prints Δ − Jᵀw; the sign is Δ + Jᵀw).
    The sum runs over the graph, as in the paper: divide `strength` by the number of rows for an average.

    >>> graph = scax.knn_graph(x, k=3)
    >>> problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3), manifold=scax.Manifold(1e-3, graph))
    """

    strength: Number
    graph: Graph

    def __post_init__(self):
        checks.nonnegative("strength", self.strength)
        if not isinstance(self.graph, Graph):
            raise TypeError(f"graph must be a Graph, got {type(self.graph).__name__}: build one with knn_graph(x, k).")

    def value(self, z: Float[Array, "n k"], pairs: Pairs) -> Float[Array, ""]:
        """The penalty of the outputs z of the batch's rows followed by the pairs' extra rows."""
        difference = z[pairs.left] - z[pairs.right]
        return jnp.asarray(self.strength, z.dtype) * jnp.sum(pairs.weight.astype(z.dtype)[:, None] * difference**2)


def knn_graph(x, k: int = 5, *, width: float | None = None) -> Graph:
    """The k nearest neighbors of every row of x, for `Manifold`.

    Their closeness is q_ij = exp(−‖x_i − x_j‖² / (2 width²)).

    `width` is the median distance to a neighbor unless given. Labeled and unlabeled rows may be stacked:
    `scax.train(..., unlabeled=x_unlabeled)` wants the graph of `np.vstack([x, x_unlabeled])`.

    >>> scax.knn_graph(x, k=3).neighbors.shape
    (40, 3)
    """
    checks.features("x", x, np.asarray(x).dtype)
    rows = np.asarray(x).reshape(np.shape(x)[0], -1)
    if not 1 <= k < len(rows):
        raise ValueError(f"k={k} neighbors out of {len(rows)} rows: k must be between 1 and {len(rows) - 1}.")
    if width is not None:
        checks.positive("width", width)
    distance, index = nearest_rows(rows.astype(np.float64), k)
    if width is None:
        width = float(np.median(distance)) or 1.0
    closeness = np.exp(-((distance / width) ** 2) / 2)
    dtype = jax.dtypes.canonicalize_dtype(rows.dtype)
    return Graph(jnp.asarray(index, jnp.int32), jnp.asarray(closeness, dtype))


def nearest_rows(rows: Float[np.ndarray, "n d"], k: int) -> tuple[Float[np.ndarray, "n k"], Int[np.ndarray, "n k"]]:
    """Distance to and place of the k nearest other rows of every row, nearest first."""
    if rows.shape[1] <= MOST_TREE_COLUMNS:
        return _nearest_by_tree(rows, k)
    return _nearest_by_products(rows, k)


def _nearest_by_tree(rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy.spatial import KDTree

    distance, index = map(np.asarray, KDTree(rows).query(rows, k + 1))
    itself = index == np.arange(len(rows))[:, None]
    itself[:, -1] |= ~itself.any(axis=1)  # with more than k copies of a row, the row itself need not be among the k + 1
    return distance[~itself].reshape(-1, k), index[~itself].reshape(-1, k)


def _nearest_by_products(rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """‖x_i − x_j‖² = ‖x_i‖² + ‖x_j‖² − 2 x_iᵀx_j finds the neighbors; their distances are then computed directly."""
    n, _ = rows.shape
    centered = rows - rows.mean(axis=0)
    squares = np.sum(centered**2, axis=1)
    distance, index = np.empty((n, k)), np.empty((n, k), np.int64)
    for part in np.array_split(np.arange(n), -(-n * n // BLOCK_SIZE)):
        apart = squares - 2 * centered[part] @ centered.T  # ‖x_i‖² changes no order
        apart[np.arange(len(part)), part] = np.inf
        nearest = np.argpartition(apart, k - 1, axis=1)[:, :k]
        exact = np.linalg.norm(rows[part][:, None] - rows[nearest], axis=2)
        order = np.argsort(exact, axis=1, kind="stable")
        distance[part] = np.take_along_axis(exact, order, axis=1)
        index[part] = np.take_along_axis(nearest, order, axis=1)
    return distance, index

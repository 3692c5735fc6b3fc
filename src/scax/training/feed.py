"""Where the batches of a run come from. They depend on the position alone: a run resumes anywhere, to the bit.

position   = feed.start(key)                 a pytree: saved with a checkpoint, vmapped over runs
batches, _ = feed.load(position, steps)      on the host: what the next steps need is on the device
plan       = batches.plan(position, count)   inside the compiled loop: what the next `count` batches are
batch      = batches.batch(plan, i)          the i-th of them
position   = batches.skip(position, steps)   after `steps` batches
"""

import dataclasses
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, UInt32

from .. import checks
from .._struct import static, struct
from ..batch import Batch, TermBatch
from ..problem import Problem
from ..tables.shuffle import Shuffle, permute, sides
from ..tables.stream import Stream
from .evaluation import spread_rows


@runtime_checkable
class Batches(Protocol):
    """Batches on the device, as the compiled loop uses them: a pytree."""

    def plan(self, position: Any, count: int) -> Any:
        """What the next `count` batches consist of: as much as is cheaper to find at once than one by one."""
        ...

    def batch(self, plan: Any, i: Any) -> Any:
        """The i-th batch of a plan."""
        ...

    def skip(self, position: Any, steps: Any) -> Any:
        """The position `steps` batches later."""
        ...


@runtime_checkable
class Feed(Protocol):
    """A source of batches. One that has all it needs on the device is its own `Batches`, and `load` gives itself."""

    def start(self, key: Array) -> Any:
        """The position before the first batch."""
        ...

    def load(self, position: Any, steps: int) -> tuple[Any, int]:
        """(batches, how many of the next `steps` they hold); called on the host, between two compiled calls."""
        ...

    def sample(self, count: int) -> Batch | TermBatch:
        """Up to `count` rows to measure the objective on."""
        ...


#: Bytes of the batches of a plan up to which they are gathered at once: on a CPU, rows taken from a large table between
#: two small steps cost more than the steps.
GATHERED = 1 << 20


@struct
class Plan:
    """The rows of some batches [count, batch], and, where that is cheaper, the batches themselves."""

    rows: Int[Array, "count batch"]
    anchors: Int[Array, "count anchors"] | None  # rows of a manifold's graph
    batches: Batch | None

    @staticmethod
    def of(data: Batch, rows: Array, anchors: Array | None = None) -> "Plan":
        size = rows.size * sum(leaf.dtype.itemsize * leaf.size // data.size for leaf in jax.tree.leaves(data))
        return Plan(rows, anchors, _gather(data, rows) if size <= GATHERED else None)

    def take(self, data: Batch, i: Any) -> tuple[Batch, Array, Array | None]:
        """(batch, its rows, its anchors)"""
        rows, anchors, batch = _entry((self.rows, self.anchors, self.batches), i)
        return _gather(data, rows) if batch is None else batch, rows, anchors


def _gather(data: Batch, rows: Array) -> Batch:
    return jax.tree.map(lambda leaf: leaf[rows], data)


def _entry(tree: Any, i: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, i, keepdims=False), tree)


@struct
class Rows:
    """Rows in memory, in shuffled epochs; a batch may straddle two. With `order` only these rows take part.

    With a manifold penalty each batch has the neighbor pairs of its rows, or, where `table` has unlabeled rows beneath
    the labeled ones, of rows drawn from all of them.
    """

    data: Batch
    batch_size: int = static()
    order: Int[Array, "n"] | None = None
    table: Any = None  # rows of the manifold's graph
    graph: Any = None

    @property
    def size(self) -> int:
        return self.data.size if self.order is None else self.order.shape[0]

    def start(self, key: Array) -> tuple[Shuffle, Shuffle | None]:
        apart = None
        if self.table is not None and self.table.shape[0] > self.data.size:
            apart = Shuffle.start(jax.random.fold_in(key, 1), self.table.shape[0])
        return Shuffle.start(key, self.size), apart

    def plan(self, position: tuple, count: int) -> "Plan":
        draw = lambda shuffle: shuffle.draw(count * self.batch_size)[1].reshape(count, self.batch_size)
        rows, anchors = draw(position[0]), None if position[1] is None else draw(position[1])
        return Plan.of(self.data, rows if self.order is None else self.order[rows], anchors)

    def batch(self, plan: "Plan", i: Any) -> Batch:
        batch, rows, anchors = plan.take(self.data, i)
        if self.graph is None:
            return batch
        if anchors is None:
            return dataclasses.replace(batch, pairs=self.graph.pairs(self.table, rows))
        return dataclasses.replace(batch, pairs=self.graph.pairs(self.table, anchors, start=self.batch_size))

    def skip(self, position: tuple, steps: Any) -> tuple:
        return tuple(None if shuffle is None else shuffle.skip(steps, self.batch_size) for shuffle in position)

    def load(self, position: Any, steps: int) -> tuple["Rows", int]:
        return self, steps

    def sample(self, count: int) -> Batch:
        return spread_rows(self.data, count)

    def spread(self, parallel: Any) -> "Rows":
        """For a run of several processes: each has all rows, and takes its share of every batch's."""
        return parallel.place(self)


@struct
class Whole:
    """All rows in every step."""

    data: Batch

    def start(self, key: Array) -> None:
        return None

    def plan(self, position: None, count: int) -> None:
        return None

    def batch(self, plan: None, i: Any) -> Batch:
        return self.data

    def skip(self, position: None, steps: Any) -> None:
        return None

    def load(self, position: None, steps: int) -> tuple["Whole", int]:
        return self, steps

    def sample(self, count: int) -> Batch:
        return spread_rows(self.data, count)


@struct
class EqualBatches:
    """Epochs of batches that have the same number of rows up to one, over rows padded to a power of two.

    The first `count` rows are real, the others have weight zero: tables of 65 to 128 rows share a compiled program.
    """

    x: Num[Array, "r *features"]
    y: Num[Array, "r *outputs"]
    weight: Float[Array, "r"]
    count: UInt32[Array, ""]
    sides: UInt32[Array, "2"]  # of the grid in which the rows are shuffled
    batch_size: int = static()

    @staticmethod
    def pad(x: np.ndarray, y: np.ndarray, weight: np.ndarray, batch_size: int, size: int | None = None):
        """Padded to `size` rows, by default the next power of two."""
        n = len(x)
        size = padded(n) if size is None else size
        rows = lambda a, **how: jnp.asarray(np.pad(a, [(0, size - n)] + [(0, 0)] * (a.ndim - 1), **how))
        # what is added has no weight; its targets are the last row's again: all zeros are no probabilities
        shuffled = jnp.asarray(sides(n), jnp.uint32)
        count = jnp.asarray(n, jnp.uint32)
        return EqualBatches(rows(x), rows(y, mode="edge"), rows(weight), count, shuffled, min(batch_size, size))

    @property
    def data(self) -> Batch:
        """All rows."""
        return Batch(self.x, self.y, self.weight)

    def epochs(self, count: int) -> range:
        """The steps at which `count` epochs end."""
        batches = 1 if self.is_whole else -(-int(self.count) // self.batch_size)
        return range(batches, count * batches + 1, batches)

    @property
    def is_whole(self) -> bool:
        """Whether a batch has all rows, padding included."""
        return self.batch_size == self.x.shape[0]

    def start(self, key: Array) -> tuple[Array, Array, Array]:
        """(seed, epoch, batch)"""
        zero = jnp.zeros((), jnp.uint32)
        return jax.random.bits(key, (), jnp.uint32), zero, zero

    def plan(self, position: tuple, count: int) -> tuple | None:
        if self.is_whole:
            return None
        seed, epoch, batch = position
        batches = self._batches()
        number = batch + jnp.arange(count, dtype=jnp.uint32)
        epoch, batch = epoch + number // batches, number % batches
        # the first `longer` batches of an epoch have one row more than the others
        rows, longer = self.count // batches, self.count % batches
        begin = batch * rows + jnp.minimum(batch, longer)
        size = rows + (batch < longer)
        place = jnp.minimum(begin[:, None] + jnp.arange(self.batch_size, dtype=jnp.uint32), self.count - 1)
        epochs = jnp.broadcast_to(epoch[:, None], place.shape)
        chosen = permute(place.ravel(), seed, epochs.ravel(), self.count, self.sides).astype(jnp.int32)
        return Plan.of(self.data, chosen.reshape(place.shape)), size

    def batch(self, plan: tuple | None, i: Any) -> Batch:
        if plan is None:
            return self.data
        batch, _, _ = plan[0].take(self.data, i)
        inside = jnp.arange(self.batch_size) < plan[1][i]
        return dataclasses.replace(batch, weight=jnp.where(inside, batch.weight, 0))

    def skip(self, position: tuple, steps: Any) -> tuple:
        seed, epoch, batch = position
        after = batch + jnp.asarray(steps, jnp.uint32)
        return seed, epoch + after // self._batches(), after % self._batches()

    def load(self, position: Any, steps: int) -> tuple["EqualBatches", int]:
        return self, steps

    def sample(self, count: int) -> Batch:
        return spread_rows(self.data, count)

    def _batches(self) -> Any:
        return jnp.uint32(1) if self.is_whole else (self.count + (self.batch_size - 1)) // self.batch_size


def padded(n: int) -> int:
    """The power of two that n rows are padded to."""
    return max(32, 1 << (n - 1).bit_length())


#: Batches that a shard feed brings to the device at once.
CHUNK = 64


@struct
class Chunk:
    """Batches of shards, on the device: x [CHUNK, batch, …] and y [CHUNK, batch], from batch number `first` on."""

    x: Array
    y: Array
    first: Int[Array, ""]

    def plan(self, position: Int[Array, ""], count: int) -> Int[Array, ""]:
        return position - self.first

    def batch(self, plan: Int[Array, ""], i: Any) -> Batch:
        return Batch(*_entry((self.x, self.y), plan + i))

    def skip(self, position: Int[Array, ""], steps: Any) -> Int[Array, ""]:
        return position + steps


class Shards:
    """Rows from shards on disk, a chunk of batches at a time, the next one read while the device works.

    The position is the number of batches drawn; chunks begin at multiples of CHUNK, so that all have one shape.
    """

    def __init__(self, stream: Stream, batch_size: int):
        self.stream, self.batch_size = stream, batch_size
        self.parallel: Any = None
        self.chunk: tuple[int, Chunk] | None = None

    def spread(self, parallel: Any) -> "Shards":
        """For a run of several processes: each reads its share of every batch's rows, where they share out evenly."""
        self.parallel = parallel
        if self.batch_size % parallel.units == 0:
            self.stream.share = (jax.process_index(), jax.process_count())
        return self

    def move(self, folder: Path) -> None:
        """The shards are now in another folder."""
        self.stream.shards = dataclasses.replace(self.stream.shards, folder=folder)

    def start(self, key: Array) -> Int[Array, ""]:
        return jnp.zeros((), jnp.int32)

    def load(self, position: Any, steps: int) -> tuple[Chunk, int]:
        number, within = divmod(int(position), CHUNK)
        if self.chunk is None or self.chunk[0] != number:
            self.chunk = None  # frees its memory first
            self.stream.position = number * CHUNK * self.batch_size
            x, y = self.stream.chunk(CHUNK, self.batch_size)
            self.stream.ahead(CHUNK, self.batch_size)
            chunk = Chunk(self._place(x), self._place(y), self._whole(np.asarray(number * CHUNK, np.int32)))
            self.chunk = (number, chunk)
        return self.chunk[1], min(steps, CHUNK - within)

    def sample(self, count: int) -> Batch:
        x, y = (self._whole(np.array(part[:count])) for part in self.stream.shards.load(0))
        return Batch(x, y)

    def _whole(self, part: np.ndarray) -> Array:
        """On the device, or on those of all processes."""
        return jnp.asarray(part) if self.parallel is None else self.parallel.place(part)

    def _place(self, part: np.ndarray) -> Array:
        if self.stream.share == (0, 1):
            return self._whole(part)
        return self.parallel.by_rows(part, axis=1)


def is_feed(data: Any) -> bool:
    """Whether data is a feed, and not rows; a sentence that names the part which a feed lacks."""
    parts = {part: callable(getattr(data, part, None)) for part in ("start", "load", "sample")}
    if parts["load"] and not all(parts.values()):
        raise TypeError(
            f"feed {type(data).__name__} lacks {min(parts, key=lambda part: parts[part])!r}: a feed has start(key), "
            "load(position, steps) and sample(count)."
        )
    return all(parts.values())


def check_batches(feed: Any, batches: Any) -> None:
    """Refuse what `feed.load` gave, if the compiled loop cannot draw from it."""
    name = type(feed).__name__
    for part in ("plan", "batch", "skip"):
        if not callable(getattr(batches, part, None)):
            raise TypeError(
                f"feed {name}: load must give (batches, count), and {type(batches).__name__} lacks {part!r}: batches "
                "have plan(position, count), batch(plan, i) and skip(position, steps)."
            )
    if jax.tree.structure(batches) == jax.tree.structure(0):
        raise TypeError(
            f"feed {name}: its batches enter a compiled loop and must be a pytree: decorate {type(batches).__name__} "
            "with jax.tree_util.register_dataclass, or register_static where it has no arrays."
        )


def check_one_function(problem: Problem, caller: str) -> None:
    """Refuse a problem of terms where rows of one function are needed."""
    if problem.names:
        named = ", ".join(map(repr, problem.names))
        raise ValueError(f"{caller} takes the rows of one function, and the problem has terms {named}: use scax.train.")


def rows_in_memory(problem: Problem, params: Any, data: Any, batch_size: int | None, unlabeled: Any = None):
    """The feed of (x, y) or (x, y, weight): shuffled batches, or, where a batch would hold them all, all rows."""
    whole = Batch.of(data)
    if whole.pairs is not None:
        raise ValueError("data must be (x, y) or (x, y, weight): train gathers neighbor pairs itself.")
    whole = problem.ready(params, whole)
    table = graph = None
    if problem.manifold is not None:
        table, graph = _graph_rows(problem, whole, unlabeled), problem.manifold.graph
    elif unlabeled is not None:
        raise ValueError(
            "unlabeled rows only take part in a manifold penalty: give Problem(..., manifold=Manifold(...))."
        )
    if batch_size is not None and batch_size < whole.size:
        return Rows(whole, batch_size, table=table, graph=graph)
    if graph is not None and table is not None and unlabeled is not None:
        whole = dataclasses.replace(whole, pairs=graph.pairs(table, jnp.arange(graph.size), start=whole.size))
    return Whole(whole)


def _graph_rows(problem: Problem, whole: Batch, unlabeled: Any) -> Array:
    """The rows of the manifold's graph: the labeled ones, then the others."""
    assert problem.manifold is not None
    table = whole.x
    if unlabeled is not None:
        checks.features("unlabeled", unlabeled, whole.x.dtype)
        table = jnp.concatenate([whole.x, jnp.asarray(unlabeled)])
    if table.shape[0] != problem.manifold.graph.size:
        raise ValueError(
            f"the graph has {problem.manifold.graph.size} rows but there are {table.shape[0]} (labeled, then "
            "unlabeled): build it with knn_graph on exactly these rows, in this order."
        )
    return table

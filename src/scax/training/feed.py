"""Where the batches of a run come from: rows on the device, or shards on disk. Both resume anywhere, to the bit."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..batch import Batch
from ..tables.shuffle import Shuffle
from ..tables.stream import Stream


class Carry(NamedTuple):
    """What a run takes from step to step: the method's state, the sums since the last record, the place in the data."""

    state: Any
    loss: Any  # Σ batch losses since the last record
    taken: Any  # steps taken since the last record
    place: Any  # a Shuffle, or the number of rows drawn from a stream


class MemoryFeed:
    """All rows on the device; batches are drawn and gathered inside the compiled loop."""

    chunk = None  # any number of steps at once

    def __init__(self, x: np.ndarray, y: np.ndarray, batch_size: int):
        self.x, self.y, self.batch_size = jnp.asarray(x), jnp.asarray(y), batch_size

    def spread(self, parallel: Any) -> None:
        """For a run of several processes: each holds all rows, and takes its share of every batch's."""
        if parallel is not None:
            self.x, self.y = parallel.place((self.x, self.y))

    def moved(self, folder: Path) -> None:
        """Nothing is on disk."""

    def start(self, state: Any, key: Any) -> Carry:
        return Carry(state, jnp.zeros((), float), jnp.zeros((), jnp.int32), Shuffle.start(key, self.x.shape[0]))

    def advance(self, method: Any, carry: Carry, count: int) -> Carry:
        return _gathered(method, carry, self.x, self.y, count, self.batch_size)

    def sample(self, rows: int) -> Batch:
        """Some training rows to watch the objective on."""
        return Batch(self.x[:rows], self.y[:rows])


class StreamFeed:
    """Rows from shards on disk, a chunk of batches at a time, the next one read while the device works."""

    chunk = 64  # steps at once: each other number compiles anew

    def __init__(self, stream: Stream, batch_size: int):
        self.stream, self.batch_size = stream, batch_size
        self.together = lambda part: part

    def spread(self, parallel: Any) -> None:
        """For a run of several processes: each reads its share of every batch's rows, where they share out evenly."""
        if parallel is not None and self.batch_size % parallel.units == 0:
            self.stream.share = (jax.process_index(), jax.process_count())
            self.together = lambda part: parallel.by_rows(part, axis=1)

    def moved(self, folder: Path) -> None:
        """The shards are now in another folder."""
        self.stream.shards = dataclasses.replace(self.stream.shards, folder=folder)

    def start(self, state: Any, key: Any) -> Carry:
        return Carry(state, jnp.zeros((), float), jnp.zeros((), jnp.int32), np.zeros((), np.int64))

    def advance(self, method: Any, carry: Carry, count: int) -> Carry:
        self.stream.position = int(carry.place)
        x, y = self.stream.chunk(count, self.batch_size)
        state, loss, taken = _scanned(method, carry[:3], self.together(x), self.together(y))
        self.stream.ahead(count, self.batch_size)
        return Carry(state, loss, taken, np.asarray(self.stream.position, np.int64))

    def sample(self, rows: int) -> Batch:
        x, y = self.stream.shards.load(0)
        return Batch(jnp.asarray(np.array(x[:rows])), jnp.asarray(np.array(y[:rows])))


def _step(method: Any, state: Any, loss: Any, taken: Any, batch: Batch):
    state, info = method.step(state, batch)
    taken = taken + getattr(info, "accepted", jnp.asarray(True)).astype(taken.dtype)
    return state, loss + info.loss.astype(loss.dtype), taken


@jax.jit(static_argnames="batch_size")
def _gathered(method: Any, carry: Carry, x: Any, y: Any, count: Any, batch_size: int) -> Carry:
    def body(_, carry: Carry) -> Carry:
        place, rows = carry.place.draw(batch_size)
        return Carry(*_step(method, carry.state, carry.loss, carry.taken, Batch(x[rows], y[rows])), place)

    return jax.lax.fori_loop(0, count, body, carry)


@jax.jit
def _scanned(method: Any, carry: tuple, x: Any, y: Any) -> tuple:
    def body(carry: tuple, batch: tuple):
        state, loss, taken = carry
        return _step(method, state, loss, taken, Batch(*batch)), None

    return jax.lax.scan(body, carry, (x, y))[0]

"""Where the batches of several terms come from: tables, and points drawn anew at every step."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import checks
from .._struct import static, struct
from ..batch import Batch, TermBatch, check_names
from ..problem import Problem
from .feed import Rows, Whole

#: The key of the points on which the objective is measured, apart from those of the steps.
MEASURED = 0x5CA


@struct
class Sampler:
    """Rows drawn by `draw(key) -> x` or (x, y), a new key at every step; the position is the run's key and a count."""

    draw: Callable[[Array], Any] = static()

    def start(self, key: Array) -> tuple[Array, Array]:
        return key, jnp.zeros((), jnp.int32)

    def plan(self, position: tuple, count: int) -> Array:
        key, drawn = position
        return jax.vmap(lambda i: jax.random.fold_in(key, drawn + i))(jnp.arange(count))

    def batch(self, plan: Array, i: Any) -> Batch:
        return as_batch(self.draw(plan[i]))

    def skip(self, position: tuple, steps: Any) -> tuple:
        return position[0], position[1] + steps

    def load(self, position: Any, steps: int) -> tuple["Sampler", int]:
        return self, steps

    def sample(self, count: int) -> Batch:
        return as_batch(jax.jit(self.draw)(jax.random.key(MEASURED)))


@struct
class TermFeed:
    """One feed for each term, in the problem's order."""

    parts: tuple
    names: tuple[str, ...] = static()

    def start(self, key: Array) -> tuple:
        return tuple(part.start(key if t == 0 else jax.random.fold_in(key, t)) for t, part in enumerate(self.parts))

    def plan(self, position: tuple, count: int) -> tuple:
        return tuple(part.plan(own, count) for part, own in zip(self.parts, position, strict=True))

    def batch(self, plan: tuple, i: Any) -> TermBatch:
        return TermBatch(tuple(part.batch(own, i) for part, own in zip(self.parts, plan, strict=True)), self.names)

    def skip(self, position: tuple, steps: Any) -> tuple:
        return tuple(part.skip(own, steps) for part, own in zip(self.parts, position, strict=True))

    def load(self, position: Any, steps: int) -> tuple["TermFeed", int]:
        return self, steps

    def sample(self, count: int) -> TermBatch:
        return TermBatch(tuple(part.sample(count) for part in self.parts), self.names)

    @property
    def rows(self) -> int:
        """Of all terms, in one batch."""
        batch = jax.eval_shape(lambda key: self.batch(self.plan(self.start(key), 1), 0), jax.random.key(0))
        return batch.size

    @property
    def is_fresh(self) -> bool:
        """Whether there are samplers, and no table of which batches are drawn."""
        drawn = any(isinstance(part, Sampler) for part in self.parts)
        return drawn and all(isinstance(part, (Sampler, Whole)) for part in self.parts)

    @property
    def is_whole(self) -> bool:
        """Whether every batch holds all rows."""
        return all(isinstance(part, Whole) for part in self.parts)


def as_batch(drawn: Any) -> Batch:
    """What a sampler gives: x, (x, y) or (x, y, weight)."""
    return Batch.of(drawn) if isinstance(drawn, (tuple, list)) else Batch(drawn, None)


def term_feed(problem: Problem, params: Any, data: Any, batch_size: Any) -> TermFeed:
    """The feed of {name: rows or sampler}; `batch_size` is one for all tables, or {name: size}, None for all rows."""
    if not isinstance(data, Mapping):
        raise TypeError(
            f"the problem has terms {', '.join(map(repr, problem.names))}: data are a dictionary with rows or a "
            f"sampler for each, got {type(data).__name__}."
        )
    check_names(data, problem.names, "data")
    if isinstance(batch_size, Mapping):
        for name, size in batch_size.items():
            if name not in problem.names:
                allowed = ", ".join(map(repr, problem.names))
                raise ValueError(f"batch_size has {name!r}, which is no term: the terms are {allowed}.")
            checks.whole_number(f"batch_size of term {name!r}", size, 1)
            if callable(data[name]):
                raise ValueError(
                    f"batch_size of term {name!r}: its sampler draws as many rows as it likes; leave it out."
                )
    draws = {name: rows for name, rows in data.items() if callable(rows)}
    for name, draw in draws.items():
        _check_sampler(name, draw)
    first = {name: Sampler(draws[name]).sample(1) if name in draws else data[name] for name in problem.names}
    first = {name: rows.x if isinstance(rows, Batch) and rows.y is None else rows for name, rows in first.items()}
    whole = problem.ready(params, first)
    parts: list[Any] = []
    for name, rows in zip(problem.names, whole.parts, strict=True):
        size = batch_size.get(name) if isinstance(batch_size, Mapping) else batch_size
        table = Whole(rows) if size is None or size >= rows.size else Rows(rows, size)
        parts.append(Sampler(draws[name]) if name in draws else table)
    return TermFeed(tuple(parts), problem.names)


def _check_sampler(name: str, draw: Callable) -> None:
    """Refuse a sampler that cannot be compiled, or whose rows differ in shape from draw to draw."""
    key = jax.random.key(0)
    try:
        jax.eval_shape(draw, key)
        drawn = [draw(jax.random.key(seed)) for seed in range(3)]  # eval_shape would remember the first
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise TypeError(
            f"term {name!r}: its sampler cannot be compiled: draw with jax.random from the key it is given, and keep "
            "shapes fixed."
        ) from error
    except Exception as error:
        raise ValueError(f"term {name!r}: its sampler failed on a random key: {error}") from error
    with checks.about(f"term {name!r}"):
        shapes = [jax.tree.map(jnp.shape, rows) for rows in drawn]
        for shape in shapes:
            if shape != shapes[0]:
                raise ValueError(f"its sampler draws {shapes[0]} and then {shape}: every draw must have one shape.")
        parts = drawn[0] if isinstance(drawn[0], (tuple, list)) else (drawn[0],)
        if len(parts) > 3 or not all(hasattr(part, "shape") for part in parts):
            raise TypeError("its sampler must give x, (x, y) or (x, y, weight) for a key.")
        values = lambda rows: [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(rows)]
        if values(draw(jax.random.key(0))) != values(drawn[0]):
            raise ValueError("its sampler gives other rows for the same key: draw with jax.random from that key.")

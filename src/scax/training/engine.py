"""The one loop over steps: batches, steps, records and stopping in one compiled program; Python looks in between.

    carry = start(method, params, feed, key)
    for part in drive(run(method), carry, feed, goals): ...    part.carry, part.step, part.records

A program takes the goals, which are the steps at which a record is made, and the step at which it returns, as data:
another number of steps or of records, or a shorter last stretch, compiles nothing anew. Where it returns changes no
result.
"""

import bisect
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from .._struct import static, struct
from .feed import Batches, Feed, check_batches
from .method import reported_names
from .stopping import Best, Stopping

#: Batches that are drawn at once: drawing one by one, between two steps, may cost as much as a step. XLA shares out the
#: gathering from a large table among threads, whose start is paid once in a block.
BLOCK = 64
#: Steps before Python looks for the first time.
FIRST_STRETCH = 16
#: Records of one compiled call, at most.
CAPACITY = 128
#: Seconds between two looks from Python, about: then somebody may interrupt, see progress, or write a checkpoint.
STRETCH = 0.25
#: The end of a run that `Stopping` ended.
STOPPED = -1
#: A goal that no run reaches.
NEVER = np.iinfo(np.int32).max


@struct
class Carry:
    """A run between two steps. A pytree: save it, and the run goes on from it to the bit."""

    state: Any
    position: Any
    step: Int[Array, ""]  # steps taken
    recorded: Int[Array, ""]  # of which at the last record
    sums: Float[Array, "*runs reported"]  # Σ of what the steps since then reported
    best: Best | None
    end: Int[Array, "*runs"] | None  # 0 until the run ends by itself, then why; None where it cannot
    names: tuple[str, ...] = static()  # of the sums


@struct
class RecordValues:
    """Values by name. Scalars are columns of one array: XLA writes one entry of it, and compiles that once."""

    scalars: Float[Array, "*rows columns"]
    others: dict[str, Array]
    columns: tuple[str, ...] = static()

    @staticmethod
    def of(values: dict[str, Array]) -> "RecordValues":
        columns = tuple(name for name, value in values.items() if jnp.ndim(value) == 0)
        scalars = [values[name] for name in columns]
        dtype = jnp.result_type(float, *scalars)
        others = {name: value for name, value in values.items() if name not in columns}
        return RecordValues(jnp.asarray([value.astype(dtype) for value in scalars], dtype), others, columns)

    def items(self) -> list[tuple[str, Any]]:
        named = [(name, self.scalars[..., i]) for i, name in enumerate(self.columns)]
        return named + list(self.others.items())

    def __getitem__(self, name: str) -> Any:
        return dict(self.items())[name]


class Records(NamedTuple):
    """What a call recorded: the first `count` entries of every array."""

    count: Any
    steps: Any
    values: Any  # a RecordValues


def begin(
    method: Any,
    state: Any,
    batches: Batches,
    position: Any,
    stopping: Stopping | None = None,
    until: Callable[[Any, Any], Any] | None = None,
) -> Carry:
    """Before the first step."""
    names = reported_names(method, state, batches.batch(batches.plan(position, BLOCK), 0))
    return Carry(
        state,
        position,
        jnp.zeros((), jnp.int32),
        jnp.zeros((), jnp.int32),
        jnp.zeros(len(names), float),
        None if stopping is None else stopping.start(method.solution(state)),
        None if stopping is None and until is None else jnp.zeros((), jnp.int32),
        names,
    )


def start(
    method: Any,
    params: PyTree,
    feed: Feed,
    key: Array,
    *,
    state: Any = None,
    stopping: Stopping | None = None,
    until: Callable[[Any, Any], Any] | None = None,
) -> Carry:
    """A run from params, or from a state that was trained before: copied, for the run consumes what it has."""
    first, position = method.init(params), feed.start(key)
    if state is not None and jax.tree.structure(state) != jax.tree.structure(first):
        raise ValueError(
            "state is none of this method's: make it with the same options, and with batches of the same kind (all "
            "rows, or some)."
        )
    state = first if state is None else state
    batches = feed.load(position, 1)[0]
    check_batches(feed, batches)
    return _copied(method, state, batches, position, stopping, until=until)


@jax.jit(static_argnames="until")
def _copied(method, state, batches, position, stopping, until) -> Carry:
    state, position = jax.tree.map(jnp.copy, (state, position))
    return begin(method, state, batches, position, stopping, until)


@jax.jit
def solution(method: Any, state: Any) -> PyTree:
    """What to deploy."""
    return method.solution(state)


def advance(
    method: Any,
    carry: Carry,
    batches: Batches,
    goals: Int[Array, "capacity"] | np.ndarray,
    stop: Int[Array, ""] | np.int32,
    measure: Any = None,
    stopping: Stopping | None = None,
    until: Callable[[Any, Any], Any] | None = None,
) -> tuple[Carry, Records]:
    """Steps up to number `stop`, at or before the last goal, with a record at each of the goals on the way.

    A record has the averages of what the steps since the last record reported, and what `measure(method, state)` gives.
    `until(state, info)` ends the run after a step for which it is not 0, with a record there; `Carry.end` keeps it.
    """
    goals, capacity = jnp.asarray(goals), goals.shape[0]

    def look(carry: Carry) -> tuple[RecordValues, Best | None]:
        record = dict(zip(carry.names, carry.sums / (carry.step - carry.recorded), strict=True))
        if measure is not None:
            record |= measure(method, carry.state)
        best = carry.best
        if stopping is not None and best is not None:
            best = stopping.update(best, record, method.solution(carry.state))
        return RecordValues.of(record), best

    shapes, _ = jax.eval_shape(look, carry)

    def runs(loop):
        carry, i, _ = loop
        left = (i < capacity) & ((carry.step < stop) | (goals[i] <= carry.step))
        return left if carry.end is None else left & (carry.end == 0)

    def block(loop):
        carry, i, (steps, values) = loop
        carry = _steps(method, carry, batches, jnp.minimum(goals[i], stop) - carry.step, until)
        due = carry.step == goals[i]
        if carry.end is not None:
            due = due | (carry.end != 0)
        nothing = lambda carry: (jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes), carry.best)
        record, best = jax.lax.cond(due, look, nothing, carry)
        end = carry.end
        if stopping is not None and best is not None and end is not None:
            end = jnp.where((end == 0) & due & stopping.is_over(best), STOPPED, end)
        carry = dataclasses.replace(
            carry,
            recorded=jnp.where(due, carry.step, carry.recorded),
            sums=jnp.where(due, 0, carry.sums),
            best=best,
            end=end,
        )
        # an entry that is not due is written over
        values = jax.tree.map(lambda array, value: array.at[i].set(value), values, record)
        return carry, i + due, (steps.at[i].set(carry.step), values)

    values = jax.tree.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), shapes)
    start = (carry, jnp.zeros((), jnp.int32), (jnp.zeros(capacity, jnp.int32), values))
    carry, count, (steps, values) = jax.lax.while_loop(runs, block, start)
    return carry, Records(count, steps, values)


def _steps(method: Any, carry: Carry, batches: Batches, count: Any, until: Callable | None) -> Carry:
    """Up to `count` steps, at most a block of them, fewer if the run ends."""
    plan, count = batches.plan(carry.position, BLOCK), jnp.minimum(count, BLOCK)

    def step(loop):
        i, state, sums, end = loop
        state, info = method.step(state, batches.batch(plan, i))
        # one addition: XLA spreads the work of a step over threads, at the price of several steps, if it has many parts
        if carry.names:
            sums = sums + jnp.stack([info.records[name].astype(sums.dtype) for name in carry.names])
        return i + 1, state, sums, end if until is None else jnp.asarray(until(state, info), jnp.int32)

    def runs(loop):
        return loop[0] < count if until is None else (loop[0] < count) & (loop[3] == 0)

    start = (jnp.zeros((), jnp.int32), carry.state, carry.sums, carry.end)
    taken, state, sums, end = jax.lax.while_loop(runs, step, start)
    position = batches.skip(carry.position, taken)
    return dataclasses.replace(carry, state=state, position=position, step=carry.step + taken, sums=sums, end=end)


#: One program for each structure of a method and each shape of its batches.
compiled = jax.jit(advance, static_argnames="until", donate_argnames="carry")

#: (carry, batches, goals, stop) -> (carry, records)
Run = Callable[[Carry, Batches, Any, Any], tuple[Carry, Records]]


def run(method: Any, measure: Any = None, stopping: Stopping | None = None, until: Callable | None = None) -> Run:
    """One run."""
    return lambda *where: compiled(method, *where, measure, stopping, until=until)


#: The name of the axis along which runs are side by side.
RUNS = "runs"


def run_many(method: Any, shared: bool, measure: Any = None, stopping: Stopping | None = None) -> Run:
    """Runs side by side, one along each leading axis of the carry and, unless it is shared, of the method.

    With `stopping`, whose `together` is RUNS, each keeps its best solution and all end with the last.
    """
    return lambda *where: compiled_many(method, *where, measure, stopping, shared)


@jax.jit(static_argnames="shared", donate_argnames="carry")
def compiled_many(
    method: Any,
    carry: Carry,
    batches: Batches,
    goals: Any,
    stop: Any,
    measure: Any,
    stopping: Stopping | None,
    shared: bool,
):
    axes = run_axes(carry)
    one = lambda method, carry: advance(method, carry, batches, goals, stop, measure, stopping)
    out = (axes, Records(None, None, 1))
    return jax.vmap(one, in_axes=(None if shared else 0, axes), out_axes=out, axis_name=RUNS)(method, carry)


def run_axes(carry: Carry) -> Carry:
    """The axes of many runs: all are at the same step, so that what is done at some steps alone stays that rare.

    Under `vmap` a branch that some runs take is computed for all; one that depends on the shared count of steps is not.
    """
    return _counts(carry, lambda count: None, lambda leaf: 0)


def share_steps(carry: Carry) -> Carry:
    """The carries of many runs, begun one by one, with one count of steps for all."""
    return _counts(carry, lambda count: count[0], lambda leaf: leaf)


def own_steps(carry: Carry, runs: int) -> Carry:
    """The same with a count for each run."""
    return _counts(carry, lambda count: jnp.broadcast_to(count, (runs,)), lambda leaf: leaf)


def _counts(carry: Carry, change: Callable[[Any], Any], keep: Callable[[Any], Any]) -> Carry:
    """A carry with its counts of steps changed: its own, and the method's."""
    leaves, structure = jax.tree.flatten(carry)
    counts = (carry.step, carry.recorded, getattr(carry.state, "count", None), carry.end)
    return structure.unflatten(
        [change(a) if any(a is count for count in counts if count is not None) else keep(a) for a in leaves]
    )


@dataclasses.dataclass(frozen=True)
class Part:
    """A stretch of a run: where it ended, the records made on the way, its seconds."""

    carry: Carry
    step: int
    records: list[dict[str, Any]]
    seconds: float
    end: int  # 0 while the run goes on

    @property
    def is_over(self) -> bool:
        """Whether the run has ended by itself."""
        return self.end != 0


def drive(
    run: Run,
    carry: Carry,
    feed: Feed,
    goals: Sequence[int],
    *,
    each_record: bool = False,
    agree: Callable[[int], int] = int,
) -> Iterator[Part]:
    """Run to the last goal, about STRETCH seconds at a time; with `each_record`, not beyond the next goal.

    The carry is donated: after a part, that part's carry is the run. A record's "seconds" are those since the start,
    within a stretch by its share of the steps. `agree` makes one number of those that several processes have: lengths
    depend on the clock.
    """
    began, step, stretch, end = time.perf_counter(), int(carry.step), FIRST_STRETCH, 0
    while step < goals[-1] and not end:
        place = bisect.bisect_right(goals, step)
        ahead = list(goals[place : place + CAPACITY])
        batches, count = feed.load(carry.position, agree(min(stretch, (ahead[0] if each_record else ahead[-1]) - step)))
        clock = time.perf_counter()
        carry, made = run(carry, batches, _padded(ahead), np.int32(step + count))
        after, why, made = jax.device_get((carry.step, carry.end, made))
        took, end = time.perf_counter() - clock, 0 if why is None else int(why)
        records = []
        for i in range(int(made.count)):
            record = {"step": int(made.steps[i]), **{name: array[i] for name, array in made.values.items()}}
            share = (record["step"] - step) / max(int(after) - step, 1)
            records.append(record | {"seconds": clock - began + share * took})
        step = int(after)
        yield Part(carry, step, records, took, end)
        stretch = max(1, min(16 * stretch, int(STRETCH * count / max(took, 1e-6))))


def prepare(run: Run, carry: Carry, feed: Feed) -> Carry:
    """Compile, and take no step."""
    batches, _ = feed.load(carry.position, 1)
    return jax.block_until_ready(run(carry, batches, _padded([]), np.int32(carry.step))[0])


def _padded(goals: list[int]) -> np.ndarray:
    return np.asarray(goals + [NEVER] * (CAPACITY - len(goals)), np.int32)

"""Many runs at once: seeds, starts and strengths side by side in one compiled loop."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..batch import Batch
from ..problem import Problem
from ..sca import State
from ..tables.shuffle import Shuffle
from .loop import Result, Source, advance, evaluate, whole_number


def train_many(
    method: Any,
    init: Callable[[Array], PyTree] | Any,
    data: Any,
    *,
    keys: Array,
    steps: int,
    batch_size: int = 32,
    validation: Any = None,
    records: int = 10,
) -> Result:
    """`train`, once per key, all runs stepped together by `vmap`: the small factorizations become one batched call.
    A sparse penalty's exact end (`finish`) is left to a run of `train`.

    `method` is one for all runs, or a list with one per run; those may differ in their numbers (strengths, damping,
    sequences), not in their parts. Run i starts from `init(key)` and draws its batches from another key, the two split
    from keys[i]; `net.init` gives every run its own start, `lambda key: params` one start to all. What comes back is a
    Result whose arrays have one entry per run: a leading axis in `params` and `state`, a trailing one in the history.
    """
    runs = _runs(keys)
    whole_number("steps", steps, 1)
    whole_number("batch_size", batch_size, 1)
    whole_number("records", records, 1)
    shared = not isinstance(method, (list, tuple))
    method = method if shared else _stacked(method, runs)
    problem = getattr(method, "problem", None)
    if not isinstance(problem, Problem):
        raise TypeError(f"method must be scax.SCA(...) or scax.baseline(...), or a list of them, got {method!r}.")
    if problem.manifold is not None:
        raise ValueError("train_many does not gather the neighbor pairs of a manifold penalty: use scax.train.")
    if not callable(init):
        raise TypeError(f"init must be a function of a key, such as net.init or lambda key: params, got {init!r}.")
    own = jax.vmap(jax.random.split)(keys)
    first = init(own[0, 0])
    whole = problem.ready(first, data)
    held_out = None if validation is None else problem.ready(first, validation)
    source = Source(whole.x, whole.y, whole.weight, None)

    state = jax.vmap(lambda m, key: m.init(init(key)), in_axes=(None if shared else 0, 0))(method, own[:, 0])
    stream = (jax.vmap(lambda key: Shuffle.start(key, whole.x.shape[0]))(own[:, 1]), None)
    state, stream = jax.tree.map(jnp.array, (state, stream))  # copies: equal parts share memory, and both are donated
    history: dict[str, list] = {}
    chunk = -(-steps // min(records, steps))
    done, began = 0, time.perf_counter()
    while done < steps:
        count = min(chunk, steps - done)
        state, stream, loss, taken = _advance(method, state, stream, source, count, batch_size, shared)
        done += count
        objective, held = _evaluate(method, state, whole, held_out, shared)
        record = {"step": done, "batch_loss": loss / count, "accepted": taken / count, "objective": objective}
        if held is not None:
            record["validation_loss"] = held
        record = jax.tree.map(np.asarray, record) | {"seconds": time.perf_counter() - began}
        for name, value in record.items():
            history.setdefault(name, []).append(value)
    solution = jax.vmap(lambda m, s: m.solution(s), in_axes=(None if shared else 0, 0))(method, state)
    return Result(solution, {k: np.asarray(v) for k, v in history.items()}, state)


@jax.jit(static_argnames=("batch_size", "shared"), donate_argnames=("state", "stream"))
def _advance(method, state, stream, source: Source, count, batch_size: int, shared: bool):
    one = lambda method, state, stream: advance(method, state, stream, source, count, batch_size)
    axes = 0
    if isinstance(state, State):  # all runs are at the same step: what is done at some steps alone stays that rare
        leaves, structure = jax.tree.flatten(state)
        alike = [leaf is state.count for leaf in leaves]
        state = structure.unflatten([leaf[0] if same else leaf for leaf, same in zip(leaves, alike, strict=True)])
        axes = structure.unflatten([None if same else 0 for same in alike])
    run = jax.vmap(one, in_axes=(None if shared else 0, axes, 0), out_axes=(axes, 0, 0, 0))
    state, stream, loss, taken = run(method, state, stream)
    runs = loss.shape
    state = jax.tree.map(lambda leaf: leaf if leaf.ndim else jnp.broadcast_to(leaf, runs), state)
    return state, stream, loss, taken


@jax.jit(static_argnames="shared")
def _evaluate(method, state, whole: Batch, held_out: Batch | None, shared: bool):
    def one(method, state):
        problem, solution = method.problem, method.solution(state)
        held = None if held_out is None else evaluate(problem, solution, held_out, penalty=False)
        return evaluate(problem, solution, whole), held

    return jax.vmap(one, in_axes=(None if shared else 0, 0))(method, state)


def _runs(keys: Array) -> int:
    if not (
        hasattr(keys, "dtype") and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key) and keys.ndim == 1 and len(keys)
    ):
        raise ValueError(
            f"keys must be one random key per run: jax.random.split(jax.random.key(0), runs), got {keys!r}."
        )
    return keys.shape[0]


def _stacked(methods: Sequence[Any], runs: int) -> Any:
    """The methods of all runs as one, each number an array with one entry per run."""
    if len(methods) != runs or len({jax.tree.structure(method) for method in methods}) > 1:
        raise ValueError(
            f"method must be one for all runs, or a list of {runs}, one per key, that differ in numbers only; "
            f"got a list of {len(methods)}."
        )
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *methods)

"""Many runs at once: seeds, starts and strengths side by side in one compiled loop."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .. import checks
from . import engine
from .evaluation import Objective, evaluate
from .feed import Whole, check_one_function, rows_in_memory
from .method import check_method
from .run import Result, spread_goals, watched_rows
from .stopping import Stopping


def train_many(
    method: Any,
    init: Callable[[Array], PyTree] | Any,
    data: Any,
    *,
    keys: Array,
    steps: int,
    batch_size: int | None = 32,
    validation: Any = None,
    records: int | Sequence[int] = 10,
) -> Result:
    """`train`, once per key, all runs stepped together by `vmap`: the small factorizations become one batched call.
    A sparse penalty's exact end (`finish`) is left to a run of `train`.

    `method` is one for all runs, or a list with one per run; those may differ in their numbers (strengths, damping,
    sequences), not in their parts. Run i starts from `init(key)` and draws its batches from another key, the two split
    from keys[i]; `net.init` gives every run its own start, `lambda key: params` one start to all. What comes back is a
    Result whose arrays have one entry per run: a leading axis in `params` and `state`, a trailing one in the history.

    >>> keys = jax.random.split(jax.random.key(0), 3)
    >>> result = scax.train_many(scax.SCA(problem), net.init, (x, y), keys=keys, steps=20)
    >>> result.params[0]["weight"].shape  # one entry per run
    (3, 2, 8)
    """
    runs = _runs(keys)
    checks.whole_number("steps", steps, 1)
    if batch_size is not None:
        checks.whole_number("batch_size", batch_size, 1)
    goals = spread_goals(steps, records)
    shared = not isinstance(method, (list, tuple)) or hasattr(method, "init")  # optax's optimizers are tuples
    method = check_method(method) if shared else _stacked([check_method(one) for one in method], runs)
    problem = method.problem
    check_one_function(problem, "train_many")
    if problem.manifold is not None:
        raise ValueError("train_many does not gather the neighbor pairs of a manifold penalty: use scax.train.")
    if not callable(init):
        raise TypeError(f"init must be a function of a key, such as net.init or lambda key: params, got {init!r}.")
    own = jax.vmap(jax.random.split)(keys)
    first = init(own[0, 0])
    feed = rows_in_memory(problem, first, data, batch_size)
    if isinstance(feed, Whole) and callable(getattr(method, "on_all_rows", None)):
        method = method.on_all_rows()
    unseen = None if validation is None else problem.ready(first, validation)
    watched = watched_rows(feed.data, batch_size, steps, records)

    each = None if shared else 0
    carry = jax.vmap(
        lambda method, start, order: engine.begin(method, method.init(init(start)), feed, feed.start(order)),
        in_axes=(each, 0, 0),
    )(method, own[:, 0], own[:, 1])
    carry = engine.share_steps(carry)
    history: dict[str, list] = {}
    run = engine.run_many(method, shared, Objective(watched, unseen))
    for part in engine.drive(run, carry, feed, goals):
        carry = part.carry
        for record in part.records:
            for name, value in record.items():
                history.setdefault(name, []).append(value)
    carry = engine.own_steps(carry, runs)
    solution = jax.vmap(lambda m, s: m.solution(s), in_axes=(each, 0))(method, carry.state)
    if watched.size < feed.data.size:
        last = jax.vmap(lambda m, s: evaluate(m.problem, s, feed.data), in_axes=(each, 0))(method, solution)
        history["objective"][-1] = np.asarray(last)
    return Result(solution, {k: np.asarray(v) for k, v in history.items()}, carry.state, steps, "steps")


@jax.jit
def start_members(method: Any, params: PyTree, feed: Any, keys: Array, stopping: Stopping, state: Any = None):
    """The carry of several runs, one along each leading axis of method, params, keys and, where given, state."""

    def one(method, params, key, state):
        state = method.init(params) if state is None else jax.tree.map(jnp.copy, state)
        return engine.begin(method, state, feed, feed.start(key), stopping)

    return engine.share_steps(jax.vmap(one)(method, params, keys, state))


def stack(trees: Sequence[Any]) -> Any:
    """Pytrees of one structure as one, each leaf with a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)


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

"""Asynchronous training on Ray: a server holds the state, workers step on copies of it and do not wait for each other.

    worker   copies the state at version v, steps on its own mini-batch (and its share of the blocks), sends the change
    server   takes the change in, damped by its age, unless it is older than `staleness` (see `stale`)
    driver   hands out tickets, one per change wanted; a ticket whose worker died goes to another one, and a new worker
             takes the empty place; a server that died starts again from its last checkpoint

The functions that compute are those of the core; this module moves them about. Ray is the extra `scax[ray]`.
"""

import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .. import checks
from .._extras import required_by
from ..batch import Batch
from ..rules.clock import StepCount
from ..sca import SCA, State, check_sca
from ..storage.checkpoint import load_checkpoint, save_checkpoint
from ..tables.shuffle import Shuffle
from ..training.evaluation import evaluate
from ..training.run import Result
from .stale import Change, change, merge, share_of


@dataclasses.dataclass(frozen=True)
class Crew:
    """What the driver tells a callback: changes taken in so far, the workers and the server (Ray actor handles)."""

    done: int
    workers: list
    server: Any
    deaths: int  # workers and servers replaced so far


class Server:
    """The state, its version, and a checkpoint of both now and then."""

    def __init__(
        self, sca: SCA, state: State, shares: int, staleness: int, patience: float, path, every: int, x64: bool
    ):
        jax.config.update("jax_enable_x64", x64)
        self.sca, self.shares, self.staleness, self.patience = sca, shares, staleness, patience
        self.path, self.every = path, every
        self.counts = {"taken": 0, "refused": 0, "oldest": 0, "age": 0, "loss": 0.0}  # since this server started
        self.state, self.version = jax.tree.map(jnp.asarray, state), 0
        if path is not None and os.path.exists(path):
            self.state, info = load_checkpoint(path, self.state)
            self.version = int(info["version"])

    def fetch(self) -> tuple[State, int]:
        """A copy of the state and its version."""
        return jax.tree.map(np.asarray, self.state), self.version

    def push(self, new: Change, version: int) -> int:
        """Take a change in, unless it is too old; the version after it."""
        age = self.version - version
        if not 0 <= age <= self.staleness:  # below 0: found at a version that was lost with a server
            self.counts["refused"] += 1
            return self.version
        complete = (self.version + 1) % self.shares == 0
        self.state = merge(self.sca, self.state, new, jnp.asarray(age), self.patience, jnp.asarray(complete))
        self.version += 1
        self.counts["taken"] += 1
        self.counts["oldest"] = max(self.counts["oldest"], age)
        self.counts["age"] += age
        self.counts["loss"] += float(new.loss)
        if self.path is not None and self.version % self.every == 0:
            save_checkpoint(self.path, self.state, {"version": self.version})
        return self.version

    def report(self) -> tuple[State, int, dict]:
        return (*self.fetch(), self.counts)


class Worker:
    """All rows, and the steps it is asked for."""

    def __init__(self, sca: SCA, x, y, weight, batch_size: int, seed: Any, x64: bool):
        jax.config.update("jax_enable_x64", x64)
        self.sca, self.rows = sca, tuple(None if a is None else jnp.asarray(a) for a in (x, y, weight))
        start = Shuffle.start(jax.random.wrap_key_data(jnp.asarray(seed)), len(x))

        def gather(rows, ticket):
            """The ticket's own rows: whoever takes it over draws the same."""
            at = ticket * jnp.uint32(batch_size)
            drawn = dataclasses.replace(start, place=at % start.size, epoch=at // start.size).draw(batch_size)[1]
            return tuple(None if a is None else a[drawn] for a in rows)

        self.gather = jax.jit(gather)

    def work(self, server, ticket: int, share: int, shares: int) -> int | None:
        """One change, found and sent; the server's version after it, None where the server has died."""
        import ray
        from ray.exceptions import RayActorError

        try:
            state, version = ray.get(server.fetch.remote())
        except RayActorError:
            return None
        new = change(self.sca, share_of(state, share, shares), Batch(*self.gather(self.rows, jnp.uint32(ticket))))
        try:
            return ray.get(server.push.remote(jax.tree.map(np.asarray, new), version))
        except RayActorError:
            return None


def train_async(
    sca: SCA,
    params: PyTree,
    data: Any,
    *,
    steps: int,
    workers: int = 4,
    batch_size: int = 32,
    staleness: int | None = None,
    patience: float = 4.0,
    key: Array | None = None,
    checkpoint: str | os.PathLike | None = None,
    every: int = 100,
    address: str | None = "local",
    callback: Callable[[Crew], Any] | None = None,
    limit: float = 3600.0,
) -> Result:
    """Train with `workers` that each step on mini-batches of their own, without waiting for each other.

    steps       changes taken in; with blocks each worker moves its share, and all shares once are one iteration
    staleness   changes older than this many versions are thrown away; None: 4 · workers
    patience    a change of age a moves the weights by 1/(1 + a/patience) of it
    checkpoint  the server's file, written every `every` changes; a server that dies, or a later call with the same
                path, goes on from there. Without it a server that dies ends the run.
    address     "local" starts a Ray of its own here, "auto" or "ray://host:port" joins a cluster; a Ray that this
                process has joined already is used as it is, and left running
    callback    sees a Crew after every change
    limit       seconds after which the run is given up

    The history has one entry: changes taken in, their mean and greatest age, how many were refused as too old, and
    deaths; ages and the mean batch loss since the server last started.

    >>> sca = scax.SCA(problem)
    >>> result = scax.train_async(sca, params, (x, y), steps=1000, workers=4)  # doctest: +SKIP
    """
    with required_by("scax.train_async"):
        import ray
    check_sca(sca)
    if sca.clock is None:  # fresh objectives that arrive late and out of order have no trend
        sca = dataclasses.replace(sca, clock=StepCount())
    for name, value in (("steps", steps), ("workers", workers), ("batch_size", batch_size), ("every", every)):
        checks.whole_number(name, value, 1)
    staleness = 4 * workers if staleness is None else staleness
    checks.whole_number("staleness", staleness, 0)
    checks.positive("patience", patience)
    if sca.parallel is not None or sca.problem.manifold is not None:
        raise ValueError("train_async spreads the work itself: leave parallel= and manifold= out.")
    if sca.blocks is not None and (sca.blocks.redraw or sca.blocks.active is not None or sca.blocks.own_batch):
        raise ValueError(
            "train_async gives each worker fixed blocks and its own batch: use Blocks(count, by=...) alone."
        )
    batch = sca.problem.ready(params, data)
    key = jax.random.key(0) if key is None else key
    shares = 1 if sca.blocks is None else min(workers, sca.blocks.count)
    joined = ray.is_initialized()
    if not joined:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anyone unless asked for
        local = {"num_cpus": workers + 1, "include_dashboard": False, "log_to_driver": False}
        ray.init(address=address, **(local if address == "local" else {}))
    try:
        run = _Driver(ray, sca, batch, params, batch_size, key, workers, shares, staleness, patience, checkpoint, every)
        history = run.until(steps, callback, time.monotonic() + limit)
        state = jax.tree.map(jnp.asarray, history.pop("state"))
    finally:
        if not joined:
            ray.shutdown()
    solution = sca.solution(state)
    history["objective"] = float(evaluate(sca.problem, solution, batch))
    return Result(solution, {k: np.asarray([v]) for k, v in history.items()}, state, history["step"], "steps")


class _Driver:
    """Tickets out, versions in, and replacements for the dead."""

    def __init__(self, ray, sca, batch, params, batch_size, key, workers, shares, staleness, patience, path, every):
        self.ray, self.shares, self.path = ray, shares, path
        x64 = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
        whole = [ray.put(sca)] + [
            None if a is None else ray.put(np.asarray(a)) for a in (batch.x, batch.y, batch.weight)
        ]
        start = ray.put(jax.tree.map(np.asarray, sca.init(params)))
        seed = np.asarray(jax.random.key_data(key))
        rule = (shares, staleness, patience, None if path is None else os.fspath(path), every, x64)
        self.new_server = lambda: ray.remote(Server).options(num_cpus=0).remote(whole[0], start, *rule)
        self.new_worker = lambda: ray.remote(Worker).options(num_cpus=1).remote(*whole, batch_size, seed, x64)
        self.server, self.count = self.new_server(), workers
        self.workers: list[Any] = []
        self.deaths = 0

    def until(self, steps: int, callback, deadline: float) -> dict[str, Any]:
        ray = self.ray
        done = ray.get(self.server.report.remote())[1]
        self.workers = [self.new_worker() for _ in range(self.count if done < steps else 0)]
        busy: dict[Any, tuple[int, int]] = {}  # future → (worker's place, ticket)
        idle, ticket, again = list(range(len(self.workers))), done, []
        while done < steps:
            while idle and done + len(busy) < steps:
                place = idle.pop()
                number = again.pop() if again else ticket
                ticket += number == ticket
                future = self.workers[place].work.remote(self.server, number, number % self.shares, self.shares)
                busy[future] = (place, number)
            ready, _ = ray.wait(list(busy), timeout=max(deadline - time.monotonic(), 0.1))
            if not ready:
                raise TimeoutError(
                    f"train_async: {done} of {steps} changes after the limit: raise limit=, or see Ray's logs."
                )
            place, number = busy.pop(ready[0])
            idle.append(place)
            try:
                version = ray.get(ready[0])
            except ray.exceptions.RayActorError:  # its share is taken over by whoever is free next
                self.workers[place] = self.new_worker()
                self.deaths += 1
                again.append(number)
                continue
            if version is None:
                done = self._restart()
                continue
            done = version
            if callback is not None:
                callback(Crew(done, list(self.workers), self.server, self.deaths))
        for future in busy:
            ray.cancel(future, force=False)
        state, done, counts = ray.get(self.server.report.remote())
        merged = max(counts["taken"], 1)
        return {
            "state": state,
            "step": done,
            "batch_loss": counts["loss"] / merged,
            "refused": counts["refused"],
            "oldest": counts["oldest"],
            "age": counts["age"] / merged,
            "deaths": self.deaths,
        }

    def _restart(self) -> int:
        """The version of a living server: the one that is, or a new one at its last checkpoint."""
        ray = self.ray
        try:
            return ray.get(self.server.report.remote())[1]  # another ticket brought it back already
        except ray.exceptions.RayActorError:
            if self.path is None:
                raise RuntimeError(
                    "train_async: the server died and there is no checkpoint to start it from: give checkpoint=PATH."
                ) from None
        self.deaths += 1
        self.server = self.new_server()
        return ray.get(self.server.report.remote())[1]

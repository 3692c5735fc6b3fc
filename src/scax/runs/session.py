"""A run on a table that can be stopped at any moment: its folder always holds a checkpoint to go on from.

start:  read the table → folder made aside with config, schema, environment, first checkpoint → renamed
go:     steps → record to metrics.jsonl → now and then a checkpoint, whole or not at all
end:    model, results (`results.finish`); the checkpoint stays
"""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..batch import Batch
from ..cluster import hosts
from ..problem import Problem
from ..sca import SCA
from ..storage import load_checkpoint, read_info, save_checkpoint, write_text
from ..storage.run_files import (
    CHECKPOINT,
    ENVIRONMENT,
    FOLDS,
    METRICS,
    PATH,
    PREPROCESS,
    RESULTS,
    SCHEMA,
    PathSummary,
    read_environment,
    read_metrics,
    read_path,
    read_preprocess,
    table_digest,
)
from ..storage.run_folder import FORMAT, RunFolderError, aside, environment, write_json
from ..tables import Preprocess, Table, open_table
from ..training import engine
from ..training.evaluation import Objective, outputs
from ..training.feed import Shards
from ..training.scores import SCORES, score
from ..training.stopping import Best, Stopping
from ..training.strength import MOST_ROWS, choose_strength, count_used, describe_path, set_aside
from . import config as configs
from . import recipe
from .checks import check_folder, check_info, check_sizes
from .config import TrainConfig
from .problem import loss_of, network, penalty
from .reading import HELD_OUT, SHARDS, Data, read

RECORDS = 100
WATCHED = 8192  # training rows the objective is measured on


class Session:
    """A run in its folder."""

    def __init__(self, folder: Path, config: TrainConfig, data: Data):
        self.folder, self.config, self.data = folder, config, data
        schema = data.preprocess.schema
        self.net = network((schema.width, *config.hidden, schema.outputs), config.activation)
        loss = loss_of(data)
        params = self._first()
        self.path: PathSummary | None = read_path(folder) if config.strength else None
        self.problem = Problem(self.net.apply, loss, penalty(config, params, self.strength))
        parallel = hosts.parallel(self.problem.regularizer)
        self.method = SCA(self.problem, parallel=parallel)
        self.place = (lambda tree: tree) if parallel is None else parallel.place
        self.feed = data.feed if parallel is None else data.feed.spread(parallel)
        self.measure = self._measure()
        self._begin(params)
        self.step, self.seconds = 0, 0.0
        self.goals = goals(config.steps)
        self.unit = data.preprocess.target_scale

    def _first(self) -> Any:
        """The network to start from, drawn from the seed."""
        return self.net.init(jax.random.split(jax.random.key(self.config.seed))[0])

    def _measure(self) -> Objective:
        """What a record measures: U on some training rows, the loss on some of those held out."""
        validation = None
        if self.data.held_out is not None:
            x, y = (jnp.asarray(part[:HELD_OUT]) for part in self.data.held_out)
            validation = self.place(Batch(x, y))
        return Objective(self.feed.sample(WATCHED), validation)

    def _begin(self, params: Any) -> None:
        """Before the first step, from these params."""
        order = jax.random.split(jax.random.key(self.config.seed))[1]
        # without rows held out there is nothing to choose by: the last solution stays the best
        stopping = Stopping(0.0, np.inf, self.measure.validation is not None and self.config.keep == "best")
        self.stopping: Stopping = self.place(stopping)
        self.carry = self.place(engine.start(self.method, params, self.feed, order, stopping=self.stopping))

    @property
    def strength(self) -> float | None:
        """Of --penalty, chosen on the path; None where nothing is to be chosen, or not yet."""
        return None if self.path is None else self.path["strengths"][self.path["chosen"]]

    @property
    def undecided(self) -> bool:
        """Whether `choose` must be called before `go`."""
        return self.config.strength == "auto" and self.path is None

    def choose(self, on_record: Callable[[dict[str, Any]], Any], should_stop: Callable[[], bool]) -> bool:
        """Choose the strength of --penalty and write path.json; False, and nothing is written, if `should_stop()`.

        It is chosen on the training rows alone, and anew by a run that is resumed before it is known. The run goes on
        from the network of that strength on the path.
        """
        params = self._first()
        unit = dataclasses.replace(self.problem, regularizer=penalty(self.config, params))

        def watch(record: dict[str, Any]) -> bool:
            on_record(record)
            return should_stop()

        config, rows = self.config, self.feed.sample(MOST_ROWS)
        path = choose_strength(
            unit,
            params,
            *set_aside(rows, config.seed),
            on_record=watch,
            agreed=hosts.agree,
            count=lambda params: count_used(self.net, params)["weights"],
            steps=max(20, config.steps // 10),
            batch_size=config.batch_size,
            key=jax.random.key(config.seed),
        )
        if hosts.agree(should_stop()):
            return False
        names = list(self.data.preprocess.schema.features)
        self._begin(path.solution)
        self.save()  # before the path: a run that has its path goes on from its checkpoint
        if hosts.first():
            write_json(self.folder / PATH, describe_path(path, self.net) | {"penalty": config.penalty, "names": names})
        hosts.meet()
        self.path = read_path(self.folder)  # process 0's, and its network: others may differ in rounding
        regularizer = penalty(self.config, params, self.strength)
        self.problem = dataclasses.replace(self.problem, regularizer=regularizer)
        self.method = dataclasses.replace(self.method, problem=self.problem)
        self.restore()
        return True

    def step_cost(self) -> str:
        """What a step solves, and how many multiplications that takes."""
        x = np.zeros((self.config.batch_size, self.net.widths[0]), np.float32)
        lines = self.method.explain(engine.solution(self.method, self.carry.state), x).splitlines()
        end = {"curvature": ": ", "solver": ", largest"}  # before reasons and sizes
        return "; ".join(line.split(end[word])[0] for line in lines if (word := line.partition(" ")[0]) in end)

    @property
    def weights(self) -> int:
        return int(self.carry.state.w.shape[0])

    @property
    def best(self) -> Best:
        """The solution with the least loss on the rows held out, or the last."""
        assert self.carry.best is not None  # a session's run has a Stopping
        return self.carry.best

    @property
    def keep(self) -> str:
        """Which solution becomes the model: the "best" on the rows held out, or the "last"."""
        by_validation = bool(self.stopping.by_validation) and bool(jnp.isfinite(self.best.value))
        return "best" if by_validation else "last"

    def save(self) -> None:
        """A checkpoint from which the run goes on as if it had not stopped."""
        if not hosts.first():
            return
        info = {"step": self.step, "seconds": self.seconds, "digest": self.data.digest}
        save_checkpoint(self.folder / CHECKPOINT, self.carry, info, follow=False)

    def restore(self) -> None:
        """Back to the folder's checkpoint; later lines of metrics.jsonl are dropped, they will be written again."""
        carry, info = load_checkpoint(self.folder / CHECKPOINT, self.carry)
        check_info(self.folder, info, self.config, self.data.digest)
        self.carry = self.place(carry)
        self.step, self.seconds = info["step"], float(info["seconds"])
        if not hosts.first():
            return
        records = [r for r in read_metrics(self.folder) if r["step"] <= self.step]
        write_text(self.folder / METRICS, "".join(json.dumps(r) + "\n" for r in records), follow=False)

    def lengthen(self) -> None:
        """Make the folder one of a run of more steps; its model stays until there is another. Scores of folds go: they
        are those of networks of fewer steps."""
        if hosts.first():
            for file in (RESULTS, FOLDS):
                (self.folder / file).unlink(missing_ok=True)
            write_text(self.folder / configs.FILE, configs.to_toml(dataclasses.asdict(self.config)), follow=False)

    def go(
        self,
        on_record: Callable[[dict[str, Any]], Any],
        on_step: Callable[[int], Any],
        should_stop: Callable[[], bool],
        save_every: float,
    ) -> bool:
        """Train to the end, or until `should_stop()`; True at the end.

        `on_record` sees each record, `on_step` the step after each stretch of steps. A stretch takes about a quarter of
        a second, and neither its length nor the moment of a checkpoint changes the result.
        """
        run = engine.run(self.method, self.measure, self.stopping)
        self.carry = engine.prepare(run, self.carry, self.feed)  # compiles before the clock starts
        saved = time.monotonic()
        with open(self.folder / METRICS if hosts.first() else os.devnull, "a", encoding="utf-8") as metrics:
            parts = engine.drive(run, self.carry, self.feed, self.goals, each_record=True, agree=hosts.agree)
            for part in parts:
                self.carry, self.step = part.carry, part.step
                self.seconds += part.seconds
                for record in part.records:
                    record = self._record(record)
                    metrics.write(json.dumps(record) + "\n")
                    metrics.flush()
                    on_record(record)
                on_step(self.step)
                halt = hosts.agree(should_stop())
                if halt or self.step == self.config.steps or time.monotonic() - saved > save_every:
                    if hosts.first():
                        os.fsync(metrics.fileno())
                    self.save()
                    saved = time.monotonic()
                if halt and self.step < self.config.steps:
                    return False
        return True

    def _record(self, measured: dict[str, Any]) -> dict[str, Any]:
        """A line of metrics.jsonl."""
        solution = engine.solution(self.method, self.carry.state)
        record = {name: float(value) for name, value in measured.items() if name not in ("step", "seconds")}
        record = {"step": self.step, "seconds": round(self.seconds, 4), **record}
        if not self.problem.regularizer.is_smooth:
            record |= self.counts(solution)
        return plain(record | self.score(solution))

    def counts(self, solution: Any) -> dict[str, int]:
        """How many weights and neurons are in use."""
        used = count_used(self.net, solution)
        return {"weights_kept": used["weights"], "neurons_kept": used["neurons"]}

    def score(self, solution: Any) -> dict[str, float]:
        """The task's score on rows held out, by its name; nothing where there are none."""
        if self.data.held_out is None:
            return {}
        task, (x, y) = self.data.task, (part[:HELD_OUT] for part in self.data.held_out)
        return {SCORES[task].name: score(task, self.outputs(solution, x), y, self.unit)}

    def outputs(self, solution: Any, x: np.ndarray) -> np.ndarray:
        """Raw outputs [n, k]."""
        return np.asarray(outputs(self.problem, solution, jnp.asarray(x)))


def start(
    folder: Path,
    config: TrainConfig,
    table: Table,
    preprocess: Preprocess,
    command: str,
    auto: Collection[str] = (),
    say: Callable[[str], object] = lambda text: None,
    fold: int = 0,
) -> Session:
    """Make the run folder, with a checkpoint at step 0 in it: from the moment it is there, it can be resumed.

    The recipe decides the options named in `auto`; `say` is told where that takes time. The rows of a `fold` are left
    out, to be tested on.
    """
    with aside(folder) as working:
        config = recipe.decided(config, preprocess, auto)
        data = read(config, table, preprocess, working, fold)
        if recipe.is_searched(config, auto, data.rows):
            say(f"Choosing the strength of the L2 penalty on {len((data.held_out or ((),))[0]):,} rows held out …")
            schema = preprocess.schema
            net = network((schema.width, *config.hidden, schema.outputs), config.activation)
            config = dataclasses.replace(config, l2=recipe.find_l2(config, data, net, loss_of(data)))
        session = Session(working, config, data)
        write_text(working / configs.FILE, configs.to_toml(dataclasses.asdict(config)))
        write_json(working / ENVIRONMENT, {"format": FORMAT, "command": command, **environment()})
        write_json(working / PREPROCESS, preprocess.to_json())
        write_json(working / SCHEMA, preprocess.schema.to_json())
        write_text(working / METRICS, "")
        session.save()
    session.folder = folder
    if isinstance(session.feed, Shards):
        session.feed.move(folder / SHARDS)
    return session


def resume(folder: Path, steps: int | None = None) -> Session:
    """The run of a folder, where its checkpoint left it; with `steps`, as a run of so many (see `Session.lengthen`)."""
    check_folder(folder)
    read_environment(folder)
    config, preprocess = configs.load(folder / configs.FILE), read_preprocess(folder)
    schema = preprocess.schema
    check_sizes(folder, (schema.width, *config.hidden, schema.outputs))
    table = open_table(config.table, header=config.header, encoding=config.encoding)
    info = read_info(folder / CHECKPOINT)
    check_info(folder, info, config, table_digest(config.table))
    if steps is not None:
        if steps <= info["step"]:
            raise RunFolderError(f"{folder} is at step {info['step']:,}: --steps {steps:,} is not beyond it.")
        config = dataclasses.replace(config, steps=steps)
    session = Session(folder, config, read(config, table, preprocess, folder))
    session.restore()
    return session


def goals(steps: int) -> list[int]:
    """The steps at which a record is written: a hundred evenly spaced, and a dozen before the first of them."""
    every = -(-steps // min(RECORDS, steps))
    early = np.round(np.geomspace(1, every, 12)).astype(int).tolist()
    return sorted({*early, *range(every, steps, every), steps})


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """For JSON: None where a number is not finite."""
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in record.items()}

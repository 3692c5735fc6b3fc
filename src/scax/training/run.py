"""`train`: one run of a method on rows in memory, or on a feed of your own."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from .. import checks
from ..batch import Batch, TermBatch
from ..status import Status
from . import engine
from .evaluation import Objective, evaluate, spread_rows, term_losses, term_weights
from .feed import Whole, is_feed, rows_in_memory
from .finish import finish as sparse_end
from .method import check_method, for_all_rows, for_fresh_points, solves_prox
from .term_feed import TermFeed, term_feed

#: Rows on which the objective is measured, at least, at a record that is not the last.
WATCHED = 512
#: Steps refused in a row, as far as records show, that are worth a warning.
MANY_REFUSED = 10
#: Rows of a feed on which a run ends.
MOST_ROWS = 65_536


@dataclasses.dataclass(frozen=True)
class Result:
    """`params` is what to deploy; `history` maps names to arrays, one entry per record; `state` can be trained on.

    `steps` were taken; `status` says why no more: "steps" (all that were asked for), "callback" (it returned True), or,
    with all rows in every step, "converged" (the gradient is zero for what the precision can tell) or
    "precision_reached" (steps no longer lower the objective by what rounding shows: float64 may go on).

    >>> result = scax.train(scax.SCA(problem), params, (x, y), steps=20)
    >>> result.steps, result.status, "objective" in result.history
    (20, 'steps', True)
    """

    params: PyTree
    history: dict[str, np.ndarray]
    state: Any
    steps: int
    status: str


def train(
    method: Any,
    params: PyTree,
    data: Any,
    *,
    steps: int,
    batch_size: int | Mapping[str, int] | None = 32,
    key: Any = None,
    validation: Any = None,
    unlabeled: Any = None,
    records: int | Sequence[int] = 100,
    callback: Callable[[dict[str, float]], Any] | None = None,
    state: Any = None,
    finish: int | None = None,
) -> Result:
    """Train `params` with a method (`SCA`, `baseline`, or one of your own) on data (x, y) or (x, y, weight), or a feed.

    Batches go through the rows epoch by epoch, in an order drawn from `key`; batch_size=None, or as many
    as there are, takes all rows in every step, which makes SCA's steps Levenberg–Marquardt's and ends the run where
    nothing is left to gain. At about
    `records` evenly spaced steps the history gets the step, seconds, averages of what the steps since the last record
    reported (the batch loss, whether SCA's steps were accepted, …), the objective U on training rows and, given
    `validation`, the average loss there, both for the solution that would be deployed then. U is measured on no more
    rows than the steps between two records have seen, 512 at least, and at the end on all; with `records` a list of
    steps, always on all. `callback` sees each record as a dict; if it returns True, training stops there.
    `unlabeled` rows take part in a manifold penalty.

    Of a problem of terms, `data` are a dictionary: for each term rows (x, y), x alone (targets zero), or a function of
    a key that draws either anew at every step, inside the compiled loop. `batch_size` may be a dictionary too; tables
    it does not name give all rows. The history has a column for each term: its average loss, without its weight.

    With a nonsmooth penalty SCA takes `finish` more steps on all rows (`scax.finish`; 0: none), so that weights which
    have shrunk towards zero are 0.0 in `Result.params`; `Result.state` is as before them.

    >>> result = scax.train(scax.SCA(problem), params, (x, y), steps=20)
    >>> bool(result.history["objective"][-1] < result.history["objective"][0])
    True
    >>> result = scax.train(scax.SCA(problem), params, (x, y), steps=200, batch_size=None)  # all rows: ends by itself
    >>> result.status in ("converged", "precision_reached")
    True
    """
    method = check_method(method)
    checks.whole_number("steps", steps, 1)
    if batch_size is not None and not isinstance(batch_size, Mapping):
        checks.whole_number("batch_size", batch_size, 1)
    if finish is not None:
        checks.whole_number("finish", finish, 0)
    goals = spread_goals(steps, records)
    problem = method.problem
    if problem.names and not is_feed(data):
        feed = term_feed(problem, params, data, batch_size)
        whole = problem.conform(params, feed.sample(MOST_ROWS), problem.layout(params).dtype(params))
    elif isinstance(batch_size, Mapping):
        raise TypeError("batch_size by name belongs to a problem of terms: scax.Problem({name: scax.Term(apply)}).")
    else:
        feed = data if is_feed(data) else rows_in_memory(problem, params, data, batch_size, unlabeled)
        whole = feed.sample(MOST_ROWS) if is_feed(data) else dataclasses.replace(feed.data, pairs=None)
    watched = whole if problem.manifold is not None else watched_rows(whole, batch_size, steps, records)
    unseen = None if validation is None else problem.ready(params, validation)
    if isinstance(unseen, Batch):
        unseen = dataclasses.replace(unseen, pairs=None)
    key = jax.random.key(0) if key is None else key
    checks.random_key(key)

    until = None
    if isinstance(feed, Whole) or (isinstance(feed, TermFeed) and feed.is_whole):
        method, until = for_all_rows(method, params, state)
    elif isinstance(feed, TermFeed) and feed.is_fresh:
        method = for_fresh_points(method, params, feed.rows, state)
    carry = engine.start(method, params, feed, key, state=state, until=until)
    history: dict[str, list[float]] = {}
    run, done, status = engine.run(method, Objective(watched, unseen), until=until), 0, "steps"
    recorded = refused = most_refused = 0
    for part in engine.drive(run, carry, feed, goals, each_record=callback is not None):
        carry, done, status = part.carry, part.step, Status(part.end).name.lower() if part.end else "steps"
        for record in part.records:
            record = {name: value if name == "step" else float(value) for name, value in record.items()}
            for name, value in record.items():
                history.setdefault(name, []).append(value)
            refused = refused + record["step"] - recorded if record.get("accepted") == 0 else 0
            recorded, most_refused = record["step"], max(most_refused, refused)
            if callback is not None and callback(record) is True:
                status = "callback"
        if status == "callback":
            break
    solution = engine.solution(method, carry.state)
    if watched.size < whole.size:
        weights = term_weights(method, carry.state)
        history["objective"][-1] = float(evaluate(problem, solution, whole, weights=weights))
        if isinstance(whole, TermBatch):
            for name, value in term_losses(problem, solution, whole).items():
                history[name][-1] = float(value)
    if solves_prox(method) and finish != 0:
        solution = sparse_end(problem, solution, whole, steps=finish)
    if most_refused >= min(MANY_REFUSED, steps) and status in ("steps", "callback"):
        reason = problem.singular_slope(solution, whole) if isinstance(whole, TermBatch) else None
        remedy = (
            "see info.status of a step for the reason and its remedy. Standardize x and y, raise damping=, or compute "
            "in float64 (jax.config.update('jax_enable_x64', True))."
        )
        warnings.warn(
            f"not one of {most_refused:,} steps in a row was taken: {reason or remedy}", RuntimeWarning, stacklevel=2
        )
    first = whole.parts[0] if isinstance(whole, TermBatch) else whole
    checks.warn_not_finite(history["objective"][-1], done, first.x, first.y)
    return Result(solution, {k: np.asarray(v) for k, v in history.items()}, carry.state, done, status)


def watched_rows(whole: Any, batch_size: Any, steps: int, records: int | Sequence[int]) -> Any:
    """The rows on which the objective is measured: a record costs less than the steps before it."""
    if batch_size is None or isinstance(batch_size, Mapping) or not isinstance(records, (int, np.integer)):
        return whole
    return spread_rows(whole, max(WATCHED, batch_size * (steps // min(records, steps))))


def spread_goals(steps: int, records: int | Sequence[int]) -> list[int]:
    """The steps at which a record is made: about `records` of them, evenly spaced, or those given; the last is one."""
    if isinstance(records, (int, np.integer)) or not isinstance(records, (Sequence, np.ndarray)):
        checks.whole_number("records", records, 1)
        every = -(-steps // min(records, steps))
        return [*range(every, steps, every), steps]
    for step in records:
        checks.whole_number("a step of records", step, 1)
        if step > steps:
            raise ValueError(f"records has step {step}, beyond the last of {steps}: leave it out, or raise steps.")
    return sorted({*map(int, records), steps})

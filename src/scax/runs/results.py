"""The end of a run: its model, and its results on rows that it was not trained on."""

import dataclasses
from typing import Any

import jax
import numpy as np

from ..cluster import hosts
from ..storage import save
from ..storage.error_bars import ErrorBars
from ..storage.run_files import METRICS, MODEL, RESULTS, read_metrics
from ..storage.run_folder import FORMAT, RunFolderError, write_json
from ..training import engine
from ..training.evaluation import evaluate
from ..training.finish import finish as end_with_zeros
from ..training.scores import SCORES
from ..training.strength import count_used
from . import scoring, uncertainty
from .reading import HELD_OUT
from .session import Session, plain

SHOWN = 2000  # rows held out whose outputs a report shows
FINISHED = 65_536  # training rows on which a sparse run ends


def finish(session: Session) -> dict[str, Any]:
    """Write the model and the results."""
    hosts.meet()  # all records are written
    data, problem, folder, keep = session.data, session.problem, session.folder, session.keep
    records = read_metrics(folder)
    solution = _solution(session)
    if not records or records[-1]["step"] != session.step:
        raise RunFolderError(f"{folder / METRICS} has no record of step {session.step:,}. Restore it, or run again.")
    final = records[-1]
    if keep == "best":
        final = min(records, key=lambda r: np.inf if r.get("validation_loss") is None else r["validation_loss"])
    if not problem.regularizer.is_smooth:
        final = final | session.counts(solution) | _scores(session, solution)  # of the network with its zeros
    parts = {"validation": data.held_out, "test": data.test}
    results: dict[str, Any] = {
        "format": FORMAT,
        "kind": "train",
        "task": data.task,
        "score": dataclasses.asdict(SCORES[data.task]),
        "network": list(session.net.widths),
        "weights": session.weights,
        "sparsity": count_used(session.net, solution),
        "rows": {"train": data.rows} | {name: 0 if part is None else len(part[0]) for name, part in parts.items()},
        "kept": keep,
        "final": final,
    }
    if session.path is not None:
        results["path"] = session.path
    if (rows := data.test or data.held_out) is not None:
        results |= _assessment(session, solution, *rows)
    bars = _error_bars(session, solution)
    if rows is not None and bars is not None:
        results |= _calibration(session, bars, solution, *rows)
    if not hosts.first():
        return results
    name = SCORES[data.task].name
    info = {"step": final["step"], "score": {name: final.get(name)}}
    save(
        folder / MODEL,
        session.net,
        solution,
        loss=problem.loss,
        preprocess=data.preprocess,
        info=info,
        posterior=bars,
        follow=False,
    )
    write_json(folder / RESULTS, results)
    return results


def test_scores(session: Session) -> dict[str, Any]:
    """Scores on the rows that nothing was chosen by."""
    assert session.data.test is not None
    x, y = session.data.test
    return scoring.scores(session.data.preprocess, session.outputs(_solution(session), x), y)


def _solution(session: Session) -> Any:
    """The weights to keep."""
    solution = session.best.params if session.keep == "best" else engine.solution(session.method, session.carry.state)
    # exact zeros where the penalty makes them; on a sample of the rows where they are streamed
    return end_with_zeros(session.problem, solution, session.feed.sample(FINISHED))


def _scores(session: Session, solution: Any) -> dict[str, Any]:
    """Objective, loss and score of a network that no record has seen."""
    problem, measure = session.problem, session.measure
    scores = {"objective": float(evaluate(problem, solution, measure.rows))}
    if measure.validation is not None:
        scores["validation_loss"] = float(evaluate(problem, solution, measure.validation, penalty=False))
    return plain(scores | session.score(solution))


def _assessment(session: Session, solution: Any, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Outputs and truth of some rows held out; scores and importance of columns, if nothing was chosen by them."""
    pre, z = session.data.preprocess, session.outputs(solution, x)
    shown, truth = (z, y) if pre.schema.target.classes else (pre.restore(z)[:, None], pre.restore(y))
    results: dict[str, Any] = {
        "outputs": np.round(shown[:SHOWN].astype(float), 6).tolist(),
        "truth": np.round(truth[:SHOWN].astype(float), 6).tolist(),
        "importance": scoring.importance(pre, lambda rows: session.outputs(solution, rows), x, y),
    }
    if session.data.test is None:
        return results
    sample = session.feed.sample(HELD_OUT)
    if (line := scoring.linear_scores(pre, (np.asarray(sample.x), np.asarray(sample.y)), x, y)) is not None:
        results["linear"] = line
    return results | {"test": scoring.scores(pre, z, y)}


def _error_bars(session: Session, solution: Any) -> ErrorBars | None:
    """What the model says of its own uncertainty, calibrated by the rows held out; None where rows allow none."""
    if jax.process_count() > 1:
        return None  # no process has all rows
    rows, held_out = session.feed.sample(uncertainty.MOST_ROWS), session.data.held_out
    bars = uncertainty.of_run(session.problem, session.net, solution, rows, held_out, session.data.rows)
    return None if isinstance(bars, str) else bars


def _calibration(session: Session, bars: ErrorBars, solution: Any, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """How the error bars did on rows held out."""
    pre, x, y = session.data.preprocess, x[:HELD_OUT], y[:HELD_OUT]
    if not pre.schema.target.classes:
        return {"intervals": uncertainty.intervals(bars, pre, x, y, SHOWN)}
    probabilities = scoring.probabilities(session.outputs(solution, x))
    return {"calibration": uncertainty.calibration(bars, probabilities, x, y)}

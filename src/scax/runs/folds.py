"""Cross-validation: networks trained without a fold of the rows each, and scored on it."""

import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from . import session as sessions
from .config import TrainConfig
from .reading import survey
from .results import test_scores


def scores(
    config: TrainConfig,
    auto: Collection[str],
    on_fold: Callable[[int, dict[str, Any]], object],
    should_stop: Callable[[], bool],
    folder: Path,
) -> list[dict[str, Any]] | None:
    """Scores on every fold, each by a run of its own; None if `should_stop()`.

    All is learned anew: the schema's statistics, the strengths and the best step see no row of the fold. What a network
    needs on disk is in the run's `folder` while it is trained.
    """
    found = []
    for fold in range(1, config.folds + 1):
        with tempfile.TemporaryDirectory(".part", ".fold-", folder) as place:
            table, preprocess = survey(config, fold=fold)
            session = sessions.start(Path(place) / "run", config, table, preprocess, "", auto, fold=fold)
            if session.undecided and not session.choose(lambda record: None, should_stop):
                return None
            if not session.go(lambda record: None, lambda step: None, should_stop, float("inf")):
                return None
            found.append(test_scores(session))
        on_fold(fold, found[-1])
    return found


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The scores of all folds, their means, and the deviations between folds."""
    numbers = {name: [each[name] for each in found] for name, value in found[0].items() if isinstance(value, float)}
    numbers = {name: values for name, values in numbers.items() if None not in values}
    return {
        "folds": found,
        "mean": {name: float(np.mean(values)) for name, values in numbers.items()},
        "deviation": {name: float(np.std(values, ddof=1)) for name, values in numbers.items()},
    }

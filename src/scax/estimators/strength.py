"""How strong the penalty should be: networks trained side by side, judged by rows held out."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..training.feed import EqualBatches
from ..training.stopping import Stopping
from .trainer import Trainer

#: Strengths that are tried at once: four decades, and the four beyond them while the best is at an end.
FIRST, LEAST, MOST = -5, -9, 3
AT_ONCE = 4
#: Rows that take part in the search at most, and the fraction of them that is held out where the fit holds out none.
#: The right strength falls with the number of rows: one found on some of them would be too strong for all.
MOST_ROWS, FRACTION = 65_536, 0.25
#: Rows that take part in a path of sparse networks at most, and steps for each strength (the first takes four times).
MOST_PATH_ROWS, PATH_STEPS = 4096, 100
#: Steps on all rows that end the training of each strength with exact zeros: the fit itself takes as many as it needs.
PATH_FINISH = 5
#: Steps for one trial, within limits to its epochs.
STEPS, FEWEST_PASSES, MOST_PASSES = 96, 6, 24
#: Rows in all the parts that are held out in turn, about, and those parts at most.
REPEATED_ROWS, MOST_REPEATS = 2000, 5


def repeats(rows: int) -> int:
    """How many times rows are held out: more often where they are few."""
    return int(np.clip(REPEATED_ROWS // rows, 1, MOST_REPEATS))


def passes(rows: int, batch_size: int) -> int:
    """Epochs for one trial."""
    return int(np.clip(STEPS * batch_size // rows, FEWEST_PASSES, MOST_PASSES))


def trials(
    trainer: Trainer,
    start: dict,
    splits: Sequence[Sequence[EqualBatches]],
    stopping: Stopping,
    epochs: int,
    seed: np.uint32,
    say: Callable[[str], object] = lambda text: None,
) -> Callable[[np.ndarray], np.ndarray]:
    """A function of strengths: the loss on rows held out, of networks trained side by side from one start, added up
    over the splits (rows to train on, rows held out)."""

    def trial(strengths: np.ndarray) -> np.ndarray:
        say(f"searching alpha from {strengths[0]:.0e} to {strengths[-1]:.0e} …")
        total = np.zeros(len(strengths))
        for feed, held in splits:
            starts, goals = [start] * len(strengths), feed.epochs(epochs)[-1:]
            *_, last = trainer.epochs(starts, strengths, feed, held, stopping, goals, seed)
            total += np.asarray(last.records[-1]["validation_loss"])
        losses = ", ".join(f"{a:.0e}: {v:.5g}" for a, v in zip(strengths, total / len(splits), strict=True))
        say(f"loss on rows held out by alpha: {losses}")
        return total

    return trial


def search(trial: Callable[[np.ndarray], np.ndarray]) -> float:
    """The strength with the least loss: the best decade, which its neighbors must show to be one, then the vertex of
    the parabola through the three, at most half a decade away. `trial` gives the losses of four strengths."""
    losses: dict[int, float] = {}

    def try_from(decade: int) -> None:
        found = trial(10.0 ** np.arange(decade, decade + AT_ONCE))
        losses.update({decade + i: float(v) if np.isfinite(v) else np.inf for i, v in enumerate(found)})

    try_from(FIRST)
    while (best := min(losses, key=lambda decade: (losses[decade], -decade))) in (min(losses), max(losses)):
        if best in (LEAST, MOST - 1):
            warnings.warn(
                f"the search for alpha ended at its edge, 1e{best}: give alpha, and look at what y depends on.",
                ConvergenceWarning,
                stacklevel=4,
            )
            return 10.0**best
        try_from(best - AT_ONCE if best == min(losses) else best + 1)
    left, middle, right = (losses[best + i] for i in (-1, 0, 1))
    bend = left - 2 * middle + right
    shift = (left - right) / (2 * bend) if np.isfinite(bend) and bend > 0 else 0.0
    return float(10.0 ** (best + shift))

"""alpha="auto": how strong the penalty should be, judged on rows that are held out."""

from collections.abc import Callable

import numpy as np

#: Decades of strength, tried from the middle outwards.
STRENGTHS = 10.0 ** np.arange(-6, 1)
FIRST = 4
#: Rows that take part in the search at most, and the fraction of them that is held out. The right strength falls with
#: the number of rows: one found on some of them would be too strong for all.
MOST_ROWS, FRACTION = 32_768, 0.25
#: Rows that take part in a path of sparse networks at most, and steps for each strength (the first takes four times).
MOST_PATH_ROWS, PATH_STEPS = 4096, 100
#: Steps for one trial, if that is neither less than 6 epochs nor more than 24: short trials favor weak penalties.
STEPS = 96


def repeats(rows: int) -> int:
    """How many times rows are held out: more often where they are few."""
    return int(np.clip(200 // rows, 1, 3))


def passes(rows: int, batch_size: int) -> int:
    """Epochs for one trial."""
    return int(np.clip(STEPS * batch_size // rows, 6, 24))


def climb(trial: Callable[[float], float]) -> float:
    """The strength with the smallest trial(strength): downhill from the middle of the list to a decade better than its
    neighbors, then to the vertex of the parabola through the three, at most half a decade away."""
    values: dict[int, float] = {}

    def value(i: int) -> float:
        if i not in values:
            values[i] = trial(float(STRENGTHS[i])) if 0 <= i < len(STRENGTHS) else np.inf
        return values[i]

    here = FIRST
    while (there := min(here, here + 1, here - 1, key=value)) != here:
        here = there
    left, middle, right = value(here - 1), value(here), value(here + 1)
    bend = left - 2 * middle + right
    shift = (left - right) / (2 * bend) if np.isfinite(bend) and bend > 0 else 0.0
    return float(STRENGTHS[here] * 10**shift)

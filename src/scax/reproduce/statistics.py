"""Means, spreads and paired differences of repetitions."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Spread(NamedTuple):
    """Mean ± standard deviation over the repetitions, as the paper prints them."""

    mean: float
    sd: float


class Difference(NamedTuple):
    """A mean difference over repetitions and half its 95% interval, twice.

    `half` is Student's: it speaks of these data, and of other splits and starts on them. The repetitions' training
    sets overlap, so for other data of the same kind the variance is larger: `corrected` multiplies the 1/n of the
    variance of the mean by (1 + n · test/train rows) (Nadeau and Bengio, 2003).
    """

    mean: float
    half: float
    corrected: float

    @property
    def verdict(self) -> int:
        """1: the difference is positive, −1: negative, 0: the interval contains zero, or is unknown."""
        return 0 if not abs(self.mean) > self.half else int(math.copysign(1, self.mean))

    @property
    def robust(self) -> bool:
        """Whether the verdict holds with the corrected interval too."""
        return bool(self.verdict and abs(self.mean) > self.corrected)


def numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if v is None else v for v in values], float)


def spread(values: Sequence[float | None]) -> Spread:
    array = numbers(values)
    return Spread(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else math.nan)


def difference(these: Sequence[float | None], those: Sequence[float | None] | float, ratio: float) -> Difference:
    """These less those, repetition by repetition (or less one number); `ratio` is test rows over training rows."""
    gap = numbers(these) - (those if isinstance(those, (int, float)) else numbers(those))
    n = len(gap)
    if n < 2:
        return Difference(float(gap.mean()), math.inf, math.inf)
    from scipy.special import stdtrit

    quantile, sd = float(stdtrit(n - 1, 0.975)), float(gap.std(ddof=1))
    return Difference(float(gap.mean()), quantile * sd / math.sqrt(n), quantile * sd * math.sqrt(1 / n + ratio))


def less_printed(values: Sequence[float | None], mean: float, sd: float, n: int = 100) -> Difference:
    """The mean of our repetitions less a printed one, of which only mean and spread over n repetitions are known."""
    ours = spread(values)
    count = len(values)
    if count < 2:
        return Difference(ours.mean - mean, math.inf, math.inf)
    from scipy.special import stdtrit

    half = float(stdtrit(count - 1, 0.975)) * math.sqrt(ours.sd**2 / count + sd**2 / n)
    return Difference(ours.mean - mean, half, half)

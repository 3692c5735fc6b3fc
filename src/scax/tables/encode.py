"""How columns become the network's inputs: numbers scaled, clipped, placed in bins; levels one by one. NumPy alone.

    z = (v − center)/scale,   clipped smoothly: z/√(1 + (z/LIMIT)²)        center: median, scale: distance of quartiles
    bins with edges e₀ < … < e_B (quantiles):   clip((v − e_{b−1})/(e_b − e_{b−1}), 0, 1) − ½   for b = 1 … B

The bins are a piecewise linear function's basis: the first layer sees steps and bends in one column without having to
learn them (Gorishniy et al. 2022).
"""

import dataclasses
import functools

import numpy as np

#: "standard": mean 0 and deviation 1; "clipped": as above; "bins": that, and the bins.
KINDS = ("standard", "clipped", "bins")
#: Where the smooth clip ends, in distances of the quartiles.
LIMIT = 3.0
#: Bins of a column, at most: fewer where values repeat.
BINS = 16
#: Encoded features that bins may make of all columns together.
MOST_BINNED = 4096


@dataclasses.dataclass(frozen=True)
class Encoding:
    """What is done to each of p columns of numbers, NaN where missing.

    A column becomes z, its bins, and an indicator of missing values if it had any, in this order; or, with levels, one
    0/1 feature for each level (a value that is none of them is all zeros).
    """

    center: np.ndarray
    scale: np.ndarray  # infinite where the column is constant
    limit: np.ndarray  # infinite where nothing is clipped
    fill: np.ndarray  # what stands for a missing value
    indicator: np.ndarray  # bool: whether missing values get a feature of their own
    edges: tuple[np.ndarray, ...]  # of each column's bins, empty where there are none
    levels: tuple[np.ndarray, ...]  # of each category, empty for numbers

    @staticmethod
    def none(columns: int) -> "Encoding":
        """Columns as they are."""
        ones, empty = np.ones(columns), (np.zeros(0),) * columns
        return Encoding(0 * ones, ones, np.inf * ones, 0 * ones, ones < 0, empty, empty)

    @staticmethod
    def of(
        x: np.ndarray, weight: np.ndarray, kind: str, levels: tuple[np.ndarray, ...] = (), bins: int = BINS
    ) -> "Encoding":
        """Learned from rows with weights; `levels` of the columns that are categories, empty for the others."""
        plain = Encoding.none(x.shape[1])
        levels = levels or plain.levels
        number = np.array([len(each) == 0 for each in levels], bool)
        missing = np.isnan(x)
        center, scale = np.zeros(len(number)), np.ones(len(number))
        indicator = np.asarray(missing.any(axis=0))
        limit, fill, edges = plain.limit.copy(), plain.fill.copy(), list(plain.edges)
        if kind == "standard":
            for part in _slices(number, indicator):
                there = None if not missing[:, part].any() else ~missing[:, part[0]]
                rows = slice(None) if there is None else there
                if there is None or there.any():
                    center[part], scale[part] = moments(x[rows][:, part], weight[rows])
            fill = center
        else:
            for j in np.flatnonzero(number):
                there = ~missing[:, j]
                if there.any():
                    column = Sorted.of(x[there, j], weight[there])
                    center[j], scale[j] = fill[j], _ = column.center_and_scale()
                    edges[j] = column.edges(bins) if kind == "bins" else edges[j]
            limit[number] = LIMIT
        return Encoding(center, scale, limit, fill, indicator, tuple(edges), levels)

    @functools.cached_property
    def widths(self) -> np.ndarray:
        """How many features each column becomes."""
        pairs = zip(self.edges, self.levels, strict=True)
        return np.array([len(on) or max(len(at), 1) for at, on in pairs], int) + self.indicator

    @property
    def source(self) -> np.ndarray:
        """The column that each feature comes from."""
        return np.repeat(np.arange(len(self.widths)), self.widths)

    @property
    def is_bin(self) -> np.ndarray:
        """bool [Σ widths]: which features are bins."""
        parts = zip(self.edges, self.levels, self.indicator, strict=True)
        each = [[0] * (len(on) or 1) + [1] * max(len(at) - 1, 0) + [0] * int(extra) for at, on, extra in parts]
        return np.array([flag for flags in each for flag in flags], bool)

    def in_own_units(self) -> "Encoding":
        """The same without scaling, clipping and bins."""
        plain = Encoding.none(len(self.center))
        return dataclasses.replace(plain, fill=self.fill, indicator=self.indicator, levels=self.levels)

    def apply(self, x: np.ndarray, dtype: type = np.float64) -> np.ndarray:
        """Features [n, Σ widths] of rows [n, p]."""
        starts, missing = np.cumsum(self.widths) - self.widths, np.isnan(x)
        number = np.array([len(each) == 0 for each in self.levels], bool)
        out = np.zeros((len(x), int(self.widths.sum())), dtype)
        filled = np.where(missing, self.fill, x) if missing.any() else x
        out[:, starts[number]] = scaled(filled[:, number], self.center[number], self.scale[number], self.limit[number])
        for j, (at, levels) in enumerate(zip(self.edges, self.levels, strict=True)):
            if len(at):
                out[:, starts[j] + 1 : starts[j] + len(at)] = places(filled[:, j], at)
            if len(levels):
                out[:, starts[j] : starts[j] + len(levels)] = x[:, [j]] == levels
        out[:, (starts + self.widths - 1)[self.indicator]] = missing[:, self.indicator]
        return out


def scaled(v: np.ndarray, center: np.ndarray, scale: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """z, clipped where a limit is finite; values beyond a float's range count as its end."""
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.clip((v - center) / scale, -1e30, 1e30)
    return z / np.sqrt(1 + (z / limit) ** 2) if np.isfinite(limit).any() else z


def places(v: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """[n, bins]: where values lie within each bin, −½ at its lower end and before, ½ at its upper end and beyond."""
    with np.errstate(over="ignore"):
        return np.clip((v[:, None] - edges[:-1]) / np.diff(edges), 0, 1) - 0.5


def moments(columns: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and deviation; a constant column has deviation 1."""
    share = weight / weight.sum()
    # in two passes and in units of the largest entry, so that neither 1e-300 nor 1e300 under- or overflows
    unit = np.abs(columns).max(axis=0)
    unit = np.where(unit > 0, unit, 1)
    columns = columns / unit
    center = share @ columns
    deviation = np.sqrt(share @ (columns - center) ** 2)
    varies = deviation > 10 * len(columns) ** 0.5 * np.finfo(float).eps
    return center * unit, np.where(varies, deviation, 1) * unit


@dataclasses.dataclass(frozen=True)
class Sorted:
    """A column's distinct values in order, and their weights."""

    values: np.ndarray
    weight: np.ndarray

    @staticmethod
    def of(column: np.ndarray, weight: np.ndarray | None = None) -> "Sorted":
        order = np.argsort(column, kind="stable")
        column = column[order]
        new = np.flatnonzero(np.concatenate([[True], column[1:] != column[:-1]]))
        weight = np.ones(len(column)) if weight is None else weight[order]
        return Sorted(column[new], np.add.reduceat(weight, new))

    def quantiles(self, shares: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        """The least values at or below which these shares of the weight lie."""
        below = np.cumsum(self.weight if weight is None else weight)
        return self.values[np.searchsorted(below, shares * below[-1] * (1 - 1e-12)).clip(0, len(below) - 1)]

    def center_and_scale(self) -> tuple[float, float]:
        """The median; the distance of the quartiles, half the range where they are equal, infinite where all are."""
        low, middle, high = self.quantiles(np.array([0.25, 0.5, 0.75]))
        half = self.values[-1] / 2 - self.values[0] / 2
        return float(middle), float(high - low if high > low else half if half > 0 else np.inf)

    def edges(self, bins: int) -> np.ndarray:
        """Of the bins, each with the same weight; a value that repeats much fills one bin, so that others have room.

        Two values need none: empty.
        """
        if len(self.values) < 3:
            return np.zeros(0)
        capped = np.minimum(self.weight, self.weight.sum() / bins)
        inner = self.quantiles(np.linspace(0, 1, bins + 1)[1:-1], capped)
        edges = np.unique(np.concatenate([self.values[:1], inner, self.values[-1:]]))
        return edges if len(edges) > 2 else np.zeros(0)


def _slices(number: np.ndarray, has_missing: np.ndarray) -> list[np.ndarray]:
    """The columns without missing values together, each of the others alone."""
    whole = np.flatnonzero(number & ~has_missing)
    return ([whole] if len(whole) else []) + [np.array([j]) for j in np.flatnonzero(number & has_missing)]

"""Weighted standardization: what an estimator does to its columns, and how it is undone."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Scaling:
    """columns → (columns − center) / scale."""

    center: np.ndarray
    scale: np.ndarray

    @staticmethod
    def of(columns: np.ndarray, weight: np.ndarray) -> "Scaling":
        """To mean 0 and deviation 1 under the weights; a constant column is only centered."""
        share = weight / weight.sum()
        # in two passes and in units of the largest entry, so that neither 1e-300 nor 1e300 under- or overflows
        unit = np.abs(columns).max(axis=0)
        unit = np.where(unit > 0, unit, 1)
        columns = columns / unit
        center = share @ columns
        deviation = np.sqrt(share @ (columns - center) ** 2)
        varies = deviation > 10 * len(columns) ** 0.5 * np.finfo(float).eps
        return Scaling(center * unit, np.where(varies, deviation, 1) * unit)

    @staticmethod
    def none(width: int) -> "Scaling":
        return Scaling(np.zeros(width), np.ones(width))

    def apply(self, columns: np.ndarray) -> np.ndarray:
        return (columns - self.center) / self.scale

    def undo(self, columns: np.ndarray) -> np.ndarray:
        return columns * self.scale + self.center

"""Weighted standardization: what an estimator does to its targets, and how it is undone."""

import dataclasses

import numpy as np

from ..tables.encode import moments


@dataclasses.dataclass(frozen=True)
class Scaling:
    """columns → (columns − center) / scale."""

    center: np.ndarray
    scale: np.ndarray

    @staticmethod
    def of(columns: np.ndarray, weight: np.ndarray) -> "Scaling":
        """To mean 0 and deviation 1 under the weights; a constant column is only centered."""
        return Scaling(*moments(columns, weight))

    @staticmethod
    def none(width: int) -> "Scaling":
        return Scaling(np.zeros(width), np.ones(width))

    def apply(self, columns: np.ndarray) -> np.ndarray:
        return (columns - self.center) / self.scale

    def undo(self, columns: np.ndarray) -> np.ndarray:
        return columns * self.scale + self.center

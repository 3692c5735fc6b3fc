"""(JᵀFᵀFJ + 2μI) δ = JᵀFᵀα − Jᵀr + 2h: one system, several spaces to solve it in."""

from .base import Space as Space
from .matrix_free import MatrixFreeSpace as MatrixFreeSpace
from .sample_space import SampleSpace as SampleSpace
from .weight_space import WeightSpace as WeightSpace

"""Solvers of the surrogate: each says what it supports, and all must agree."""

from .base import Choice as Choice
from .base import Solution as Solution
from .base import Solver as Solver
from .choose import SOLVERS as SOLVERS
from .choose import Auto as Auto
from .closed_form import ClosedForm as ClosedForm
from .fista import Fista as Fista
from .semismooth import Semismooth as Semismooth
from .smooth import ConjugateGradientsSolver as ConjugateGradientsSolver
from .smooth import Newton as Newton
from .smooth import SampleSpaceSolver as SampleSpaceSolver
from .smooth import WeightSpaceSolver as WeightSpaceSolver

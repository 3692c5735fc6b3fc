"""Solvers of the surrogate: each says what it supports, and all must agree."""

from .base import Choice as Choice
from .base import Solution as Solution
from .base import Solver as Solver
from .base import join_blocks as join_blocks
from .choose import SOLVERS as SOLVERS
from .choose import Auto as Auto
from .choose import as_solver as as_solver
from .closed_form import ClosedForm as ClosedForm
from .conjugate_gradients import ConjugateGradients as ConjugateGradients
from .direct import Direct as Direct
from .fista import Fista as Fista
from .plan import StepPlan as StepPlan
from .plan import plan_step as plan_step
from .quadratic import QuadraticModel as QuadraticModel
from .semismooth import Semismooth as Semismooth

"""The convex problem of one step, and how it is put together."""

from .datafit import Datafit as Datafit
from .datafit import Factor as Factor
from .linearized_batch import LinearizedBatch as LinearizedBatch
from .surrogate import AnySurrogate as AnySurrogate
from .surrogate import LinearSurrogate as LinearSurrogate
from .surrogate import QuadraticSurrogate as QuadraticSurrogate
from .surrogate import Surrogate as Surrogate
from .surrogate import build_linear_surrogate as build_linear_surrogate
from .surrogate import build_quadratic_surrogate as build_quadratic_surrogate
from .surrogate import build_surrogate as build_surrogate

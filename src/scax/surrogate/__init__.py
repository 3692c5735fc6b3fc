"""The convex problem of one step, and how it is put together."""

from .datafit import Datafit as Datafit
from .datafit import Factor as Factor
from .surrogate import Surrogate as Surrogate

"""Networks of other frameworks as scax sees them: weights, a pure function of them and of rows, and the way back.

A bridge only translates: the structured linearization reads what comes out of it as it reads any other function. The
frameworks are extras, imported when a bridge to them is built.
"""

from .base import Bridge as Bridge
from .equinox import from_equinox as from_equinox
from .flax import from_flax as from_flax
from .optax import as_optax as as_optax
from .torch import from_torch as from_torch

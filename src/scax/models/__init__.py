"""Networks, and smaller ones with the same outputs."""

from .compact import Compacted as Compacted
from .compact import compact as compact
from .mlp import MLP as MLP

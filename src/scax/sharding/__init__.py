"""How one step is split: blocks of weights solved side by side, and devices that share the work."""

from .blocks import Blocks as Blocks
from .mesh import Parallel as Parallel

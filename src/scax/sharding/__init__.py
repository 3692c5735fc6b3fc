"""How one step is split: blocks of weights solved side by side, and devices that share the work."""

from .blocks import Blocks as Blocks
from .blocks import Partition as Partition
from .blocks import solve_in_blocks as solve_in_blocks
from .mesh import Parallel as Parallel
from .serial import Serial as Serial

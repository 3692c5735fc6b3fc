"""Tables in, batches out.

Imported when first used, as in the package above: encoding a table needs NumPy alone, reading one needs polars, and
only the shuffled stream of rows needs JAX.
"""

from typing import TYPE_CHECKING

from .._lazy import on_demand

if TYPE_CHECKING:
    from .errors import TableError as TableError
    from .preprocess import Preprocess as Preprocess
    from .schema import Column as Column
    from .schema import Schema as Schema
    from .schema import Target as Target
    from .shard_writer import convert as convert
    from .shuffle import Shuffle as Shuffle
    from .split import Split as Split
    from .stream import Shards as Shards
    from .stream import Stream as Stream
    from .table import Table as Table
    from .table import open_table as open_table
    from .tally import Tally as Tally

_NAMES = {
    "errors": ("TableError",),
    "preprocess": ("Preprocess",),
    "schema": ("Column", "Schema", "Target"),
    "shard_writer": ("convert",),
    "shuffle": ("Shuffle",),
    "split": ("Split",),
    "stream": ("Shards", "Stream"),
    "table": ("Table", "open_table"),
    "tally": ("Tally",),
}

__getattr__, __dir__ = on_demand(__name__, _NAMES)

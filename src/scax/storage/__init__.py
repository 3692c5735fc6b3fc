"""Files that can be trusted: written whole or not at all, checked before use, and reading them runs nothing."""

from typing import TYPE_CHECKING

from .._lazy import on_demand

if TYPE_CHECKING:
    from .checkpoint import load_checkpoint as load_checkpoint
    from .checkpoint import read_info as read_info
    from .checkpoint import save_checkpoint as save_checkpoint
    from .container import Contents as Contents
    from .container import read as read
    from .container import write as write
    from .errors import FileError as FileError
    from .model import Model as Model
    from .model import load as load
    from .model import save as save
    from .whole import remove_parts as remove_parts
    from .whole import write_bytes as write_bytes
    from .whole import write_text as write_text

_NAMES = {
    "checkpoint": ("load_checkpoint", "read_info", "save_checkpoint"),
    "container": ("Contents", "read", "write"),
    "errors": ("FileError",),
    "model": ("Model", "load", "save"),
    "whole": ("remove_parts", "write_bytes", "write_text"),
}

__getattr__, __dir__ = on_demand(__name__, _NAMES)

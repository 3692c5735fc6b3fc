"""Files that can be trusted: written whole or not at all, checked before use, and reading them runs nothing."""

import importlib
from typing import TYPE_CHECKING, Any

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
_HOME = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module("." + _HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})

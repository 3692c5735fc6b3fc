"""Names of a package that are imported when they are first asked for."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def on_demand(
    package: str, modules: Mapping[str, tuple[str, ...]], rest: Callable[[str], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """(`__getattr__`, `__dir__`) of a package: `modules` are its modules and the names that each of them gives, and
    `rest` finds any other name, or raises."""
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes and rest is not None:
            return rest(name)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module("." + homes[name], package), name)
        setattr(sys.modules[package], name, value)  # asked for once
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *homes})

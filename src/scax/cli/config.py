"""--config FILE: a TOML file that can say whatever the flags can; flags win over it."""

from pathlib import Path
from typing import Annotated, Any

import typer


def _read(context: Any, path: Path | None) -> Path | None:
    if path is not None:
        from ..train.config import read_toml

        known = [p.name for p in context.command.params if p.name not in {None, "config", "help"}]
        found = read_toml(path, [str(name) for name in known])
        # lists may be written as lists; on the command line they are separated by commas
        joined = {k: ",".join(map(str, v)) if isinstance(v, list) else v for k, v in found.items()}
        context.default_map = {**(context.default_map or {}), **joined}
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", callback=_read, is_eager=True, help="A TOML file with any of these options; flags win over it."
    ),
]

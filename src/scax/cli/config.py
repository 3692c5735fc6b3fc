"""--config FILE: a TOML file that can say whatever the flags can; flags win over it."""

from pathlib import Path
from typing import Annotated, Any

import typer


def _read(context: Any, path: Path | None) -> Path | None:
    if path is not None:
        from ..runs.config import read_toml

        types = {str(p.name): p for p in context.command.params if p.name not in {None, "config", "help"}}
        options = {k: _as_flag(path, k, types[k], v) for k, v in read_toml(path, list(types)).items()}
        context.default_map = {**(context.default_map or {}), **options}
    return path


def _as_flag(path: Path, name: str, option: Any, value: Any) -> Any:
    """A value of the file as a flag would give it: lists are separated by commas on the command line."""
    from .._text import quoted
    from ..storage.run_folder import RunFolderError

    switch = getattr(option, "is_flag", False)
    if isinstance(value, dict) or isinstance(value, bool) != switch:
        wanted = "true or false" if switch else "a text, a number or a list"
        raise RunFolderError(f"{path}: {name} is {quoted(value)}, and must be {wanted}.")
    return ",".join(map(str, value)) if isinstance(value, list) else value


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", callback=_read, is_eager=True, help="A TOML file with any of these options; flags win over it."
    ),
]

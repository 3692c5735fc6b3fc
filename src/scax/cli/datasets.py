"""scax datasets: what is bundled, what can be downloaded, where it is kept."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .errors import UserError
from .words import near, say


def register(cli: typer.Typer) -> None:
    cli.command("datasets", short_help="List the data sets at hand, or fetch one.")(datasets)


def datasets(
    action: Annotated[str | None, typer.Argument(metavar="fetch", help="Download a data set.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="A folder to look in first.", envvar="SCAX_DATA")] = None,
    json: Annotated[bool, typer.Option("--json", help="The list as JSON.")] = False,
) -> None:
    """List the data sets that are bundled or can be downloaded; `scax datasets fetch NAME` downloads one."""
    if action is None:
        _show(data_dir, json)
    elif action != "fetch":
        raise UserError(f"scax datasets cannot {action!r}: it lists, or fetches with `scax datasets fetch NAME`.")
    elif name is None:
        raise UserError("which data set? Give its name: scax datasets fetch NAME")
    else:
        _fetch(name, data_dir)


def _show(data_dir: Path | None, json: bool) -> None:
    from .._cache import cache_folder
    from ..tables.bundled import BUNDLED
    from ..tables.datasets import REMOTE, DatasetError, find

    lines = [(n, b.rows, b.columns, b.target, "bundled", b.about) for n, b in BUNDLED.items()]
    for name, about in REMOTE.items():
        try:
            where = str(find(name, data_dir) or "not here")
        except DatasetError as error:
            where = str(error)
        lines.append((name, about.rows, about.columns, about.target, where, about.about))
    if json:
        import json as json_

        keys = ("name", "rows", "inputs", "target", "where", "about")
        print(json_.dumps([dict(zip(keys, line, strict=True)) for line in lines], indent=1))
        return
    for name, rows, columns, target, where, about in lines:
        say(f"{name:18} {rows:>9,} rows {columns:>3} inputs  {about}; target {target}")
        if where not in {"bundled", "not here"}:
            say(f"{'':18} {where}")
        elif where == "not here":
            say(f"{'':18} get it: scax datasets fetch {name}")
    say(f"Downloads are stored in {cache_folder()}. A folder in --data-dir or SCAX_DATA is searched first.")


def _fetch(name: str, data_dir: Path | None) -> None:
    from ..tables.bundled import BUNDLED
    from ..tables.datasets import REMOTE
    from ..tables.datasets import fetch as get

    if name in BUNDLED:
        say(f"{name} is bundled: nothing to download.")
        return
    if name not in REMOTE:
        raise UserError(f"{name!r} is not a data set we know.{near(name, REMOTE)}")
    shown = sys.stderr.isatty()

    def progress(done: int, total: int | None) -> None:
        if shown:
            print(f"\r{done / 1e6:,.1f} MB" + (f" of {total / 1e6:,.1f}" if total else ""), end="", file=sys.stderr)

    path = get(name, data_dir, progress)
    if shown:
        print("\r", end="", file=sys.stderr)
    say(f"{name}: {path}")

"""A data set's name where a table is expected: `scax train diabetes`."""

import csv
import io
from pathlib import Path
from typing import NamedTuple

from .errors import UserError
from .words import near


class Named(NamedTuple):
    """Where a table lies, and what is known of it if it is a data set of ours."""

    path: Path
    target: str | None = None
    task: str = "auto"
    drop: tuple[str, ...] = ()
    header: bool = True


def named(table: Path, data_dir: Path | None = None) -> Named:
    """The file itself, or that of the data set of this name where there is no such file."""
    name = str(table)
    if table.exists() or table.suffix or len(table.parts) > 1:
        return Named(table)
    from ..tables.bundled import BUNDLED
    from ..tables.datasets import REMOTE, find

    if name in BUNDLED:
        task = "regression" if BUNDLED[name].task == "regression" else "classification"
        return Named(_bundled(name), BUNDLED[name].target, task)
    if name not in REMOTE:
        raise UserError(f"{name!r} is neither a file nor a data set.{near(name, [*BUNDLED, *REMOTE])}")
    about, path = REMOTE[name], find(name, data_dir)
    if path is None:
        raise UserError(f"{name} is not here yet. Get it: scax datasets fetch {name}")
    task = "regression" if about.task == "regression" else "classification"
    return Named(path, about.target, task, about.drop, about.header)


def _bundled(name: str) -> Path:
    """scikit-learn's arrays as a table in the cache folder."""
    from .._cache import cache_folder
    from ..storage import write_text
    from ..tables.bundled import BUNDLED

    about, text = BUNDLED[name], io.StringIO()
    bundle = about.load()
    y = bundle.target if about.task == "regression" else [str(bundle.target_names[i]) for i in bundle.target]
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([*bundle.feature_names, about.target])
    lines.writerows([*map(float, row), goal] for row, goal in zip(bundle.data, y, strict=True))
    path = cache_folder() / f"{name}.csv"
    if not path.exists() or path.read_bytes() != text.getvalue().encode():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text.getvalue())
    return path

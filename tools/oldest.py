"""The lower bounds of pyproject.toml as constraints for pip: python tools/oldest.py > constraints.txt"""

import re
import tomllib
from pathlib import Path
from typing import Any


def constraints(project: dict[str, Any]) -> list[str]:
    """One line per dependency of core and extras, `dev` and `docs` left out: name==oldest release allowed."""
    extras = project["optional-dependencies"]
    lines = [
        *project["dependencies"],
        *(line for name in extras if name not in ("dev", "docs") for line in extras[name]),
    ]
    return sorted(re.sub(r"[>=]=([\d.]+).*", r"==\1", line) for line in lines if not line.startswith("scax["))


if __name__ == "__main__":
    file = Path(__file__).parents[1] / "pyproject.toml"
    print("\n".join(constraints(tomllib.loads(file.read_text(encoding="utf-8"))["project"])))

"""The resolved options of a run on a table, as they are written to its config.toml and read back."""

import dataclasses
import difflib
import math
import tomllib
from pathlib import Path
from typing import Any

from ..storage.run_folder import RunFolderError


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the outcome of `scax train`."""

    table: str
    target: str
    task: str = "auto"
    drop: list[str] = dataclasses.field(default_factory=list)
    category: list[str] = dataclasses.field(default_factory=list)
    max_levels: int = 100
    hidden: list[int] = dataclasses.field(default_factory=lambda: [16, 16])
    activation: str = "tanh"
    l2: float = 0.01
    l1: float = 0.0
    log: float = 0.0
    group: float = 0.0
    penalty: str = ""  # whose strength is to be found
    strength: str = ""  # "auto", or nothing
    steps: int = 2000
    batch_size: int = 32
    validation: float = 0.2
    keep: str = "best"
    seed: int = 0
    encoding: str = "utf-8"
    header: bool = True

    def problems(self) -> str | None:
        """What is absurd about the options, in a sentence; None if nothing is."""
        for name, least, most in (
            ("l2", 0, 1e6), ("l1", 0, 1e6), ("log", 0, 1e6), ("group", 0, 1e6), ("steps", 1, 1e9),
            ("batch_size", 1, 1e6),
            ("validation", 0, 0.9), ("seed", 0, 2**31 - 1), ("max_levels", 2, 100_000),
        ):  # fmt: skip
            value = getattr(self, name)
            if not math.isfinite(value) or not least <= value <= most:
                return f"--{name.replace('_', '-')} is {value:g}: it must be between {least:,.10g} and {most:,.10g}."
        if self.keep not in KEEPS:
            return f"--keep is {self.keep!r}: choose {' or '.join(KEEPS)}."
        if self.task not in TASKS:
            return f"--task is {self.task!r}: choose {', '.join(TASKS)}."
        if self.activation not in ACTIVATIONS:
            return f"--activation is {self.activation!r}: choose {', '.join(ACTIVATIONS)}."
        if any(not 1 <= width <= 100_000 for width in self.hidden):
            return f"--hidden is {','.join(map(str, self.hidden))}: widths must be between 1 and 100,000."
        if self.strength == "auto":
            if self.penalty not in SPARSE:
                return f"--penalty is {self.penalty!r} and --strength auto: choose --penalty {', '.join(SPARSE)}."
            if getattr(self, self.penalty):
                return (
                    f"--{self.penalty} is {getattr(self, self.penalty):g} and --strength auto: leave one of them out."
                )
            return None
        if self.strength or self.penalty:
            return (
                f"--penalty is {self.penalty!r} and --strength {self.strength!r}: only auto is left to a run to find."
            )
        if self.l1 == 0 and self.l2 == 0 and self.log == 0 and self.group == 0:
            return "Every penalty has strength 0: some penalty keeps the weights bounded; --l2 1e-6 is almost none."
        return None


SPARSE = ("l1", "log", "group")
KEEPS = ("best", "last")
TASKS = ("auto", "regression", "classification")
ACTIVATIONS = ("tanh", "relu", "gelu", "silu", "elu", "softplus", "sigmoid")  # the MLP's, without importing JAX


def to_toml(values: dict[str, Any]) -> str:
    """Flat TOML of texts, numbers, flags and lists of them."""
    return "".join(f"{key} = {_literal(value)}\n" for key, value in values.items() if value is not None)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_literal(v) for v in value)}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in escaped) + '"'
    return repr(value)


def read_toml(path: Path, known: list[str]) -> dict[str, Any]:
    """The keys and values of a config file, dashes and underscores alike; an unknown key is an error."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunFolderError(f"{path} does not exist: check the path.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path} is not valid TOML: {error}.") from None
    out = {}
    for key, value in found.items():
        name = key.replace("-", "_")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0)
            raise RunFolderError(f"{path}: there is no option {key!r}. The nearest is {near[0]!r}.")
        out[name] = value
    return out


def load(path: Path) -> TrainConfig:
    """The config of a run folder."""
    names = [field.name for field in dataclasses.fields(TrainConfig)]
    values = read_toml(path, names)
    kinds = {field.name: field.type for field in dataclasses.fields(TrainConfig)}
    for name, value in values.items():
        wanted = {str: str, int: int, float: (int, float), bool: bool}.get(kinds[name], list)  # type: ignore[arg-type]
        if not isinstance(value, wanted) or (isinstance(value, bool) and kinds[name] is not bool):
            raise RunFolderError(f"{path}: {name} is {value!r}, which it cannot be. Restore the file.")
    try:
        return TrainConfig(**values)
    except TypeError:
        raise RunFolderError(f"{path} lacks an option: restore the file, or train again.") from None

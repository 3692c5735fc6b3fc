"""The resolved options of a run on a table, as they are written to its config.toml and read back."""

import dataclasses
import difflib
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

from .._text import printable, quoted
from .._untrusted import Unreadable, check, read_text
from ..storage.run_folder import RunFolderError

FILE = "config.toml"
MOST_BYTES = 4 << 20  # of a config file: names of columns can be many
MOST_LAYERS = 1000


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the outcome of `scax train`."""

    table: str
    target: str
    task: str = "auto"
    drop: list[str] = dataclasses.field(default_factory=list)
    category: list[str] = dataclasses.field(default_factory=list)
    max_levels: int = 100
    numbers: str = "auto"
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
    test: float = 0.1
    folds: int = 0
    keep: str = "best"
    seed: int = 0
    encoding: str = "utf-8"
    header: bool = True

    @property
    def is_sparse(self) -> bool:
        """Whether a penalty makes zeros."""
        return bool(self.l1 or self.log or self.group or self.penalty in SPARSE)

    def problems(self) -> str | None:
        """What is absurd about the options, in a sentence; None if nothing is."""
        for name, least, most in (
            ("l2", 0, 1e6), ("l1", 0, 1e6), ("log", 0, 1e6), ("group", 0, 1e6), ("steps", 1, 1e9),
            ("batch_size", 1, 1e6),
            ("validation", 0, 0.9), ("test", 0, 0.9), ("folds", 0, 100), ("seed", 0, 2**31 - 1),
            ("max_levels", 2, 100_000),
        ):  # fmt: skip
            if reason := outside(name.replace("_", "-"), getattr(self, name), least, most):
                return reason
        if round(self.validation + self.test, 9) > 0.9:
            held_out = f"--validation {self.validation:g} and --test {self.test:g}"
            return f"{held_out} leave too few rows to train on: together they must be at most 0.9."
        if self.folds == 1:
            return "--folds is 1: rows that a network was not trained on take at least 2."
        if self.keep not in KEEPS:
            return f"--keep is {quoted(self.keep)}: choose {' or '.join(KEEPS)}."
        if self.task not in TASKS:
            return f"--task is {quoted(self.task)}: choose {', '.join(TASKS)}."
        if self.numbers not in NUMBERS:
            return f"--numbers is {quoted(self.numbers)}: choose {', '.join(NUMBERS)}."
        if self.activation not in ACTIVATIONS:
            return f"--activation is {quoted(self.activation)}: choose {', '.join(ACTIVATIONS)}."
        if any(not 1 <= width <= 100_000 for width in self.hidden):
            return f"--hidden is {','.join(map(str, self.hidden[:20]))}: widths must be between 1 and 100,000."
        if len(self.hidden) > MOST_LAYERS:
            return f"--hidden has {len(self.hidden):,} layers: at most {MOST_LAYERS:,} are built."
        if "\0" in self.table or not _is_text(self.table):
            return f"{printable(self.table, 200)}: the name of a table must be UTF-8 text. Rename the file."
        if self.strength == "auto":
            if self.penalty not in SPARSE:
                return f"--penalty is {quoted(self.penalty)} and --strength auto: choose --penalty {', '.join(SPARSE)}."
            if getattr(self, self.penalty):
                return (
                    f"--{self.penalty} is {getattr(self, self.penalty):g} and --strength auto: leave one of them out."
                )
            return None
        if self.strength or self.penalty:
            given = f"--penalty is {quoted(self.penalty)} and --strength {quoted(self.strength)}"
            return f"{given}: only auto is left to a run to find."
        if self.l1 == 0 and self.l2 == 0 and self.log == 0 and self.group == 0:
            return "Every penalty has strength 0: some penalty keeps the weights bounded; --l2 1e-6 is almost none."
        return None


def outside(name: str, value: float, least: float, most: float) -> str | None:
    """What is wrong with a number outside a range in which it could mean anything; None inside."""
    if least <= value <= most:
        return None
    shown = "too large" if abs(value) >= 1e300 else f"{value:g}"
    return f"--{name} is {shown}: it must be between {least:,.10g} and {most:,.10g}."


def _is_text(name: str) -> bool:
    """Whether a name can be written into a file: one that is not UTF-8 has characters that are none."""
    return name.encode(errors="replace").decode() == name


SPARSE = ("l1", "log", "group")
KEEPS = ("best", "last")
NUMBERS = ("auto", "standard", "clipped", "bins")
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


def read_toml(path: Path, known: list[str], *, follow: bool = True) -> dict[str, Any]:
    """The keys and values of a config file, dashes and underscores alike; an unknown key is an error."""
    try:
        found = tomllib.loads(read_text(path, follow=follow, most=MOST_BYTES))
    except FileNotFoundError:
        raise RunFolderError(f"{path} does not exist: check the path.") from None
    except Unreadable as error:
        raise RunFolderError(f"{path} {error}.") from None
    except RecursionError:
        raise RunFolderError(f"{path} is not valid TOML: it is nested too deeply.") from None
    except ValueError as error:  # a TOMLDecodeError, a number of thousands of digits, a day that does not exist
        raise RunFolderError(f"{path} is not valid TOML: {printable(str(error), 200)}.") from None
    out = {}
    for key, value in found.items():
        name = key.replace("-", "_")
        if name not in known:
            near = difflib.get_close_matches(name[:40], known, n=1, cutoff=0)
            raise RunFolderError(f"{path}: there is no option {key[:40]!r}. The nearest is {near[0]!r}.")
        out[name] = value
    return out


def load(path: Path) -> TrainConfig:
    """The config of a run folder, from its config.toml."""
    kinds = get_type_hints(TrainConfig)
    values = read_toml(path, list(kinds), follow=False)
    for name, value in values.items():
        try:
            check(value, kinds[name], name)
        except Unreadable as error:
            raise RunFolderError(f"{path} {error}. Restore the file.") from None
    if lacking := [name for name in ("table", "target") if name not in values]:
        raise RunFolderError(f"{path} lacks {lacking[0]!r}: restore the file, or train again.")
    values.setdefault("test", 0.0)  # a run that was started before rows were held out for the score
    config = TrainConfig(**values)
    if reason := config.problems():
        raise RunFolderError(f"{path}: {reason}")
    return config

"""The files of a run folder: what each of them holds, and its one reader.

A folder may be damaged, half-copied or made by a stranger. A reader takes regular files only, compares what it finds
with the types declared here before anyone uses it, and otherwise raises a RunFolderError: a sentence that names the
file. `config.toml` is read in the same way by scax.runs.config.
"""

import hashlib
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from .._untrusted import Between, Unreadable, check, parse_json, read_text
from ..tables import Preprocess, Schema, TableError
from .container import read_description
from .errors import FileError
from .run_folder import FORMAT, RunFolderError

ENVIRONMENT, METRICS, RESULTS, PATH = "environment.json", "metrics.jsonl", "results.json", "path.json"
FOLDS = "folds.json"
SCHEMA, PREPROCESS = "schema.json", "preprocess.json"
MODEL, CHECKPOINT = "model.safetensors", "checkpoint.safetensors"
MOST_RECORDS = 20_000  # a run writes about a hundred

Count = Annotated[int, Between(0, 2**53)]
Number = float | None  # null where it was not finite
Error = Annotated[float, Between(0, 1e300)] | None  # a standard error
Matrix = list[list[Number]]


class Environment(TypedDict):
    """environment.json: what the numbers of a run depend on."""

    format: NotRequired[Count]
    command: str
    packages: dict[str, str | None]
    python: str
    system: str
    devices: list[str]
    cores: Count | None


class Sparsity(TypedDict):
    """What is left of a network without the parts that cannot change its outputs."""

    weights: Count
    neurons: Count
    inputs: list[int]
    network: list[int]


class PathSummary(TypedDict):
    """path.json: one entry per strength, and the places of the best and the chosen one."""

    strengths: list[float]
    loss: list[Number]
    error: list[Error]
    weights: list[int]
    neurons: list[int]
    inputs: list[list[int]]
    best: Count
    chosen: Count
    penalty: Literal["l1", "log", "group"]
    names: list[str]


class Score(TypedDict):
    name: str
    larger_is_better: bool


class TrainRows(TypedDict):
    train: Count
    validation: Count
    test: NotRequired[Count]


class Importance(TypedDict):
    """How much the error rises when the column's values are shuffled among the rows."""

    column: str
    rise: float


class IntervalSummary(TypedDict):
    """How intervals did on rows that the model was not trained on: covered shares, and bounds at 0.95."""

    rows: Count
    levels: list[float]
    covered: list[float]
    width: float
    lower: list[float]
    upper: list[float]


class CalibrationSummary(TypedDict):
    """How probabilities did there, as the network gives them and corrected; a bin is confidence, share right, rows."""

    rows: Count
    log_loss: list[Number]
    error: list[float]
    bins: list[list[list[float]]]


#: "class" is a word of Python's
ClassScores = TypedDict("ClassScores", {"class": str, "rows": Count, "recall": Number, "precision": Number})

#: Of numbers or of classes, as scax.training.scores computes them.
Scores = TypedDict(
    "Scores",
    {
        "R²": Number,
        "MAE": Number,
        "RMSE": Number,
        "RMSE of the mean": Number,
        "accuracy": Number,
        "balanced accuracy": Number,
        "log loss": Number,
        "AUC": Number,
        "largest class": Number,
        "classes": list[ClassScores],
    },
    total=False,
)


class TrainResults(TypedDict):
    """results.json of a finished training."""

    format: NotRequired[Count]
    kind: Literal["train"]
    task: Literal["regression", "binary", "multiclass"]
    score: Score
    network: list[Count]
    weights: Count
    sparsity: NotRequired[Sparsity]
    rows: TrainRows
    kept: Literal["best", "last"]
    final: dict[str, Number]
    test: NotRequired[Scores]  # on rows that nothing was chosen by
    linear: NotRequired[Scores]  # of a linear model on the same rows
    importance: NotRequired[list[Importance]]
    outputs: NotRequired[Matrix]
    truth: NotRequired[list[float]]
    intervals: NotRequired[IntervalSummary]
    calibration: NotRequired[CalibrationSummary]


class Dataset(TypedDict):
    name: str
    target: str
    rows: Count
    columns: Count
    classes: list[str]


class CompareSettings(TypedDict):
    activation: str
    l2: float
    steps: Annotated[int, Between(1, 1e9)]
    batch_size: Count
    repeats: Annotated[int, Between(1, 1e4)]
    seed: int


class CompareRows(TypedDict):
    train: Count
    test: Count


class Grid(TypedDict):
    rates: list[float]
    decays: list[str]


class TunedRate(TypedDict):
    rate: float
    decay: str
    at_edge: bool


class Curves(TypedDict):
    objective: Matrix
    score: Matrix
    damping: NotRequired[Matrix]
    accepted: NotRequired[Matrix]


class MethodResults(TypedDict):
    """What a comparison says of one method: a value per repeat, curves [repeats, ends]."""

    label: str
    setting: TunedRate | None
    tried: list[Any]
    objective: list[Number]
    score: list[Number]
    curves: Curves
    outputs: Matrix
    seconds_per_step: Annotated[float, Between(0, 1e9)]


class CompareEnvironment(TypedDict):
    packages: dict[str, str | None]
    python: str
    system: str
    devices: list[str]
    cores: Count | None
    float64: bool


class Comparison(TypedDict):
    """results.json of a comparison."""

    format: NotRequired[Count]
    kind: Literal["compare"]
    command: str
    dataset: Dataset
    settings: CompareSettings
    environment: CompareEnvironment
    task: Literal["regression", "binary", "multiclass"]
    score: Score
    network: list[Count]
    weights: Count
    rows: CompareRows
    one_class: list[int]
    ends: list[Annotated[int, Between(1, 1e9)]]
    loss: str
    grid: Grid
    truth: list[float]
    methods: dict[str, MethodResults]


def read_environment(folder: Path) -> Environment:
    return _read(folder / ENVIRONMENT, Environment)


def read_schema(folder: Path) -> Schema:
    return _of_table(folder / SCHEMA, Schema.from_json)


def read_preprocess(folder: Path) -> Preprocess:
    return _of_table(folder / PREPROCESS, Preprocess.from_json)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The records of a run, [] without the file; a last line that was cut off is left out."""
    path = folder / METRICS
    try:
        lines = _text(path).split("\n")[:-1]
    except FileNotFoundError:
        return []
    if len(lines) > MOST_RECORDS:
        raise _damaged(path, f"is damaged: it has {len(lines):,} records, and a run writes about a hundred")
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = parse_json(line)
            check(record, dict[str, Number])
            check(record.get("step"), Count, "step")
            check(record.get("seconds"), float, "seconds")
        except Unreadable as error:
            raise _damaged(path, f"{str(error).replace('is damaged', f'is damaged in line {number}', 1)}") from None
        records.append(record)
    return records


def read_path(folder: Path) -> PathSummary | None:
    """How the strength was chosen; None where there is no such file."""
    path = folder / PATH
    if not _is_there(path):
        return None
    data = _read(path, PathSummary)
    count = len(data["strengths"])
    for name in ("loss", "error", "weights", "neurons", "inputs"):
        _require(path, len(data[name]) == count, f"{name} has {len(data[name])} entries for {count} strengths")
    for name in ("best", "chosen"):
        _require(path, data[name] < count, f"{name} is {data[name]}, and there are {count} strengths")
    names = range(len(data["names"]))
    _require(path, all(i in names for row in data["inputs"] for i in row), "inputs has numbers without a name")
    return data


def read_results(folder: Path) -> TrainResults | None:
    """What a training ended with; None while it is not finished."""
    path = folder / RESULTS
    if not _is_there(path):
        return None
    data = _read(path, TrainResults)
    _require(path, len(data["network"]) > 1, "network has no layers")
    _require(path, type(data["final"].get("step")) is int, "final has no step")
    if "outputs" in data:
        _require(path, "truth" in data, "it has outputs and no truth")
        _check_outputs(path, data["outputs"], data.get("truth", []), data["network"][-1], data["task"])
    if "intervals" in data:
        ends, shown = data["intervals"], len(data.get("truth", []))
        _require(path, len(ends["lower"]) == len(ends["upper"]) == shown, "intervals has not two bounds for each row")
        _require(path, len(ends["levels"]) == len(ends["covered"]) > 0, "intervals has not one share for each level")
    if "calibration" in data:
        bins = data["calibration"]["bins"]
        _require(path, len(bins) == 2 and all(len(b) == 3 for part in bins for b in part), "calibration has odd bins")
        for name in ("log_loss", "error"):
            _require(path, len(data["calibration"][name]) == 2, f"calibration has not two values of {name}")
    return data


def read_comparison(folder: Path) -> Comparison:
    path = folder / RESULTS
    if not _is_there(path):
        raise RunFolderError(f"{folder} is not a run folder: give one that `scax compare` or `scax train` made.")
    data = _read(path, Comparison)
    methods, repeats, ends = data["methods"], data["settings"]["repeats"], data["ends"]
    _require(path, bool(methods) and bool(ends) and len(data["network"]) > 1, "methods, ends or network is empty")
    _require(path, all(a < b for a, b in itertools.pairwise(ends)), "ends does not rise")
    _require(path, all(0 <= i < repeats for i in data["one_class"]), "one_class has numbers that are no repeat")
    classes = len(data["dataset"]["classes"])
    _require(path, data["task"] != "multiclass" or classes >= data["network"][-1], "classes has too few names")
    for name, method in methods.items():
        where = f"methods.{name[:40]}"
        for what in ("objective", "score"):
            _require(path, len(method[what]) == repeats, f"{where}.{what} has not one value per repeat")
        _check_curves(path, where, method["curves"], repeats, len(ends))
        _require(path, name != "sca" or {"damping", "accepted"} <= set(method["curves"]), f"{where} has no damping")
        _check_outputs(path, method["outputs"], data["truth"], data["network"][-1], data["task"], where)
    return data


def _check_curves(path: Path, where: str, curves: Curves, repeats: int, ends: int) -> None:
    for name, rows in curves.items():
        sizes = {len(row) for row in rows} if isinstance(rows, list) else set()
        fits = isinstance(rows, list) and len(rows) == repeats and sizes == {ends}
        _require(path, fits, f"{where}.curves.{name[:40]} has not {repeats} times {ends} values")


def _check_outputs(
    path: Path, outputs: Matrix, truth: Sequence[float], width: int, task: str, where: str = "it"
) -> None:
    """One row of `width` outputs for each truth; the truth of a class is its number."""
    fits = len(outputs) == len(truth) and {len(row) for row in outputs} <= {width}
    _require(path, fits and len(truth) > 0, f"{where} has not {width} outputs for each of {len(truth)} rows")
    if task == "multiclass":
        _require(path, all(v == int(v) and 0 <= v < width for v in truth), "truth has numbers that are no class")
    else:
        _require(path, width == 1, f"network has {width} outputs for {task}")


def table_digest(path: str | os.PathLike) -> str:
    """What a table is recognized by when a run is gone on with, or its model is scored."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_trained_on(folder: Path, table: str | os.PathLike) -> bool:
    """Whether a run's checkpoint says that this is its table; False where there is none that says anything."""
    try:
        info = read_description(folder / CHECKPOINT, "checkpoint").get("info")
    except FileError:
        return False
    known = info.get("digest") if isinstance(info, dict) else None
    return isinstance(known, str) and Path(table).is_file() and known == table_digest(table)


def read_json(path: Path) -> Any:
    """Any JSON file of a run folder."""
    try:
        return parse_json(_text(path))
    except FileNotFoundError:
        raise RunFolderError(f"{path} is missing: {path.parent} is not a complete run folder.") from None
    except Unreadable as error:
        raise _damaged(path, str(error)) from None


def _read(path: Path, kind: Any) -> Any:
    """A JSON file of a declared type and of a format that this version knows."""
    value = read_json(path)
    newest = value.get("format", 0) if isinstance(value, dict) else 0
    if type(newest) is int and FORMAT < newest < 1 << 31:  # beyond, it is damaged
        raise RunFolderError(f"{path.parent} was written by a newer scax (format {newest}): update scax.")
    try:
        check(value, kind)
    except Unreadable as error:
        raise _damaged(path, str(error)) from None
    return value


def _of_table(path: Path, make: Callable[[Any], Any]) -> Any:
    try:
        return make(read_json(path))
    except TableError as error:
        raise _damaged(path, f"is damaged: {error}") from None


def _text(path: Path) -> str:
    try:
        return read_text(path, follow=False)
    except Unreadable as error:
        raise _damaged(path, str(error)) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RunFolderError(f"{path} could not be read: {error.strerror or error}.") from None


def _is_there(path: Path) -> bool:
    """Whether something has this name, be it a link that leads nowhere."""
    return path.is_symlink() or path.exists()


def _require(path: Path, fits: bool, why: str) -> None:
    if not fits:
        raise _damaged(path, f"is damaged: {why}")


def _damaged(path: Path, why: str) -> RunFolderError:
    return RunFolderError(f"{path} {why.rstrip('.')}. Restore it, or run again.")

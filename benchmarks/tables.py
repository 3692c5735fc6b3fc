"""The estimators beside what people have: scikit-learn's MLPs, boosted trees, linear models, on tables of many kinds.

    python -m benchmarks.tables                 all tables; --tables "a;b" and --methods "x;y" choose
    python -m benchmarks.tables --data FOLDER   with the CSV files of that folder (california.csv.gz, …)
    … --rows N --splits 0,1,2                   training rows at most (7,500), and random splits (0)
    … --write                                   docs/results/tables.json, merged with what it holds, the page, a plot
    … --into FILE                               another results file; --merge FILES takes in what such files hold
    … --processes N --seconds S                 at once, and when to stop

Every method gets the same rows, no settings, and one split for training and test; networks and linear models of other
packages get standardized numbers and one column for each level. The error is the RMSE over the deviation of the target,
or the log loss over that of the class frequencies (1: nothing learned). Tables that the recipe was chosen with are
marked: the others are the honest ones.
"""

import argparse
import contextlib
import itertools
import json
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks import pages
from scax.estimators import SCAClassifier, SCARegressor

RESULTS, PAGE = Path("docs/results/tables.json"), Path("docs/measurements/tables.md")
PLOT = Path("docs/images/tables.svg")
#: Tables that were looked at while the recipe was chosen.
SEEN = ("california", "casp", "kin8nm", "wine white", "diabetes")
#: Ratios beyond are drawn at the ends.
SHOWN = (0.4, 3.0)


class Table(NamedTuple):
    """Numbers, codes of categories (marked in `is_category`), NaN where missing; y: numbers, or classes 0, 1, …"""

    x: np.ndarray
    y: np.ndarray
    is_category: np.ndarray

    @property
    def is_classes(self) -> bool:
        return self.y.dtype.kind == "i"


FILES = {  # file, target, separator, columns to drop, whether the target is classes
    "california": ("california.csv.gz", "medianHouseValue", ",", (), False),
    "casp": ("casp.csv.gz", "RMSD", ",", (), False),
    "kin8nm": ("kin8nm.csv.gz", "y", ",", (), False),
    "magic": ("magic04.csv.gz", None, ",", (), True),
    "parkinsons": ("parkinsons.csv.gz", "total_UPDRS", ",", ("motor_UPDRS",), False),
    "skillcraft": ("skillcraft1.csv.gz", "LeagueIndex", ",", ("GameID",), False),
    "wine white": ("winequality-white.csv.gz", "quality", ";", (), False),
    "adult": ("adult.csv.gz", "income", ",", (), True),
    "susy": ("susy-balanced10k.csv.gz", "label", ",", ("split",), True),
}
BUNDLED: dict[str, Callable[..., Any]] = {
    "diabetes": datasets.load_diabetes,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
}


def read(folder: Path, name: str) -> Table:
    """A file of the folder."""
    import polars

    file, target, separator, drop, is_classes = FILES[name]
    frame = polars.read_csv(folder / file, separator=separator, null_values=["?", " ?"], infer_schema_length=None)
    target = target or frame.columns[-1]
    frame = frame.drop(*drop)
    columns, marks = [], []
    for column in frame.drop(target).get_columns():
        text = not column.dtype.is_numeric()
        column = column.str.strip_chars().cast(polars.Categorical).to_physical() if text else column
        columns.append(column.cast(polars.Float64).to_numpy())
        marks.append(text)
    y = frame[target]
    goal = (
        np.unique(y.to_numpy(), return_inverse=True)[1].astype(int) if is_classes else y.cast(polars.Float64).to_numpy()
    )
    return Table(np.column_stack(columns), goal, np.array(marks))


def generated(rows: int) -> dict[str, Callable[[], tuple[Any, ...]]]:
    """Tables of very different kinds: (x, y) or (x, y, categories)."""
    normal = lambda random, columns: random.normal(size=(rows, columns))

    def tails(random: np.random.Generator) -> tuple:
        x = random.standard_t(1.5, size=(rows, 8))
        return x, np.tanh(x[:, 0]) * np.sign(x[:, 1]) + np.log1p(np.abs(x[:, 2])) + 0.3 * random.normal(size=rows)

    def spikes(random: np.random.Generator) -> tuple:
        x = np.where(random.random((rows, 8)) < 0.6, 0, np.exp(1.5 * normal(random, 8)))
        y = 2.0 * (x[:, 0] > 0) + np.log1p(x[:, 1]) * (x[:, 2] > 0) + 0.5 * np.sqrt(x[:, 3])
        return x, y + 0.5 * random.normal(size=rows)

    def steps(random: np.random.Generator) -> tuple:
        x = random.uniform(size=(rows, 6))
        y = np.floor(5 * x[:, 0]) * (x[:, 1] > 0.6) + 3 * (x[:, 2] > 0.3) * (x[:, 3] > 0.7)
        return x, y + 0.3 * random.normal(size=rows)

    def levels(random: np.random.Generator) -> tuple:
        sizes, z = (3, 8, 20, 40), normal(random, 3)
        codes = [random.integers(0, size, rows) for size in sizes]
        a, b, c, d = (random.normal(size=size)[code] for size, code in zip(sizes, codes, strict=True))
        y = a * z[:, 0] + b + c * np.sin(2 * z[:, 1]) + d + 0.5 * random.normal(size=rows)
        return np.column_stack([z, *codes]), y, np.array([False] * 3 + [True] * 4)

    def wide(random: np.random.Generator) -> tuple:
        x = normal(random, 120)
        return x, x[:, :5].sum(axis=1) + x[:, 5] * x[:, 6] + 0.5 * random.normal(size=rows)

    def noise(random: np.random.Generator) -> tuple:
        return normal(random, 10), random.normal(size=rows)

    return {
        "friedman, no noise": lambda: datasets.make_friedman1(rows, noise=0, random_state=0),
        "friedman, noise": lambda: datasets.make_friedman1(rows, noise=2, random_state=0),
        "heavy tails": lambda: tails(np.random.default_rng(70)),
        "spikes": lambda: spikes(np.random.default_rng(71)),
        "steps": lambda: steps(np.random.default_rng(72)),
        "levels": lambda: levels(np.random.default_rng(73)),
        "wide": lambda: wide(np.random.default_rng(74)),
        "nothing but noise": lambda: noise(np.random.default_rng(75)),
        "four classes": lambda: datasets.make_classification(rows, 20, n_informative=10, n_classes=4, random_state=0),
    }


def tables(folder: Path | None, rows: int) -> dict[str, Callable[[], Table]]:
    """All there are, by name."""

    def plain(made: tuple[Any, ...]) -> Table:
        x, y = made[:2]
        marks = made[2] if len(made) > 2 else np.zeros(x.shape[1], bool)
        return Table(
            np.asarray(x, float), y.astype(int) if y.dtype.kind in "iu" and len(np.unique(y)) < 20 else y, marks
        )

    found: dict[str, Callable[[], Table]] = {}
    if folder is not None:
        found |= {name: lambda name=name: read(folder, name) for name in FILES if (folder / FILES[name][0]).is_file()}
    found |= {name: lambda load=load: _bundled(load) for name, load in BUNDLED.items()}
    found |= {name: lambda make=make: plain(make()) for name, make in generated(rows).items()}
    return found


def _bundled(load: Callable[..., Any]) -> Table:
    x, y = load(return_X_y=True)
    return Table(x, y.astype(int) if y.dtype.kind in "iu" else y, np.zeros(x.shape[1], bool))


def methods(table: Table) -> dict[str, Callable[[], Any]]:
    """Estimators without settings, by name."""
    marks = table.is_category
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    levels = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore", min_frequency=5)
    )
    flat = lambda: ColumnTransformer([("n", numbers, ~marks), ("c", levels, marks)], sparse_threshold=0)
    goal = lambda model: model if table.is_classes else TransformedTargetRegressor(model, transformer=StandardScaler())
    mlp, linear = (
        (MLPClassifier, lambda: LogisticRegression(max_iter=2000)) if table.is_classes else (MLPRegressor, Ridge)
    )
    trees = HistGradientBoostingClassifier if table.is_classes else HistGradientBoostingRegressor
    sca = SCAClassifier if table.is_classes else SCARegressor
    found: dict[str, Callable[[], Any]] = {
        "scax": lambda: sca(categorical_features=marks, random_state=0),
        "scax, 1 network": lambda: sca(categorical_features=marks, random_state=0, n_members=1),
        "linear": lambda: make_pipeline(flat(), goal(linear())),
        "MLP": lambda: make_pipeline(flat(), goal(mlp(random_state=0))),
        "MLP, early stopping": lambda: make_pipeline(flat(), goal(mlp(random_state=0, early_stopping=True))),
        "HistGradientBoosting": lambda: trees(categorical_features=marks, random_state=0),
    }
    with contextlib.suppress(ImportError):
        from lightgbm import LGBMClassifier, LGBMRegressor

        light = LGBMClassifier if table.is_classes else LGBMRegressor
        found["LightGBM"] = lambda: OnFrames(light(random_state=0, verbose=-1), marks)
    with contextlib.suppress(ImportError):
        from catboost import CatBoostClassifier, CatBoostRegressor

        cat = CatBoostClassifier if table.is_classes else CatBoostRegressor
        options = {"cat_features": np.flatnonzero(marks).tolist(), "allow_writing_files": False}
        found["CatBoost"] = lambda: OnFrames(cat(random_state=0, verbose=0, **options), marks)
    with contextlib.suppress(ImportError):
        import torch
        from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

        device = "cuda" if torch.cuda.is_available() else "cpu"
        real = RealMLP_TD_Classifier if table.is_classes else RealMLP_TD_Regressor
        found["RealMLP"] = lambda: OnFrames(make_pipeline(FillNumbers(), real(random_state=0, device=device)), marks)
    return found


class OnFrames:
    """A model that takes categories as columns of a frame of pandas."""

    def __init__(self, model: Any, marks: np.ndarray):
        self.model, self.marks = model, marks

    def fit(self, x: np.ndarray, y: np.ndarray) -> None:
        self.model.fit(self._frame(x), y)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(self._frame(x)))

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict_proba(self._frame(x)))

    def _frame(self, x: np.ndarray) -> Any:
        import pandas

        text = lambda v: "missing" if np.isnan(v) else f"{v:g}"
        parts = {f"c{j}": pandas.Series([text(v) for v in x[:, j]], dtype="category") if on else x[:, j]
                 for j, on in enumerate(self.marks.tolist())}  # fmt: skip
        return pandas.DataFrame(parts)


class FillNumbers(TransformerMixin, BaseEstimator):
    """The median for missing numbers, which RealMLP does not take; categories as they are."""

    def fit(self, x: Any, y: Any = None) -> "FillNumbers":
        self.median_ = x.median(numeric_only=True)
        return self

    def transform(self, x: Any) -> Any:
        return x.fillna(self.median_)


def error(model: Any, x: np.ndarray, y: np.ndarray, train: np.ndarray) -> float:
    """On new rows, in units of what is known without the columns."""
    if y.dtype.kind != "i":
        return float(np.sqrt(np.mean((model.predict(x) - y) ** 2)) / np.sqrt(np.mean((train.mean() - y) ** 2)))
    log_loss = lambda p: -np.mean(np.log(np.clip(p[np.arange(len(y)), y], 1e-12, 1)))
    shares = np.bincount(train, minlength=y.max() + 1) / len(train)
    return float(log_loss(model.predict_proba(x)) / log_loss(np.tile(shares, (len(y), 1))))


def measure(table: Table, name: str, seed: int, rows: int) -> dict[str, float]:
    """One method on one split."""
    order = np.random.default_rng(seed).permutation(len(table.y))
    count = min(rows, int(0.75 * len(order)))
    train, test = order[:count], order[count : count + 5000]
    model, clock, wall = methods(table)[name](), time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table.x[train], table.y[train])
        took, wall = time.process_time() - clock, time.perf_counter() - wall
        found = error(model, table.x[test], table.y[test], table.y[train])
    about = {"split": seed, "rows": count, "columns": table.x.shape[1]}
    if name.startswith("scax") and seed == 0:  # the program is compiled
        clock = time.process_time()
        methods(table)[name]().fit(table.x[train], table.y[train])
        about["second_fit_seconds"] = time.process_time() - clock
    return {"error": found, "processor_seconds": took, "seconds": wall, **about}


def comparable(results: dict[str, Any]) -> dict[str, Any]:
    """Of each table the splits that all methods have which were tried on all tables."""
    everywhere = [name for name in _order(results) if all(name in each for each in results.values())]
    found = {}
    for table, each in results.items():
        common = set.intersection(*({split["split"] for split in each[name]} for name in everywhere))
        some = {name: [split for split in splits if split["split"] in common] for name, splits in each.items()}
        found[table] = {name: splits for name, splits in some.items() if splits}
    return found


def ranks(results: dict[str, Any]) -> dict[str, float]:
    """The mean rank of each method that was tried on all tables."""
    names = [name for name in _order(results) if all(name in each for each in results.values())]
    errors = np.array([[_mean(each[name], "error") for name in names] for each in results.values()])
    order = errors.argsort(axis=1).argsort(axis=1) + 1
    return dict(zip(names, order.mean(axis=0).tolist(), strict=True))


def draw(results: dict[str, Any], path: Path) -> None:
    """Every method's errors beside those of scax: a dot for each table, left of the line where scax is behind."""
    results = comparable(results)
    from matplotlib.figure import Figure

    found = sorted(((rank, name) for name, rank in ranks(results).items()), reverse=True)
    figure = Figure(figsize=(8, 0.4 * len(found) + 1.1), layout="constrained")
    axes = figure.subplots()
    for place, (_, name) in enumerate(found):
        ratio = _over_scax(results, name)
        axes.plot(np.clip(ratio, *SHOWN), np.full(len(ratio), place), "o", ms=5, alpha=0.5, color="C0")
        axes.plot(np.exp(np.mean(np.log(ratio))), place, "|", ms=18, mew=2.5, color="C1")
    axes.axvline(1, color="gray", lw=0.8)
    axes.set_xscale("log")
    axes.set_xticks(ticks := [0.5, 0.7, 1, 1.5, 2, 3], [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(found)), [f"{name} (mean rank {rank:.1f})" for rank, name in found])
    axes.set_xlabel("error over that of scax: a dot for each table (beyond 3 at 3),\na bar for the geometric mean")
    figure.savefig(path, metadata={"Date": None})


def _over_scax(results: dict[str, Any], name: str) -> list[float]:
    """The errors of a method over those of scax, one for each table."""
    return [_mean(each[name], "error") / _mean(each["scax"], "error") for each in results.values() if name in each]


def _mean(splits: list[dict[str, float]], what: str) -> float:
    return float(np.mean([split[what] for split in splits]))


def page(results: dict[str, Any]) -> str:
    """The table of the docs."""
    results = comparable(results)
    names = [name for name in _order(results) if all(name in each for each in results.values())]
    lines = [
        "| table | rows × columns | splits | " + " | ".join(names) + " | scax, processor s |",
        "|---" * (len(names) + 4) + "|",
    ]
    for table, each in results.items():
        errors = {name: _mean(each[name], "error") for name in names}
        size = next(iter(each.values()))[0]
        cells = [
            f"**{errors[n]:.3f}**"
            if errors.get(n) == min(errors.values())
            else f"{errors[n]:.3f}"
            if n in errors
            else "–"
            for n in names
        ]
        mark = " ●" if table in SEEN else ""
        mark += " †" if any("recipe" in split for split in each["scax"]) else ""
        cost = f"{min(split['processor_seconds'] for split in each['scax']):.0f}"
        shape = f"{size['rows']:,} × {size['columns']} | {len(each['scax'])}"
        lines.append(f"| {table}{mark} | {shape} | " + " | ".join(cells) + f" | {cost} |")
    found = ranks(results)
    if found:
        mean = lambda name: np.exp(np.mean([np.log(ratio) for ratio in _over_scax(results, name)]))
        median = lambda name: np.median(_over_scax(results, name))
        for what, of in (("geometric mean", mean), ("median", median)):
            lines.append(
                f"| error over that of scax, {what} | | | " + " | ".join(f"{of(n):.2f}" for n in names) + " | |"
            )
        lines.append("| mean rank | | | " + " | ".join(f"{found[name]:.1f}" for name in names) + " | |")
    return "\n".join(lines)


def _order(results: dict[str, Any]) -> dict[str, None]:
    return {name: None for each in results.values() for name in each}


def merge(found: dict[str, Any], name: str, method: str, split: dict[str, float]) -> None:
    """Put one split in its place; it replaces an earlier result of the same split."""
    splits = found.setdefault(name, {}).setdefault(method, [])
    splits[:] = sorted([s for s in splits if s["split"] != split["split"]] + [split], key=lambda s: s["split"])


def run(job: tuple[Path | None, str, str, int, int]) -> tuple[str, str, dict[str, float]]:
    folder, name, method, split, rows = job
    return name, method, measure(tables(folder, int(rows / 0.75))[name](), method, split, rows)


def jobs(given: argparse.Namespace) -> list[tuple[Path | None, str, str, int, int]]:
    """First splits first; methods of one table together, which share compiled programs."""
    chosen = []
    for split in map(int, given.splits.split(",")):
        for name, make in tables(given.data, int(given.rows / 0.75)).items():
            if name == "wide" or (given.tables and name not in given.tables.split(";")):
                continue
            names = given.methods.split(";") if given.methods else list(methods(make()))
            chosen += [(given.data, name, method, split, given.rows) for method in names]
    return chosen


def results(queue: list, processes: int, seconds: float) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Of the jobs that are done in time."""
    if processes == 1:
        until = time.time() + seconds
        yield from (run(job) for job in itertools.takewhile(lambda _: time.time() < until, queue))
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        done, until = pool.imap_unordered(run, queue), time.time() + seconds
        for _ in queue:
            try:
                yield done.next(max(0.1, until - time.time()))
            except multiprocessing.TimeoutError:
                return
            except Exception as error:  # of one method on one table
                print(f"{type(error).__name__}: {error}", flush=True)


def write(found: dict[str, Any], into: Path) -> None:
    into.write_text(json.dumps({"command": "python -m benchmarks.tables --write", "tables": found}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", default="", help="names with ; between")
    parser.add_argument("--methods", default="", help="names with ; between")
    parser.add_argument("--rows", type=int, default=7500, help="training rows at most")
    parser.add_argument("--splits", default="0")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--merge", type=Path, nargs="*")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    into = RESULTS if given.write else given.into
    found = json.loads(into.read_text())["tables"] if into is not None and into.is_file() else {}
    if given.merge is not None:
        for path in given.merge:
            for name, each in json.loads(path.read_text())["tables"].items():
                for method, splits in each.items():
                    for split in splits:
                        merge(found, name, method, split)
    else:
        for name, method, split in results(jobs(given), given.processes, given.seconds):
            merge(found, name, method, split)
            took = split["processor_seconds"]
            print(f"{name:20} {method:22} {split['split']} {split['error']:.4f}  {took:.1f} s", flush=True)
            if into is not None:
                write(found, into)
    if given.write:
        write(found, RESULTS)
        pages.write_tables(PAGE, {"tables": page(found)})
        draw(found, PLOT)
    if all("scax" in each for each in found.values()):
        print(page(found))


if __name__ == "__main__":
    main()

"""SCARegressor and SCAClassifier with default settings against scikit-learn's MLPs, default and grid-tuned.

    python -m benchmarks.estimators [--repeats 2] [--sets iris,wine] [--write]

Every fold is fitted by all methods one after the other in one process, so that times are comparable; the table gives
their ratio. The MLPs get standardized inputs, and targets, which is their best setting. "Tuned" is the setting with the
best average score *on the test folds* over a grid of alpha, width and learning rate: more than a user could have.
`--write` puts the table into docs/measurements/estimators.md.
"""

import argparse
import itertools
import platform
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import sklearn
from sklearn import datasets
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scax.estimators import SCAClassifier, SCARegressor

SETS = {
    "diabetes": datasets.load_diabetes,
    "linnerud": datasets.load_linnerud,
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "iris": datasets.load_iris,
    "digits": datasets.load_digits,
}
REGRESSION = ("diabetes", "linnerud")
GRID = {
    "alpha": (1e-4, 1e-2, 1.0),
    "hidden_layer_sizes": ((32,), (100,)),
    "learning_rate_init": (1e-3, 1e-2),
}
PAGE = Path(__file__).parent.parent / "docs" / "measurements" / "estimators.md"
BEGIN, END = "<!-- begin table -->", "<!-- end table -->"


def mlp(regression: bool, **options):
    """scikit-learn's network on standardized data."""
    if not regression:
        return make_pipeline(StandardScaler(), MLPClassifier(random_state=0, **options))
    network = TransformedTargetRegressor(MLPRegressor(random_state=0, **options), transformer=StandardScaler())
    return make_pipeline(StandardScaler(), network)


def measure(name: str, repeats: int) -> dict:
    """Scores and seconds of every method on every fold: arrays [folds], and for the grid [settings, folds]."""
    x, y = SETS[name](return_X_y=True)
    regression = name in REGRESSION
    folds = (RepeatedKFold if regression else RepeatedStratifiedKFold)(n_splits=5, n_repeats=repeats, random_state=0)
    settings = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]
    sca = SCARegressor if regression else SCAClassifier

    def run(model, train, test):
        began = time.perf_counter()
        model.fit(x[train], y[train])
        seconds = time.perf_counter() - began
        return model.score(x[test], y[test]), seconds

    splits = list(folds.split(x, y))
    first = run(sca(random_state=0), *splits[0])[1]
    ours, default, tuned = [], [], [[] for _ in settings]
    for train, test in splits:
        ours.append(run(sca(random_state=0), train, test))
        default.append(run(mlp(regression), train, test))
        for results, setting in zip(tuned, settings, strict=True):
            results.append(run(mlp(regression, **setting), train, test))
    grid = np.array(tuned)
    best = int(grid[:, :, 0].mean(axis=1).argmax())
    return {
        "rows": len(x),
        "features": x.shape[1],
        "first": first,
        "sca": np.array(ours),
        "default": np.array(default),
        "tuned": grid[best],
        "setting": settings[best],
        "search": grid[:, :, 1].sum() / len(splits),
    }


def table(results: dict[str, dict]) -> str:
    lines = [
        "| set | rows × features | SCA, default | MLP, default | MLP, tuned | time per fit, SCA | MLP default ÷ SCA "
        "| MLP tuned ÷ SCA | first fit |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, r in results.items():
        score = {who: r[who][:, 0].mean() for who in ("sca", "default", "tuned")}
        seconds = {who: np.median(r[who][:, 1]) for who in ("sca", "default", "tuned")}
        mark = {who: "" if score["sca"] >= score[who] - 5e-5 else " ▲" for who in ("default", "tuned")}
        slow = {who: "" if seconds["sca"] <= seconds[who] else " ▲" for who in ("default", "tuned")}
        lines.append(
            f"| {name} | {r['rows']} × {r['features']} | {score['sca']:.4f} | {score['default']:.4f}{mark['default']} "
            f"| {score['tuned']:.4f}{mark['tuned']} | {seconds['sca'] * 1e3:.0f} ms "
            f"| {seconds['default'] / seconds['sca']:.1f}{slow['default']} "
            f"| {seconds['tuned'] / seconds['sca']:.1f}{slow['tuned']} | {r['first']:.1f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2, help="times the 5 folds are drawn anew")
    parser.add_argument("--sets", default=",".join(SETS), help="which data sets")
    parser.add_argument("--write", action="store_true", help="put the table into docs/measurements/estimators.md")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    results = {}
    for name in arguments.sets.split(","):
        results[name] = measure(name, arguments.repeats)
        print(table({name: results[name]}).splitlines()[-1], results[name]["setting"], flush=True)
    versions = (
        f"Python {platform.python_version()}, jax {jax.__version__}, scikit-learn {sklearn.__version__}, "
        f"{platform.machine()}, {arguments.repeats} × 5 folds, {time.strftime('%Y-%m-%d')}."
    )
    text = f"{BEGIN}\n{table(results)}\n\n{versions}\n{END}"
    print(text)
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(before + text + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()

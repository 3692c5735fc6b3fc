"""Train on extreme numbers and see that no infinity is silent: python -m benchmarks.extremes --fits 200 --trains 100

Values of 1e-300 to 1e300, constant and empty columns, single rows, weights of all sizes, losses of all kinds, learning
rates far too large. Each call must end with finite predictions, with a warning that says so, or with a refusal. All
rows have one shape, so that few programs are compiled. Every failure is printed with the number that makes it again
(`--only NUMBER`).
"""

import argparse
import random
import warnings

import jax
import numpy as np
import optax

import scax

SCALES = [0.0, 1e-300, 1e-45, 1e-30, 1e-10, 1.0, 1e6, 1e10, 1e18, 1e20, 1e30, 1e38, 1e300]
ROWS, INPUTS = 40, 3
NET = scax.MLP((INPUTS, 3, 1))
LOSSES = [scax.Squared(), scax.Huber(1.0), scax.Logistic(), scax.Poisson()]
REFUSALS = (ValueError, TypeError)


def table(rng: random.Random, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets, each of a scale of its own, some columns or rows of another."""
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    x, y = numbers.normal(size=(ROWS, INPUTS)), numbers.normal(size=ROWS)
    with np.errstate(over="ignore", under="ignore"):
        for _ in range(rng.choice([0, 1, 1, 2])):
            part = rng.choice([slice(None), np.s_[:, rng.randrange(INPUTS)], np.s_[rng.randrange(ROWS)]])
            x[part] = x[part] * rng.choice(SCALES) + rng.choice([0.0, 0.0, *SCALES])
        y = y * rng.choice(SCALES) + rng.choice([0.0, 0.0, *SCALES])
        if rng.random() < 0.2:
            y[rng.randrange(ROWS)] = rng.choice(SCALES)
        return x.astype(dtype), y.astype(dtype)


def weights(rng: random.Random) -> np.ndarray | None:
    if rng.random() < 0.7:
        return None
    weight = np.full(ROWS, rng.choice(SCALES))
    weight[: rng.randrange(ROWS)] *= rng.choice([0.0, 1.0, 1e-30])
    return weight


def train_once(rng: random.Random) -> bool:
    """One call of `scax.train`; whether all it gave is finite."""
    x, y = table(rng, rng.choice([np.float32, np.float64]))
    loss = rng.choice(LOSSES)
    if isinstance(loss, scax.Logistic):
        y = (y > 0).astype(x.dtype)
    if isinstance(loss, scax.Poisson):
        y = np.abs(y)
    problem = scax.Problem(NET.apply, loss, scax.L2(rng.choice([0.0, 1e-3, 1e6])))
    sgd = optax.inject_hyperparams(optax.sgd)(learning_rate=rng.choice([0.1, 1e6, 1e30]))
    method = scax.SCA(problem) if rng.random() < 0.7 else scax.baseline(sgd, problem)
    weight, params = weights(rng), NET.init(jax.random.key(0))
    data = (x, y) if weight is None else (x, y, weight)
    result = scax.train(method, params, data, steps=8, batch_size=10, records=2)
    return bool(np.isfinite(result.history["objective"][-1])) and _all_finite(result.params)


def fit_once(rng: random.Random) -> bool:
    """One fit of an estimator; whether all its predictions are finite."""
    from scax.estimators import SCAClassifier, SCARegressor

    x, y = table(rng, np.float64)
    options = {"hidden_layer_sizes": (3,), "alpha": rng.choice([0.0, 1e-3, 1e6]), "max_iter": 2, "random_state": 0}
    options["standardize"] = rng.random() < 0.8
    if rng.random() < 0.6:
        return _all_finite(SCARegressor(**options).fit(x, y, sample_weight=weights(rng)).predict(x))
    return _all_finite(SCAClassifier(**options).fit(x, y > 0, sample_weight=weights(rng)).predict_proba(x))


def _all_finite(tree) -> bool:
    return all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(tree))


def silent(kind: str, number: int) -> str | None:
    """What is wrong with one call: an infinity that nothing was said about, or an error that is no refusal."""
    from sklearn.exceptions import ConvergenceWarning

    rng = random.Random(f"{kind} {number}")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            finite = (train_once if kind == "train" else fit_once)(rng)
        except REFUSALS as error:
            return None if len(str(error)) < 1000 else f"{kind} {number}: refused at length"
        except Exception as error:
            return f"{kind} {number}: {type(error).__name__}: {error}"
    told = [one for one in said if not issubclass(one.category, ConvergenceWarning)]
    if not finite and not any("finite" in str(one.message) or "objective is" in str(one.message) for one in told):
        return f"{kind} {number}: not finite, and nothing said so"
    if lost := [one for one in told if "encountered in" in str(one.message)]:  # NumPy's own: not for a user
        return f"{kind} {number}: {lost[0].message} ({lost[0].filename}:{lost[0].lineno})"
    return None


def run(fits: int, trains: int) -> list[str]:
    calls = [("fit", i) for i in range(fits)] + [("train", i) for i in range(trains)]
    return [wrong for kind, number in calls if (wrong := silent(kind, number)) is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--trains", type=int, default=100)
    parser.add_argument("--only", nargs=2, metavar=("fit|train", "NUMBER"), help="one call again")
    options = parser.parse_args()
    if options.only:
        print(silent(options.only[0], int(options.only[1])) or "as it should be")
        return
    wrong = run(options.fits, options.trains)
    print("\n".join(wrong))
    print(f"{options.fits} fits and {options.trains} trainings, {len(wrong)} of them wrong")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()

"""Error bars: python -m benchmarks.uncertainty [coverage probabilities evidence exact draw].

coverage       95% intervals of SCARegressor on ten tables, beside split conformal with the same network
probabilities  log loss and calibration error with the correction and without, six tables
evidence       strengths by the evidence and by rows held out: scores and processor seconds
exact          std against the dense formula; time and memory (LAPLACE=python with laplace-torch: against that, too)
draw           docs/images/uncertainty.svg and relevance.svg

Results go to docs/results/uncertainty.json after every table. Processor seconds, since the machine may be shared; each
method's first fit of a shape, which compiles, is left out by fitting once before.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_moons,
)  # fmt: skip
from sklearn.model_selection import train_test_split

from scax.estimators import SCAClassifier, SCARegressor
from scax.uncertainty import calibration_error, log_loss

OUT = Path("docs/results/uncertainty.json")
LEVEL = 0.95


def wave(rows: int, seed: int, noise: str) -> tuple[np.ndarray, np.ndarray]:
    """sin(3 x_1) + x_2 with noise of a kind."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (rows, 4))
    draw = {
        "growing": lambda: (0.05 + 0.4 * np.abs(x[:, 0])) * random.standard_normal(rows),
        "skewed": lambda: 0.3 * (random.exponential(1, rows) - 1),
        "heavy": lambda: 0.2 * random.standard_t(3, rows),
        "two levels": lambda: np.where(x[:, 2] > 0.3, 0.5, 0.1) * random.standard_normal(rows),
    }[noise]
    return x, np.sin(3 * x[:, 0]) + x[:, 1] + draw()


def bundled(name: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A table of DATA=folder, or of scikit-learn's, some rows of it."""
    import polars

    separator = ";" if name.startswith("wine") else ","
    frame = polars.read_csv(Path(os.environ["DATA"]) / f"{name}.csv.gz", separator=separator).drop_nulls()
    numbers = frame.select(c for c in frame.columns if frame[c].dtype.is_numeric())
    target = {"casp": "RMSD", "winequality-white": "quality", "kin8nm": "y"}.get(name, numbers.columns[-1])
    target = target if target in numbers.columns else numbers.columns[-1]
    some = np.random.default_rng(seed).permutation(len(numbers))[:rows]
    return numbers.drop(target).to_numpy()[some].astype(float), numbers[target].to_numpy()[some].astype(float)


#: name → (seed → X, y), rows to train on
REGRESSION = {
    "diabetes": (lambda s: load_diabetes(return_X_y=True), 330),
    "friedman1": (lambda s: make_friedman1(2500, noise=1.0, random_state=s), 500),
    "friedman2": (lambda s: make_friedman2(2500, noise=100.0, random_state=s), 500),
    "friedman3": (lambda s: make_friedman3(2500, noise=0.1, random_state=s), 500),
    "growing noise": (lambda s: wave(2500, s, "growing"), 500),
    "two levels of noise": (lambda s: wave(2500, s, "two levels"), 500),
    "skewed noise": (lambda s: wave(2500, s, "skewed"), 500),
    "heavy tails": (lambda s: wave(2500, s, "heavy"), 500),
    "kin8nm": (lambda s: bundled("kin8nm", 4000, s), 500),
    "winequality": (lambda s: bundled("winequality-white", 4000, s), 2000),
}
CLASSES = {
    "breast cancer": (lambda s: load_breast_cancer(return_X_y=True), 300),
    "iris": (lambda s: load_iris(return_X_y=True), 100),
    "wine": (lambda s: load_wine(return_X_y=True), 100),
    "moons": (lambda s: make_moons(2500, noise=0.3, random_state=s), 200),
    "made": (lambda s: make_classification(2500, 16, n_informative=5, flip_y=0.1, random_state=s), 300),
    "digits, 3 classes": (lambda s: _some_digits(), 200),
}


def _some_digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    keep = np.isin(y, (3, 8, 9))
    return x[keep][:, 10:26], np.searchsorted([3, 8, 9], y[keep])


def fit(model, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(x, y)
        return model, time.process_time() - start


def coverage(name: str, seeds: range) -> dict:
    draw, rows = REGRESSION[name]
    found = []
    for seed in seeds:
        a, b, c, d = train_test_split(*draw(seed), train_size=rows, random_state=seed)
        model, seconds = fit(SCARegressor(random_state=seed), a, c)
        start = time.process_time()
        bounds = model.predict_interval(b, LEVEL)
        more = time.process_time() - start
        apart = np.random.default_rng(seed).permutation(rows) < rows // 4
        peer, _ = fit(SCARegressor(random_state=seed), a[~apart], c[~apart])  # finds a strength of its own
        r = np.sort(np.abs(c[apart] - peer.predict(a[apart])))
        q = r[min(int(np.ceil(LEVEL * (len(r) + 1))), len(r)) - 1]
        center = peer.predict(b)
        inside = lambda low, high, d=d: float(np.mean((low <= d) & (d <= high)))
        # the widest against the narrowest fifth of the rows by our width: coverage there
        width = bounds[:, 1] - bounds[:, 0]
        wide = width >= np.quantile(width, 0.8)
        found.append({
            "covered": inside(*bounds.T), "width": float(np.mean(width)),
            "conformal": inside(center - q, center + q), "conformal width": float(2 * q),
            "covered, widest fifth": float(np.mean(((bounds[:, 0] <= d) & (d <= bounds[:, 1]))[wide])),
            "conformal, widest fifth": float(np.mean((np.abs(d - center) <= q)[wide])),
            "seconds": seconds, "seconds of the bars": more,
        })  # fmt: skip
    return {"rows": rows, "runs": found} | {k: float(np.mean([f[k] for f in found])) for k in found[0]}


def probabilities(name: str, seeds: range) -> dict:
    draw, rows = CLASSES[name]
    found = []
    for seed in seeds:
        x, y = draw(seed)
        a, b, c, d = train_test_split(x, y, train_size=rows, random_state=seed, stratify=y)
        model, _ = fit(SCAClassifier(random_state=seed), a, c)
        p, q = model.predict_proba(b), model.predict_proba(b, calibrated=True)
        found.append({
            "log loss": log_loss(p, d), "corrected": log_loss(q, d),
            "error": calibration_error(p, d), "error corrected": calibration_error(q, d),
            "factor": model.error_bars_.calibration[0], "spread": model.error_bars_.calibration[1],
        })  # fmt: skip
    return {"rows": rows, "runs": found} | {k: float(np.mean([f[k] for f in found])) for k in found[0]}


EVIDENCE = {
    "diabetes": (SCARegressor, *REGRESSION["diabetes"]),
    "friedman1, 100 rows": (SCARegressor, REGRESSION["friedman1"][0], 100),
    "friedman1": (SCARegressor, *REGRESSION["friedman1"]),
    "friedman2": (SCARegressor, *REGRESSION["friedman2"]),
    "friedman3": (SCARegressor, *REGRESSION["friedman3"]),
    "growing noise": (SCARegressor, *REGRESSION["growing noise"]),
    "heavy tails": (SCARegressor, *REGRESSION["heavy tails"]),
    "kin8nm": (SCARegressor, *REGRESSION["kin8nm"]),
    "breast cancer": (SCAClassifier, *CLASSES["breast cancer"]),
    "moons": (SCAClassifier, *CLASSES["moons"]),
    "made": (SCAClassifier, *CLASSES["made"]),
    "winequality": (SCARegressor, *REGRESSION["winequality"]),
}


def evidence(name: str, seeds: range) -> dict:
    kind, draw, rows = EVIDENCE[name]
    found = []
    for seed in seeds:
        x, y = draw(seed)
        a, b, c, d = train_test_split(x, y, train_size=rows, random_state=seed)
        entry = {}
        for way, estimator in (("held out", kind(alpha="held_out")), ("evidence", kind(alpha="evidence"))):
            if seed == seeds[0]:
                fit(clone(estimator).set_params(random_state=seed), a, c)  # compiles
            model, seconds = fit(estimator.set_params(random_state=seed), a, c)
            if kind is SCARegressor:
                loss = float(np.mean((model.predict(b) - d) ** 2) / np.var(d))
            else:
                loss = log_loss(model.predict_proba(b), d)
            entry |= {f"{way} loss": loss, f"{way} seconds": seconds, f"{way} strength": model.alpha_}
        found.append(entry)
    mean = {k: float(np.mean([f[k] for f in found])) for k in found[0] if "strength" not in k}
    return {"rows": rows, "runs": found} | mean


SYSTEM = """
import json, os, sys, time
import numpy as np
folder, peer = sys.argv[1:]
with np.load(folder + "/data.npz") as f:
    x, y, new, ridge = f["x"], f["y"], f["new"], float(f["ridge"])
    layers = [(f[f"w{i}"], f[f"b{i}"]) for i in range(3)]
about = {}
if peer == "laplace":
    import torch
    from laplace import Laplace
    torch.set_default_dtype(torch.float64 if len(x) < 1000 else torch.float32)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    net = torch.nn.Sequential(*[m for w, b in layers for m in (torch.nn.Linear(*w.shape), torch.nn.Tanh())][:-1])
    with torch.no_grad():
        for layer, (w, b) in zip([m for m in net if isinstance(m, torch.nn.Linear)], layers):
            layer.weight.copy_(torch.tensor(w.T)); layer.bias.copy_(torch.tensor(b))
    t = lambda a: torch.tensor(a, dtype=torch.get_default_dtype())
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(t(x), t(y)[:, None]), batch_size=256)
    cpu, wall = time.process_time(), time.perf_counter()
    la = Laplace(net, "regression", subset_of_weights="all", hessian_structure="full", sigma_noise=1.0,
                 prior_precision=len(x) * ridge / 2)
    la.fit(data)
    std = torch.cat([la(part, pred_type="glm")[1][:, 0, 0] for part in t(new).split(256)]).sqrt().numpy()
else:
    import jax, scax
    net = scax.MLP((layers[0][0].shape[0], *(len(b) for _, b in layers)))
    params = [{"weight": w, "bias": b} for w, b in layers]
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(ridge))
    cpu, wall = time.process_time(), time.perf_counter()
    import warnings; warnings.simplefilter("ignore")
    post = scax.posterior(problem, params, (x, y), noise=1.0)
    std, about = post.predict(new)[1][:, 0], {"form": post.explain(), "effective weights": post.effective_weights}
with open("/proc/self/status") as f:
    peak = next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))
print(json.dumps(about | {"std": std.tolist(), "seconds": time.perf_counter() - wall,
                  "processor": time.process_time() - cpu,
                  "memory": peak}))
"""


def exact(rows: int, hidden: tuple[int, int], trained: bool = True, features: int = 10) -> dict:
    """The same network for all, trained or as it starts: std of f for `rows` new rows from a posterior of as many."""
    import jax

    import scax

    random = np.random.default_rng(0)
    x, new = random.standard_normal((rows, features)), random.standard_normal((rows, features))
    y, ridge = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * random.standard_normal(rows), 1e-3
    net = scax.MLP((features, *hidden, 1))
    params = net.init(jax.random.key(0))
    if trained:
        sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(ridge)))
        params = scax.train(sca, params, (x, y), steps=1500, batch_size=min(rows, 128), records=1).params
    layers = [(np.asarray(layer["weight"], float), np.asarray(layer["bias"], float)) for layer in params]
    found: dict = {"rows": rows, "weights": sum(w.size + b.size for w, b in layers)}
    with tempfile.TemporaryDirectory() as folder:
        named = {f"{n}{i}": part for i, layer in enumerate(layers) for n, part in zip("wb", layer, strict=True)}
        np.savez(Path(folder) / "data.npz", x=x, y=y, new=new, ridge=ridge, **named)
        runs = {"scax": sys.executable} | ({"laplace": os.environ["LAPLACE"]} if "LAPLACE" in os.environ else {})
        std = {}
        for name, python in runs.items():
            done = subprocess.run([python, "-c", SYSTEM, folder, name], capture_output=True, text=True)
            if done.returncode:
                found[name] = {"failed": (done.stderr.strip().splitlines() or [f"ended by {done.returncode}"])[-1]}
                continue
            found[name] = json.loads(done.stdout.splitlines()[-1])
            std[name] = np.array(found[name].pop("std"))
    if rows <= 1000:
        from scax.storage.network import jacobian

        j, at = (jacobian(layers, "tanh", "linear", part)[1][:, 0] for part in (x, new))
        a = j.T @ j + rows * ridge / 2 * np.eye(j.shape[1])
        std["dense"] = np.sqrt(np.einsum("nq,qn->n", at, np.linalg.solve(a, at.T)))
    for name in set(std) - {"scax"}:
        found[f"largest relative difference to {name}"] = float(np.max(np.abs(std["scax"] / std[name] - 1)))
    return found


SIZES = {
    "small": (400, (20, 20), True),
    "medium": (3000, (50, 50), True),
    "large": (10_000, (94, 94), True),
    "large, not trained": (10_000, (94, 94), False),
}


def markdown(results: dict) -> str:
    """The tables of docs/guides/uncertainty.md."""
    lines = ["| table | rows | covered | width | split conformal covered | its width |", "|---|---|---|---|---|---|"]
    for name, t in results.get("coverage", {}).items():
        lines.append(
            f"| {name} | {t['rows']:,} | {t['covered']:.3f} | {t['width']:.3g} | {t['conformal']:.3f} "
            f"| {t['conformal width']:.3g} |"
        )
    lines += [
        "",
        "| table | rows | log loss | corrected | calibration error | corrected |",
        "|---|---|---|---|---|---|",
    ]
    for name, t in results.get("probabilities", {}).items():
        lines.append(
            f"| {name} | {t['rows']:,} | {t['log loss']:.4f} | {t['corrected']:.4f} | {t['error']:.3f} "
            f"| {t['error corrected']:.3f} |"
        )
    head = "table | rows | loss: held out | evidence | seconds: held out | evidence"
    lines += ["", f"| {head} |", "|---|---|---|---|---|---|"]
    for name, t in results.get("evidence", {}).items():
        lines.append(
            f"| {name} | {t['rows']:,} | {t['held out loss']:.4f} | {t['evidence loss']:.4f} "
            f"| {t['held out seconds']:.2f} | {t['evidence seconds']:.2f} |"
        )
    return "\n".join(lines)


def draw(results: dict) -> None:
    """docs/images/uncertainty.svg: bars of a curve, and coverage and width of the tables measured."""
    pyplot = _pyplot()
    random = np.random.default_rng(0)
    x = np.concatenate([random.uniform(-3, -0.5, 120), random.uniform(0.7, 3, 120)])
    y = np.sin(2 * x) + (0.05 + 0.12 * np.abs(x)) * random.standard_normal(240)
    model, _ = fit(SCARegressor(random_state=0, alpha=1e-3), x[:, None], y)
    at = np.linspace(-4.5, 4.5, 300)
    low, high = model.predict_interval(at[:, None]).T
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    left.fill_between(at, low, high, color="#4878d0", alpha=0.25, linewidth=0)
    left.plot(at, model.predict(at[:, None]), color="#4878d0")
    left.scatter(x, y, s=5, color="#333333", linewidths=0)
    left.set(title="95% intervals; rows end at ±3", xlabel="x", ylabel="y")
    tables = results["coverage"]
    place = np.arange(len(tables))[::-1]
    middle.axvspan(0.93, 0.97, color="#dddddd", linewidth=0)
    for key, color, label in (("conformal", "#d65f5f", "split conformal"), ("covered", "#4878d0", "scax")):
        middle.scatter([t[key] for t in tables.values()], place, s=22, color=color, label=label)
    middle.set(title="share covered, 95% asked", xlim=(0.9, 1.0))
    middle.set_yticks(place, list(tables))
    middle.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncol=2, frameon=False)
    right.axvline(1, color="#999999", linewidth=1)
    right.scatter([t["width"] / t["conformal width"] for t in tables.values()], place, s=22, color="#4878d0")
    right.set(title="width over split conformal's")
    right.set_yticks(place, [""] * len(place))
    _write(figure, "uncertainty")


def relevance() -> None:
    """docs/images/relevance.svg: how large the evidence lets the weights of each column be; y depends on five."""
    pyplot = _pyplot()
    model, _ = fit(SCARegressor(alpha="evidence", random_state=0), *make_friedman1(500, noise=1.0, random_state=0))
    figure, axes = pyplot.subplots(figsize=(5.5, 2.6), layout="constrained")
    axes.bar(np.arange(1, 11), model.relevance_, color=["#4878d0"] * 5 + ["#bbbbbb"] * 5)
    axes.set(yscale="log", xlabel="column", title="relevance_; y depends on columns 1 to 5")
    axes.set_xticks(np.arange(1, 11))
    _write(figure, "relevance")
    print("relevance", np.round(model.relevance_, 4).tolist())


def _pyplot():
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {
        "svg.hashsalt": "scax",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    from matplotlib import pyplot

    return pyplot


def _write(figure, name: str) -> None:
    figure.savefig(OUT.parent.parent / "images" / f"{name}.svg", metadata={"Date": None})
    if "PNG" in os.environ:
        figure.savefig(Path(os.environ["PNG"]) / f"{name}.png", dpi=80)


def measure(part: str, name: str, seeds: range) -> dict:
    if part == "exact":
        rows, hidden, trained = SIZES[name]
        return exact(rows, hidden, trained)
    return {"coverage": coverage, "probabilities": probabilities, "evidence": evidence}[part](name, seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["coverage", "probabilities", "evidence", "exact", "draw"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="tables whose names begin so")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (not for exact)")
    args = parser.parse_args()
    tables = {"coverage": REGRESSION, "probabilities": CLASSES, "evidence": EVIDENCE, "exact": SIZES}
    todo = [(part, n) for part in args.parts if part != "draw" for n in tables[part] if n.startswith(args.only)]
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(measure, *job, range(args.seeds)): job for job in todo}
        for future in as_completed(futures):
            (part, name), found = futures[future], future.result()
            results = json.loads(OUT.read_text()) if OUT.exists() else {}
            entries = results.get(part, {}) | {name: found}
            results[part] = {n: entries[n] for n in tables[part] if n in entries}
            OUT.write_text(json.dumps(results, indent=1) + "\n")
            shown = {k: round(v, 4) for k, v in found.items() if isinstance(v, float)}
            print(part, name, shown, flush=True)
    if "draw" in args.parts:
        draw(json.loads(OUT.read_text()))
        relevance()
        print(markdown(json.loads(OUT.read_text())))


if __name__ == "__main__":
    main()

"""What a comparison says, in numbers: means with intervals, paired differences, iterations to a level."""

import math
from typing import NamedTuple

import numpy as np

from ..storage.run_files import Comparison, MethodResults


class Interval(NamedTuple):
    """A mean and half the width of its 95% interval (Student's t); the half width is None for a single value."""

    mean: float
    half: float | None

    @property
    def excludes_zero(self) -> bool:
        return self.half is not None and abs(self.mean) > self.half


class Row(NamedTuple):
    """One method of the final table."""

    name: str
    label: str
    setting: str
    tried: int
    objective: Interval
    score: Interval
    objective_less_ours: Interval | None  # paired: this method's final objective minus SCA's, same splits
    score_less_ours: Interval | None
    near: int | None  # iterations to within NEAR of the best final objective; None where most repeats never get there
    iterations: int | None  # iterations to Adam's final objective, likewise
    seconds: float
    seconds_near: float | None


REFERENCE = "adam"  # whose final objective the others are asked to reach
NEAR = 0.1  # "near the best": at most this far above the lowest final objective of any method, in each repeat


def rows(results: Comparison) -> list[Row]:
    """One row per method, in the order they ran."""
    methods, steps = results["methods"], results["settings"]["steps"]
    ours = methods.get("sca")
    finals = {name: _finals(method) for name, method in methods.items()}
    level = finals.get(REFERENCE)
    best = np.nanmin(list(finals.values()), axis=0)
    unscored = set(results["one_class"])  # repeats in which no method can have an AUC
    scored = lambda values: [v for i, v in enumerate(values) if i not in unscored]
    out = []
    for name, method in methods.items():
        near = iterations_to(method, (1 + NEAR) * best, results["ends"])
        reached = None if level is None else iterations_to(method, level, results["ends"])
        out.append(
            Row(
                name=name,
                label=method["label"],
                setting=setting(method),
                tried=max(1, len(method["tried"])),
                objective=interval(method["objective"]),
                score=interval(scored(method["score"])),
                objective_less_ours=_difference(method, ours, "objective"),
                score_less_ours=_difference(method, ours, "score", scored),
                near=near,
                iterations=reached,
                seconds=method["seconds_per_step"] * steps,
                seconds_near=None if near is None else near * method["seconds_per_step"],
            )
        )
    return out


def best(table: list[Row], larger_is_better: bool) -> dict[str, set[str]]:
    """For each column of the table, the methods with the best value in it."""
    sign = -1 if larger_is_better else 1
    columns = {
        "objective": {r.name: r.objective.mean for r in table},
        "score": {r.name: sign * r.score.mean for r in table},
        "near": {r.name: r.near for r in table},
        "iterations": {r.name: r.iterations for r in table},
        "seconds": {r.name: r.seconds for r in table},
    }
    out = {}
    for column, values in columns.items():
        finite = {name: v for name, v in values.items() if v is not None and math.isfinite(v)}
        out[column] = {name for name, v in finite.items() if v == min(finite.values())} if len(table) > 1 else set()
    return out


def setting(method: MethodResults) -> str:
    chosen = method["setting"]
    if chosen is None:
        return "defaults"
    return f"{chosen['rate']:g}, {chosen['decay']}" + (" (edge of the grid)" if chosen["at_edge"] else "")


def interval(values) -> Interval:
    """Mean and 95% interval over repeats."""
    finite = np.array([np.nan if v is None else v for v in values], float)
    n = len(finite)
    if n < 2:
        return Interval(float(finite.mean()) if n else math.nan, None)
    from scipy.special import stdtrit

    return Interval(float(finite.mean()), float(stdtrit(n - 1, 0.975) * finite.std(ddof=1) / math.sqrt(n)))


def _finals(method: MethodResults) -> np.ndarray:
    """Each repeat's final objective, on the rows of the curves."""
    return np.array([repeat[-1] for repeat in method["curves"]["objective"]], float)


def iterations_to(method: MethodResults, levels: np.ndarray, ends: list[int]) -> int | None:
    """The median over repeats of the first recorded iteration at or below the repeat's level."""
    firsts = []
    for curve, level in zip(method["curves"]["objective"], levels, strict=True):
        reached = [end for end, value in zip(ends, curve, strict=True) if value is not None and value <= level]
        firsts.append(reached[0] if reached else math.inf)
    median = float(np.median(firsts))
    return round(median) if math.isfinite(median) else None


def _difference(method, ours, key: str, of=lambda values: values) -> Interval | None:
    if ours is None or method is ours:
        return None
    pairs = zip(of(method[key]), of(ours[key]), strict=True)
    return interval([None if a is None or b is None else a - b for a, b in pairs])


def headline(results: Comparison, table: list[Row]) -> str:
    """The finding in a sentence or two, whichever way it went."""
    ours = next((r for r in table if r.name == "sca"), None)
    others = [r for r in table if r.name != "sca" and math.isfinite(r.objective.mean)]
    if ours is None or not others:
        return ""
    text = []
    quickest = min((r for r in others if r.near is not None), key=lambda r: r.near or 0, default=None)
    if ours.near is not None:
        text.append(
            f"SCA, with its defaults, comes within {NEAR:.0%} of the best final objective after {ours.near} iterations"
            + (f"; the quickest tuned baseline, {quickest.label}, after {quickest.near}." if quickest else ".")
        )
    best = min(others, key=lambda r: r.objective.mean)
    gap = best.objective_less_ours
    if gap is not None and gap.half is not None:
        after = f"After {results['settings']['steps']:,} iterations"
        higher = best if gap.mean > 0 else ours  # "below" is a share of the higher one
        share = 100 * abs(gap.mean) / higher.objective.mean
        if not gap.excludes_zero:
            text.append(f"{after} it and the best tuned baseline, {best.label}, cannot be told apart.")
        elif gap.mean > 0:
            text.append(f"{after} its objective is {share:.2g}% below that of the best tuned baseline, {best.label}.")
        else:
            text.append(f"{after} the best tuned baseline, {best.label}, is {share:.2g}% below it.")
    return " ".join(text)


def without_score(results: Comparison) -> str:
    """A sentence on repeats whose held-out rows are of one class; empty where there are none."""
    less, all_, name = len(results["one_class"]), results["settings"]["repeats"], results["score"]["name"]
    if not less:
        return ""
    if less == all_:
        return f"The rows held out are of one class, so there is no {name}."
    return f"In {less} of {all_} repeats the rows held out are of one class: the {name} is that of the others."


def missing(results: Comparison) -> str:
    """What stands in place of a score that is not finite."""
    return "–" if len(results["one_class"]) == results["settings"]["repeats"] else "diverged"


def places(values) -> int:
    """How many decimals show four digits of the largest of the values."""
    finite = [abs(v) for v in values if v is not None and math.isfinite(v) and v]
    return max(0, 3 - math.floor(math.log10(max(finite)))) if finite else 3

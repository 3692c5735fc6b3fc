"""The tables and the page of findings, in Markdown, from the results file alone."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from .configs import ITERATIONS, LABELS
from .statistics import Difference, difference, less_printed, numbers, spread


def baselines(found: dict[str, Any]) -> tuple[str, ...]:
    """The baselines that were run, in the paper's order."""
    row = next(iter(found["rows"].values()))
    return tuple(name for name in row["paper"] if f"{name}-tuned" in row["methods"])


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body])


def several(words: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or "none"


# -- Table 2 -------------------------------------------------------------------------------------------


def mse(values: Sequence[float | None]) -> str:
    mean, sd = spread(values)
    return "not finite" if not math.isfinite(mean) else f"{mean:.4f} ± {sd:.4f}"


def table2(found: dict[str, Any]) -> str:
    """Test MSE of every method: printed, with the paper's settings here, tuned or our defaults."""
    names = baselines(found)
    body = []
    for label, row in found["rows"].items():
        methods = row["methods"]
        printed = [f"{row['paper'][n][0]:.4f} ± {row['paper'][n][1]:.4f}" for n in (*names, "sca")]
        astray = methods["sca-paper"]["worse_than_start"]
        note = f" ({astray} of {found['repeats']} worse than their start)" if astray else ""
        here = [mse(methods[f"{n}-paper"]["test"]) for n in names]
        best = [mse(methods[f"{n}-tuned"]["test"]) for n in names]
        ours = mse(methods["sca"]["test"])
        means = [spread(methods[n]["test"]).mean for n in (*(f"{b}-tuned" for b in names), "sca")]
        lowest = min(range(len(means)), key=lambda i: means[i] if math.isfinite(means[i]) else math.inf)
        last = [f"**{cell}**" if i == lowest else cell for i, cell in enumerate([*best, ours])]
        body += [
            [f"**{label}**", "printed in the paper", *printed],
            ["", "the paper's settings, here", *here, mse(methods["sca-paper"]["test"]) + note],
            ["", "baselines tuned; SCA: our defaults", *last],
        ]
    return table(["", "", *(LABELS[n] for n in (*names, "sca"))], body)


def readme_table(results: dict[str, Any]) -> str:
    """Test MSE after the paper's number of iterations: what it printed, the best tuned baseline, our defaults."""
    found = results["table2"][str(ITERATIONS)]
    body = []
    for label, row in found["rows"].items():
        tuned = {n: spread(row["methods"][f"{n}-tuned"]["test"]).mean for n in baselines(found)}
        best = min(tuned, key=lambda n: tuned[n])
        less = differences(row, [f"{best}-tuned"])[f"{best}-tuned"]
        body.append(
            [
                label,
                f"{row['paper']['adam'][0]:.4f}",
                f"{row['paper']['sca'][0]:.4f}",
                f"{tuned[best]:.4f} ({LABELS[best]})",
                f"{spread(row['methods']['sca']['test']).mean:.4f}",
                gap(less),
            ]
        )
    head = ["", "printed: Adam", "printed: SCA", "best tuned baseline", "SCA, defaults", "difference, paired"]
    return table(head, body)


def gap(d: Difference) -> str:
    """A difference with its interval; bold where the interval excludes zero."""
    if not math.isfinite(d.half):
        return "–"
    sign = "+" if d.mean >= 0 else "−"
    text = f"{sign}{abs(d.mean):.4f} ± {d.half:.4f}"
    return f"**{text}**{'' if d.robust else ' °'}" if d.verdict else text


def differences(row: dict[str, Any], rivals: Sequence[str], key: str = "test") -> dict[str, Difference]:
    """Each rival's value less that of SCA with our defaults, on the same splits and starts."""
    ratio = row["held_out"] / row["train"]
    ours = row["methods"]["sca"][key]
    return {name: difference(row["methods"][name][key], ours, ratio) for name in rivals}


def paired(found: dict[str, Any]) -> str:
    """Test MSE of the rivals less that of SCA with our defaults."""
    names = baselines(found)
    rivals = [*(f"{n}-tuned" for n in names), "sca-damped"]
    body = []
    for label, row in found["rows"].items():
        less = differences(row, rivals)
        printed = less_printed(row["methods"]["sca"]["test"], *row["paper"]["sca"])
        body.append([label, *(gap(less[n]) for n in rivals), gap(printed)])
    heads = [*(f"{LABELS[n]}, tuned" for n in names), "SCA, τ = .1, ρ = .9", "ours − printed"]
    return table(["", *heads], body)


def settings(found: dict[str, Any]) -> str:
    """What the tuned baselines chose."""
    names = baselines(found)
    body = []
    for label, row in found["rows"].items():
        chosen = [row["methods"][f"{n}-tuned"] for n in names]
        body.append([label, *(c["setting"] + (" (edge)" if c["at_edge"] else "") for c in chosen)])
    return table(["", *(LABELS[n] for n in names)], body)


def table2_findings(found: dict[str, Any]) -> list[str]:
    """One paragraph per finding, whichever way it went."""
    names = baselines(found)
    rows, repeats = found["rows"], found["repeats"]
    out = []
    near, total = [], 0
    for label, row in rows.items():
        for name in names:
            total += 1
            mean, sd = row["paper"][name]
            if abs(spread(row["methods"][f"{name}-paper"]["test"]).mean - mean) <= sd:
                near.append(f"{LABELS[name]} on {label}")
    far = [f"{LABELS[n]} on {label}" for label in rows for n in names if f"{LABELS[n]} on {label}" not in near]
    sgd = [k for k, r in rows.items() if "sgd-paper" in r["methods"] and f"{LABELS['sgd']} on {k}" in far]
    free = [k for k in sgd if spread(rows[k]["methods"]["sgd-paper"]["test"]).mean < rows[k]["paper"]["sgd"][0]]
    free = f" SGD, which the paper finds stuck or slow, gets further here on {several(free)}." if free else ""
    out.append(
        f"**Baselines with the paper's settings.** {len(near)} of {total} lie within one printed standard deviation of "
        f"the printed mean; the others: {several(far)}.{free}"
    )
    astray = [f"{row['methods']['sca-paper']['worse_than_start']} ({label})" for label, row in rows.items()]
    out.append(
        "**SCA with the paper's settings** (τ = 0, α and ρ both by the decaying rule) does not do what is printed: "
        f"of {repeats} runs, {several(astray)} end above the objective of their start. In directions that a batch does "
        "not see, ŵ = −(1−ρ)/λ · d, and ρ goes to 0. With τ = .1 and ρ held at .9, the rest as printed, it works: "
        + several([f"{mse(row['methods']['sca-damped']['test'])} ({label})" for label, row in rows.items()])
        + "."
    )
    against = {label: less_printed(row["methods"]["sca"]["test"], *row["paper"]["sca"]) for label, row in rows.items()}
    out.append(
        "**SCA with our defaults against the printed numbers.** "
        + _verdicts(against, "below the printed number of the proposed method", "above it", "not to be told from it")
    )
    tuned = {
        f"{LABELS[n]} on {label}": d
        for label, row in rows.items()
        for n, d in zip(names, differences(row, [f"{n}-tuned" for n in names]).values(), strict=True)
    }
    out.append("**SCA with our defaults against tuned baselines**, test MSE, paired. " + _verdicts(
        {k: Difference(-d.mean, d.half, d.corrected) for k, d in tuned.items()},
        "below the tuned baseline", "above it", "not to be told from it",
    ))  # fmt: skip
    objective = {
        f"{LABELS[n]} on {label}": d
        for label, row in rows.items()
        for n, d in zip(names, differences(row, [f"{n}-tuned" for n in names], "objective").values(), strict=True)
    }
    out.append("**The training objective**, paired in the same way. " + _verdicts(
        {k: Difference(-d.mean, d.half, d.corrected) for k, d in objective.items()},
        "below the tuned baseline", "above it", "not to be told from it",
    ))  # fmt: skip
    return out


def _verdicts(cases: dict[str, Difference], below: str, above: str, same: str) -> str:
    """How many of the cases lie where, the exceptions by name."""
    told = []
    for verdict, words in ((-1, below), (1, above), (0, same)):
        here = [name for name, d in cases.items() if d.verdict == verdict]
        if here:
            names = "" if len(here) == len(cases) or verdict == -1 else f" ({several(here)})"
            told.append(f"{len(here)} of {len(cases)} {words}{names}")
    weak = [name for name, d in cases.items() if d.verdict and not d.robust]
    tail = f" With the corrected interval these are undecided: {several(weak)}." if weak else ""
    return "; ".join(told) + "." + tail


def table2_part(results: dict[str, Any], image: Callable[[str, str], str]) -> str:
    out = []
    for steps, found in results["table2"].items():
        first = next(iter(found["rows"].values()))
        out += [
            f"## Table 2 and Figure 1, {int(steps):,} iterations",
            f"`{found['command']}`, {cost(found)}. Mean ± standard deviation of "
            f"the test MSE over {found['repeats']} repetitions, each with its own split ({1 - _share(first):.0%} for "
            "training) and start; every method gets the same ones, and the same batches. The lowest of the last line "
            "is bold.",
            table2(found),
            "Paired differences, method − SCA with our defaults (so + means that SCA is lower), ± half a 95% interval; "
            "bold where it excludes zero. ° marks those that would not survive a correction for overlapping training "
            "sets (Nadeau and Bengio), which speaks of other data of the same kind rather than of these. The last "
            "column is our mean less the number printed for the proposed method, its interval from both spreads: "
            "the splits are not the same ones.",
            paired(found),
            image(f"convergence-{steps}", "Objective against iterations with the paper's settings"),
            image(f"convergence-{steps}-tuned", "Objective against iterations, baselines tuned"),
            image(f"divergence-{steps}", "Objective of SCA with the paper's settings, damped, and with our defaults"),
            "### What it says",
            *table2_findings(found),
            f"What the tuned baselines chose from {len(found['tuning']['rates'])} learning rates × constant or cosine "
            "decay × last or averaged iterate, by the held-out error on "
            f"{found['tuning']['repeats']} splits and starts that are not among those reported:",
            settings(found),
        ]
    return "\n\n".join(out)


def _share(row: dict[str, Any]) -> float:
    return row["held_out"] / (row["held_out"] + row["train"])


def cost(part: dict[str, Any]) -> str:
    """What it took, and where; results put together by hand say how in a note."""
    took = (
        [f"{part['seconds']:.0f} seconds, {part['processor_seconds']:.0f} of processor time"]
        if "seconds" in part
        else []
    )
    return f"{', '.join([*took, *([part['note']] if 'note' in part else [])])} ({machine(part)})"


def machine(part: dict[str, Any]) -> str:
    about = part["environment"]
    cores = about["cores"]
    return f"{cores} core{'' if cores == 1 else 's'}, jax {about['packages']['jax']}, Python {about['python']}"


# -- SUSY ----------------------------------------------------------------------------------------------

AIM = 0.869  # test AUC aimed at with 20,000 rows and 2,000 iterations
APART = 0.003  # most that 4 or 16 blocks may lose


def score(values: Sequence[float | None]) -> str:
    mean, sd = spread(values)
    if not math.isfinite(mean):
        return "not finite"
    return f"{mean:.4f}" + (f" ± {sd:.4f}" if math.isfinite(sd) else "")


def susy_table(found: dict[str, Any]) -> str:
    problems = list(found["problems"].values())
    body = []
    for name, method in problems[0]["methods"].items():
        cells = []
        for problem in problems:
            m, ours = problem["methods"][name], problem["methods"]["sca-1"]
            d = difference(m["auc"], ours["auc"], problem["held_out"] / problem["train"])
            cells += [score(m["auc"]), "–" if name == "sca-1" else gap(d), m["setting"]]
        body.append([method["label"], *cells])
    head = [""]
    for problem in problems:
        head += [f"AUC, {problem['about']}", "less SCA's", "setting"]
    return table(head, body)


def susy_findings(found: dict[str, Any]) -> list[str]:
    out = []
    for problem in found["problems"].values():
        methods, ratio = problem["methods"], problem["held_out"] / problem["train"]
        ours = spread(methods["sca-1"]["auc"]).mean
        rivals = {n: m for n, m in methods.items() if n.endswith("-tuned")}
        text = f"**{problem['about'][0].upper()}{problem['about'][1:]}** (λ = {problem['l2']:g}). "
        if problem["paper"]:
            printed = problem["paper"]
            text += f"The paper reports an AUC of {printed['sca']:.2f} for SCA and {printed['adam']:.2f} for Adam. "
        text += f"SCA with our defaults: {score(methods['sca-1']['auc'])}"
        text += f", {'at or above' if ours >= AIM else 'below'} the {AIM:.3f} aimed at. "
        gaps = {m["label"]: difference(methods["sca-1"]["auc"], m["auc"], ratio) for m in rivals.values()}
        higher = [n for n, d in gaps.items() if d.verdict == 1]
        lower = [n for n, d in gaps.items() if d.verdict == -1]
        same = [n for n, d in gaps.items() if d.verdict == 0]
        told = []
        for names, words in ((higher, "is above"), (lower, "is below"), (same, "cannot be told from")):
            if names:
                told.append(f"{words} {several(names)}")
        text += f"Paired, SCA {'; it '.join(told)}. "
        apart = []
        for c in (name.removeprefix("sca-") for name in methods if name.startswith("sca-") and name != "sca-1"):
            lost = ours - spread(methods[f"sca-{c}"]["auc"]).mean
            verb = "within" if abs(lost) <= APART else "not within"
            apart.append(f"C = {c} {'loses' if lost >= 0 else 'gains'} {abs(lost):.4f} ({verb} {APART})")
        out.append(text + f"Blocks: {several(apart)}. {on_the_way(methods)}")
    return out


def on_the_way(methods: dict[str, Any]) -> str:
    """Who is ahead of SCA before the end, and how long blocks stay above their start, by the mean objective."""
    told = []
    ours = numbers(methods["sca-1"]["curve"]["mean"])
    for name, method in methods.items():
        steps, mean = method["curve"]["iterations"], numbers(method["curve"]["mean"])
        if name.endswith("-tuned"):
            ahead = [n for n, a, b in zip(steps, mean, ours, strict=True) if a < b]
            if ahead:
                told.append(
                    f"that of {method['label']}, is below SCA's at some time from {ahead[0]:,} to {ahead[-1]:,}"
                )
        elif name != "sca-1":
            above = [n for n, a in zip(steps, mean, strict=True) if not a <= mean[0]]
            if above:
                told.append(f"that of {method['label']}, is above its own start until {above[-1]:,}")
    return f"On the way the mean objective tells more: {'; '.join(told)} iterations." if told else ""


def susy_part(found: dict[str, Any], image: Callable[[str, str], str]) -> str:
    first = next(iter(found["problems"].values()))
    network = "/".join(map(str, first["network"]))
    return "\n\n".join(
        [
            "## SUSY: Figures 2 and 4",
            f"`{found['command']}`, {cost(found)}. Data: **{found['data']}**; "
            f"{first['train']:,} for training and {first['held_out']:,} for testing. The {network} tanh network, "
            f"mini-batches of {first['batch_size']}, {found['iterations']:,} iterations, {found['repeats']} "
            f"repetitions. Every baseline is tuned over {len(found['tuning']['rates'])} learning rates × constant or "
            "cosine decay × last or averaged iterate, by the held-out loss on "
            f"{found['tuning']['repeats']} other splits.",
            susy_table(found),
            image("susy-convergence", "Objective against iterations on SUSY"),
            image("susy-roc", "ROC curves on SUSY"),
            "### What it says",
            *susy_findings(found),
        ]
    )


# -- speed-up ------------------------------------------------------------------------------------------


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= unit or name == "µs":
            return f"{value / unit:.3g} {name}"
    return ""


def speedup_table(found: dict[str, Any]) -> str:
    first = found["unit"][0]
    columns = (found[name] for name in ("blocks", "unit", "processor", "wall"))
    body = [
        [str(c), seconds(unit), f"{first / unit:,.1f}", seconds(whole), f"{first / whole:,.1f}", seconds(wall)]
        for c, unit, whole, wall in zip(*columns, strict=True)
    ]
    for name, label in (("sample-space", "sample space"), ("structured", "structured"), ("adam", "Adam")):
        value = found["lines"][name]
        body.append([label, seconds(value), f"{first / value:,.0f}", "", "", ""])
    return table(["C", "one unit", "speed-up", "all C blocks", "speed-up", "all C blocks, wall time here"], body)


def speedup_findings(found: dict[str, Any]) -> list[str]:
    adam, structured, sample = (found["lines"][n] for n in ("adam", "structured", "sample-space"))
    level = [c for c, unit in zip(found["blocks"], found["unit"], strict=True) if unit <= adam]
    best, last = found["unit"][-1], found["blocks"][-1]
    reached = f"from C = {level[0]} on" if level else f"for no C up to {last}"
    return [
        "**Blocks do what the paper says they do**: solved by Q×Q factorizations, an iteration falls from "
        f"{seconds(found['unit'][0])} with one block to {seconds(best)} for each of {last} units. Against Adam the "
        "paper reports equal time at C = 8 and less than half at C = 64; here a unit is as fast as Adam's step "
        f"{reached}: the paper's Adam ran on AutoGrad, ours is compiled and takes {seconds(adam)}, and each of {last} "
        f"units {best / adam:.1f} times that.",
        "**They are not needed.** The same iteration, exact and not split at all, takes "
        f"{seconds(sample)} in sample space and {seconds(structured)} in structured form: "
        f"{structured / adam:.1f} times Adam's step, and {best / structured:.1f} times as fast as {last} units "
        "that each solve a block in weight space.",
    ]


def speedup_part(found: dict[str, Any], image: Callable[[str, str], str]) -> str:
    network = "/".join(map(str, found["network"]))
    return "\n\n".join(
        [
            "## Speed-up: Figure 3",
            f"`{found['command']}`, {cost(found)}. One iteration of the {network} network, "
            f"{found['batch_size']} rows, squared loss. Processor seconds, the least of up to seven: of one "
            "block, J included, as for each of C units with a core of its own (the blocks are equal), and of all C "
            "blocks together; last the wall time of all blocks on this machine, which may have had other work to do.",
            speedup_table(found),
            image("speedup", "Seconds per iteration against the number of blocks"),
            "### What it says",
            *speedup_findings(found),
        ]
    )


# -- the page ------------------------------------------------------------------------------------------

INTRODUCTION = """# The paper, reproduced

S. Scardapane and P. Di Lorenzo, *Stochastic Training of Neural Networks via Successive Convex Approximations*, 2017:
every table and figure, run again on the same data sets with the same networks and the same protocol. Three things
stand side by side: what the paper printed, its settings run here, and the defaults of scax; the baselines once with
the paper's settings and once tuned.

This page, with every number in it, is written from a results file by `scax reproduce` (the copy in the docs by
`python -m experiments.reproduction`, from `docs/results/reproduction.json`); no result in it is typed by hand. Where
one goes against us it says so."""

PROTOCOL = """## The protocol

Inputs in [−½, ½] and targets in [−.9, .9], over the whole data set, missing values at the median; tanh in every
neuron, the last included; Glorot's normalized start; U = mean squared error + λ/2 ‖w‖² with λ = 10⁻³; mini-batches of
20; a random quarter of the rows for testing. SGD .1 with a ← a(1 − .01 a), AdaGrad .01, RMSProp .01 with γ = .9, Adam
.001. SkillCraft1's GameID and Parkinsons' subject and motor UPDRS are left out, as the networks' widths tell.

The paper does not print its number of iterations. 500 is about where its baselines, run here with its settings, come
nearest to what it printed; a longer run follows where one was made."""


def page(results: dict[str, Any], image: Callable[[str, str], str]) -> str:
    """The whole page; `image(name, alt)` is the Markdown for a figure."""
    parts = [INTRODUCTION, PROTOCOL]
    if "table2" in results:
        parts.append(table2_part(results, image))
    if "susy" in results:
        parts.append(susy_part(results["susy"], image))
    if "speedup" in results:
        parts.append(speedup_part(results["speedup"], image))
    return "\n\n".join(parts) + "\n"

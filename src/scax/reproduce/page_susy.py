"""SUSY: what was found, in Markdown."""

from collections.abc import Callable
from typing import Any

from .statistics import difference, numbers, spread
from .words import cost, gap, score, several, table

AIM = 0.869  # test AUC aimed at with 20,000 rows and 2,000 iterations
APART = 0.003  # most that blocks may lose


def susy_table(results: dict[str, Any]) -> str:
    problems = list(results["problems"].values())
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


def susy_findings(results: dict[str, Any]) -> list[str]:
    out = []
    for problem in results["problems"].values():
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
        parts = []
        for names, words in ((higher, "is above"), (lower, "is below"), (same, "cannot be distinguished from")):
            if names:
                parts.append(f"{words} {several(names)}")
        text += f"Paired, SCA {'; it '.join(parts)}. "
        apart = []
        for method in (m for name, m in methods.items() if name.startswith("sca-") and name != "sca-1"):
            lost = ours - spread(method["auc"]).mean
            verb = "within" if abs(lost) <= APART else "not within"
            apart.append(f"{method['setting']} {'loses' if lost >= 0 else 'gains'} {abs(lost):.4f} ({verb} {APART})")
        out.append(text + f"Blocks: {several(apart)}. {on_the_way(methods)}")
    return out


def on_the_way(methods: dict[str, Any]) -> str:
    """Who is ahead of SCA before the end, and how long blocks stay above their start, by the mean objective."""
    parts = []
    ours = numbers(methods["sca-1"]["curve"]["mean"])
    for name, method in methods.items():
        steps, mean = method["curve"]["iterations"], numbers(method["curve"]["mean"])
        if name.endswith("-tuned"):
            ahead = [n for n, a, b in zip(steps, mean, ours, strict=True) if a < b]
            if ahead:
                parts.append(
                    f"that of {method['label']}, is below SCA's at some iteration from {ahead[0]:,} to {ahead[-1]:,}"
                )
        elif name != "sca-1":
            above = [n for n, a in zip(steps, mean, strict=True) if not a <= mean[0]]
            if above:
                parts.append(f"that of {method['label']}, is above its own start until iteration {above[-1]:,}")
    return f"On the way the mean objective tells more: {'; '.join(parts)}." if parts else ""


def susy_part(results: dict[str, Any], image: Callable[[str, str], str]) -> str:
    first = next(iter(results["problems"].values()))
    network = "/".join(map(str, first["network"]))
    return "\n\n".join(
        [
            "## SUSY: Figures 2 and 4",
            f"`{results['command']}`, {cost(results)}. Data: **{results['data']}**; "
            f"{first['train']:,} for training and {first['held_out']:,} for testing. The {network} tanh network, "
            f"mini-batches of {first['batch_size']}, {results['iterations']:,} iterations, {results['repeats']} "
            f"repetitions. Every baseline is tuned over {len(results['tuning']['rates'])} learning rates × constant or "
            "cosine decay × last or averaged iterate, by the held-out loss on "
            f"{results['tuning']['repeats']} other splits.",
            susy_table(results),
            image("susy-convergence", "Objective against iterations on SUSY"),
            image("susy-roc", "ROC curves on SUSY"),
            "### What it says",
            *susy_findings(results),
        ]
    )

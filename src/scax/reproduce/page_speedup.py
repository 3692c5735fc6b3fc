"""Figure 3, the speed-up with blocks: what was found, in Markdown."""

from collections.abc import Callable
from typing import Any

from .words import cost, seconds, table


def speedup_table(results: dict[str, Any]) -> str:
    first = results["unit"][0]
    columns = (results[name] for name in ("blocks", "unit", "processor", "wall"))
    body = [
        [str(c), seconds(unit), f"{first / unit:,.1f}", seconds(whole), f"{first / whole:,.1f}", seconds(wall)]
        for c, unit, whole, wall in zip(*columns, strict=True)
    ]
    for name, label in (("sample-space", "sample space"), ("structured", "structured"), ("adam", "Adam")):
        value = results["lines"][name]
        body.append([label, seconds(value), f"{first / value:,.0f}", "", "", ""])
    return table(["C", "one unit", "speed-up", "all C blocks", "speed-up", "all C blocks, wall time here"], body)


def speedup_findings(results: dict[str, Any]) -> list[str]:
    adam, structured, sample = (results["lines"][n] for n in ("adam", "structured", "sample-space"))
    level = [c for c, unit in zip(results["blocks"], results["unit"], strict=True) if unit <= adam]
    best, last = results["unit"][-1], results["blocks"][-1]
    reached = f"from C = {level[0]} on" if level else f"for no C up to {last}"
    return [
        "**Blocks do what the paper says they do**: solved by Q×Q factorizations, an iteration falls from "
        f"{seconds(results['unit'][0])} with one block to {seconds(best)} for each of {last} units. Against Adam the "
        "paper reports equal time at C = 8 and less than half at C = 64; here a unit is as fast as Adam's step "
        f"{reached}: the paper's Adam ran on AutoGrad, ours is compiled and takes {seconds(adam)}, and each of {last} "
        f"units {best / adam:.1f} times that.",
        "**They are not needed.** The same iteration, exact and not split at all, takes "
        f"{seconds(sample)} in sample space and {seconds(structured)} in structured form: "
        f"{structured / adam:.1f} times Adam's step, and {best / structured:.1f} times as fast as {last} units "
        "that each solve a block in weight space.",
    ]


def speedup_part(results: dict[str, Any], image: Callable[[str, str], str]) -> str:
    network = "/".join(map(str, results["network"]))
    return "\n\n".join(
        [
            "## Speed-up: Figure 3",
            f"`{results['command']}`, {cost(results)}. One iteration of the {network} network, "
            f"{results['batch_size']} rows, squared loss. Processor seconds, the least of up to seven: of one "
            "block, J included, as for each of C units with a core of its own (the blocks are equal), and of all C "
            "blocks together; last the wall time of all blocks on this machine, which may have had other work to do.",
            speedup_table(results),
            image("speedup", "Seconds per iteration against the number of blocks"),
            "### What it says",
            *speedup_findings(results),
        ]
    )

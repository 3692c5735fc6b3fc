"""The page of findings, in Markdown, from the results file alone."""

from collections.abc import Callable
from typing import Any

from .page_speedup import speedup_part
from .page_susy import susy_part
from .page_table2 import table2_part, table2_summary

INTRODUCTION = """# The paper, reproduced

S. Scardapane and P. Di Lorenzo, *Stochastic Training of Neural Networks via Successive Convex Approximations*, 2017:
every table and figure, run again on the same data sets with the same networks and the same protocol."""

ABOUT = """Three things stand side by side: what the paper printed, its settings run here, and the defaults of scax. The
baselines are there twice, with the paper's settings and tuned.

This page, with every number in it, is written from a results file by `scax reproduce` (the copy in the docs by
`python -m benchmarks.reproduction`, from `docs/results/reproduction.json`); no result in it is typed by hand."""

PROTOCOL = """## The protocol

Inputs in [−½, ½] and targets in [−.9, .9], over the whole data set, missing values at the median; tanh in every
neuron, the last included; Glorot's normalized start; U = mean squared error + λ/2 ‖w‖² with λ = 10⁻³; mini-batches of
20; a random quarter of the rows for testing. SGD .1 with a ← a(1 − .01 a), AdaGrad .01, RMSProp .01 with γ = .9, Adam
.001. SkillCraft1's GameID and Parkinsons' subject and motor UPDRS are left out, as the networks' widths tell.

The paper does not print its number of iterations. 500 is about where its baselines, run here with its settings, come
nearest to what it printed; a longer run follows where one was made."""


def page(results: dict[str, Any], image: Callable[[str, str], str]) -> str:
    """The whole page; `image(name, alt)` is the Markdown for a figure."""
    parts = [INTRODUCTION]
    if results.get("table2"):
        parts.append(table2_summary(next(iter(results["table2"].values()))))
    parts += [ABOUT, PROTOCOL]
    if "table2" in results:
        parts.append(table2_part(results, image))
    if "susy" in results:
        parts.append(susy_part(results["susy"], image))
    if "speedup" in results:
        parts.append(speedup_part(results["speedup"], image))
    return "\n\n".join(parts) + "\n"

"""Numbers and tables as the page writes them, in Markdown."""

import math
from collections.abc import Sequence
from typing import Any

from .statistics import Difference, spread


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body])


def several(words: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words) or "none"


def gap(d: Difference) -> str:
    """A difference with its interval; bold where the interval excludes zero."""
    if not math.isfinite(d.half):
        return "–"
    sign = "+" if d.mean >= 0 else "−"
    text = f"{sign}{abs(d.mean):.4f} ± {d.half:.4f}"
    return f"**{text}**{'' if d.robust else ' °'}" if d.verdict else text


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


def mse(values: Sequence[float | None]) -> str:
    mean, sd = spread(values)
    return "not finite" if not math.isfinite(mean) else f"{mean:.4f} ± {sd:.4f}"


def score(values: Sequence[float | None]) -> str:
    mean, sd = spread(values)
    if not math.isfinite(mean):
        return "not finite"
    return f"{mean:.4f}" + (f" ± {sd:.4f}" if math.isfinite(sd) else "")


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= unit or name == "µs":
            return f"{value / unit:.3g} {name}"
    return ""

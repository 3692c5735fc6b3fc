"""Numbers for people: as many digits as say something."""

import itertools
import math
from collections.abc import Sequence

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None) -> str:
    """In a sentence or a table: four digits, or all that stand before the point (0.1234, 16,115, 138,700)."""
    if value is None or not math.isfinite(value):
        return "not finite"
    return f"{value:,.0f}" if 999.95 <= abs(value) < 1e9 else f"{value + 0.0:.4g}"


def margin(half: float) -> str:
    """After a ±: two digits, or all that stand before the point."""
    return f"{half:,.0f}" if half >= 99.5 else f"{half:.2g}"


def short(value: float, digits: int = 4, large: float = 1e5) -> str:
    """On an axis: this many digits at most, powers of ten for `large` and small ones (1.5·10⁵)."""
    if value and (abs(value) >= large or abs(value) < 1e-3):
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        if "." in mantissa:
            mantissa = mantissa.rstrip("0").rstrip(".")
        sign = "-" if mantissa == "-1" else ""
        factor = sign if mantissa.lstrip("-") == "1" else f"{mantissa}·"
        return f"{factor}10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    if not value:
        return "0"
    text = f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ticks(values: Sequence[float]) -> list[str]:
    """Labels of an axis, with as many digits as its ticks need to stand where they say."""
    finite = sorted({float(v) for v in values})
    gap = min((b - a for a, b in itertools.pairwise(finite)), default=max(map(abs, finite), default=0.0))
    digits = next((n for n in range(1, 12) if all(abs(float(f"{v:.{n - 1}e}") - v) <= 0.02 * gap for v in finite)), 12)
    large = 1e6 if all(abs(v) < 1e6 for v in finite) else 1e5  # one way of writing for neighbors
    return [short(v, digits, large) if abs(v) > 1e-9 * gap else "0" for v in values]  # 1e-17 is a 0 of matplotlib's

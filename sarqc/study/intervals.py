"""Text of a 95 % interval beside a verdict: in words of the engine, on pages, in tables.

Numbers are written as in assets/js/base/format.js; tests of both sides read the golden file tests/golden/format.json.
"""

import math
from collections.abc import Sequence

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def count_text(count: int) -> str:
    """Return a count as a word up to twelve, and in digits beyond: “no”, “five”, “69”."""
    return _WORDS[count] if count < len(_WORDS) else number(count, 0)


def number(value: float, decimals: int) -> str:
    """Return a number for people: fixed decimals, thousands in groups, a true minus sign, and never “−0”."""
    text = f"{value:,.{decimals}f}"
    if text[0] != "-":
        return text
    if text.strip("-0.") == "":
        text = text.lstrip("-")
    return text.replace("-", "\u2212")


def decimals_of(value: float, digits: int) -> int:
    """Return the decimals that show a value with this many significant digits, without rounding above the point."""
    power = int(f"{value:.{digits - 1}e}".partition("e")[2] or 0) if math.isfinite(value) else 0
    return min(12, max(0, digits - 1 - power))


def error_decimals(error: float) -> int:
    """Return the decimals that show an error, or half an interval, with one digit, or two if it begins with 1."""
    lead, _, power = f"{error:.15e}".partition("e")
    return -int(power) + (1 if float(lead) < 2 else 0)


def limit_text(value: float, decimals: int) -> str:
    """Return the text of an interval's end; an end that would round to 0 has the decimals that show its sign."""
    rounds_to_zero = round(value, decimals) == 0 != value
    return number(value, decimals_of(value, 1) if rounds_to_zero else decimals)


def limits_text(low: float, high: float, decimals: int) -> str:
    """Return an interval as “−0.1 to 6.4”, or “−0.1 upwards” without an upper end.

    The ratio of few draws may have no upper end.
    """
    if math.isinf(high):
        return f"{limit_text(low, decimals)} upwards"
    if math.isinf(low):
        return f"{limit_text(high, decimals)} downwards"
    return f"{limit_text(low, decimals)} to {limit_text(high, decimals)}"


def span_text(mean: float, low: float, high: float, decimals: int) -> str:
    """Return “3.2 (−0.1 to 6.4)”, or “3.2” if the interval is not known; beside a drawing, or in a table."""
    text = number(mean, decimals)
    if math.isnan(low) or math.isnan(high):
        return text
    return f"{text} ({limits_text(low, high, decimals)})"


def lam_text(value: float) -> str:
    """Return λ and γ as the axis writes them."""
    return f"{value:g}".replace("-", "\u2212")


def join_names(names: Sequence[str]) -> str:
    """Return “a”, “a and b”, “a, b and c”; empty without any."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def spans_text(spans: Sequence[Sequence[float]]) -> str:
    """“0.1”, “0.02 to 0.1”, “0 and 0.02 to 0.1”."""
    return join_names(
        [lam_text(first) if first == last else f"{lam_text(first)} to {lam_text(last)}" for first, last in spans]
    )

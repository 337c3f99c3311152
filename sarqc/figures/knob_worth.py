"""Which of λ and the value beside it is worth most: a finding and a sentence, from the numbers of their plane."""

from __future__ import annotations

import math

from sarqc.figures.numbers import difference_decimals, draws_text, joined
from sarqc.figures.titles import fitting
from sarqc.study.facts import LineFacts
from sarqc.study.intervals import span_text
from sarqc.study.knob_worth import Knobs, KnobWorth, read_knobs


def knobs_finding(facts: LineFacts) -> str:
    """Return the worth of both in short, as “λ is worth most: 2.8 (2.1 to 3.6), α 0.4 (−0.1 to 0.9)”; empty without a
    plane over α or β."""
    knobs = _knobs(facts)
    if knobs is None:
        return ""
    sign = facts.line.sign
    lam, second = (_size(knobs, worth) for worth in (knobs.lam, knobs.second))
    if not math.isfinite(float(knobs.lam.saved.error)):
        return fitting(f"λ is worth {lam}, {sign} {second}, on one draw")
    if knobs.most is None:
        if not any(_is_clear(worth) for worth in (knobs.lam, knobs.second)):
            return fitting(f"Neither λ nor {sign} is clearly worth anything here")
        return fitting(f"Neither λ nor {sign} is clearly worth more than the other")
    (knob, size), (other, less) = (("λ", lam), (sign, second)) if knobs.most == "lam" else ((sign, second), ("λ", lam))
    return fitting(
        f"{knob} is worth most: {size}, {other} {less}",
        f"{knob} is worth most here",
    )


def knobs_text(facts: LineFacts) -> str:
    """Return what λ, the value beside it, and both are worth, with intervals over draws, and which is worth most; empty
    without a plane over α or β."""
    knobs = _knobs(facts)
    if knobs is None:
        return ""
    sign = facts.line.sign
    parts = (knobs.lam, knobs.second, knobs.both)
    lam, second, both = (_size(knobs, worth) for worth in parts)
    worth = f"λ is worth {lam}, {sign} {second}, both together {both} in perplexity against λ = {sign} = 0"  # fmt: skip
    if not math.isfinite(float(knobs.lam.saved.error)):
        return f"{worth}, on one draw, which can’t say how sure that is."
    *most, last = (str(part.saved.among) for part in parts)
    return (
        f"{worth} (95 % over {draws_text(int(knobs.lam.saved.draws))}, each the best of "
        f"{joined([', '.join(most), last])} points): {_verdict(knobs, sign)}."
    )


def _knobs(facts: LineFacts) -> Knobs | None:
    return read_knobs(facts.line, None if facts.perplexity is None else facts.perplexity.values)


def _verdict(knobs: Knobs, sign: str) -> str:
    if knobs.most is not None:
        return f"{'λ' if knobs.most == 'lam' else sign} is worth most here"
    if not any(_is_clear(worth) for worth in (knobs.lam, knobs.second)):
        return f"neither λ nor {sign} is clearly worth anything here"
    return f"there is no significant difference between λ and {sign}"


def _is_clear(worth: KnobWorth) -> bool:
    return worth.saved.verdict(()) > 0


def _size(knobs: Knobs, worth: KnobWorth) -> str:
    """“2.8 (2.1 to 3.6)”, with the same decimals for all."""
    doubts = [float(part.saved.doubt) for part in (knobs.lam, knobs.second, knobs.both)]
    decimals = difference_decimals(max(doubts, key=lambda doubt: doubt if math.isfinite(doubt) else 0), knobs.zero)
    mean, low, high = (float(part) for part in (worth.saved.mean, worth.saved.low, worth.saved.high))
    return span_text(mean, low, high, decimals)

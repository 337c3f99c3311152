"""Findings of the parts of the Lab that open, each one short sentence beside a heading.

A sentence has no full stop and begins in lower case or with a number, since it stands beside a heading. Ratios are of
positive finite numbers only. A difference that several draws do not show clearly is not given a size.

Axes in comments: D calibration draws, L layers, S sizes of calibration text, G γ values, M λ values.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from sarqc.figures.ladder import NOUNS
from sarqc.figures.layer_map import fewest_for_half, quantities_of, quantity_of
from sarqc.figures.numbers import (
    NBSP,
    At,
    Ratio,
    change_text,
    counted,
    draws_text,
    is_unclear,
    lam_text,
    number,
    ratio_of,
    small_percent,
    times_text,
)
from sarqc.figures.ranking import best_rows
from sarqc.figures.theorem import terms, times_of
from sarqc.figures.titles import TEXTS, Say, error_of, least, map_points, trade_off
from sarqc.study.facts import LineFacts, has_lam
from sarqc.study.ladder import LAMBDA, Ladder
from sarqc.study.paired import spans

Door = Literal["where", "trade_off", "steps", "text", "proof"]

ERROR_NOUNS = {"held_out": "error", "recon": "error on calibration text"}


def findings(facts: LineFacts, ladder: Ladder | None) -> dict[Door, list[list[str]]]:
    """Return the sentence of each part, by γ, then λ; empty where nothing was measured for it.

    Args:
        facts: A line, and the layer that is chosen or all of them.
        climbed: The ladder of the line's width; None where the study has none.
    """
    steps = _steps(facts) if ladder is None else _worth(ladder)
    return {
        "where": map_points(facts, _error_layers(facts)),
        "trade_off": map_points(facts, _trade_off(facts)),
        "steps": map_points(facts, lambda at: steps),
        "text": map_points(facts, _text(facts)),
        "proof": map_points(facts, _proof(facts)),
    }


def _place(ahead: int, behind: int, count: int, lowest: str, highest: str) -> str:
    """“lowest of 7 …”, “joint 3rd lowest of 7 …”, of the numbers of values that are lower, higher, and of all."""
    rank = ahead + 1
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    place = f"{number(rank, 0)}{ending} {lowest}" if ahead else lowest
    if ahead and not behind:
        place = highest
    return f"joint {place}" if ahead + behind + 1 < count else place


def _error_layers(facts: LineFacts) -> Say:
    """Describe where the error lies.

    A layer's error is ‖ΔW X‖² / ‖W X‖², relative to its own output, as on the map of layers. The Lab's error of all
    layers is the mean of these, so half of their sum is described; absolute errors of layers would not tell more, as
    the outputs of different layers have different units.
    """
    name = next((name for name in TEXTS if name in quantities_of(facts)), None)
    if name is None:
        return lambda at: ""
    quantity = facts.study.once(facts.line, f"layers of {name}", lambda: quantity_of(facts, name))
    assert quantity is not None

    def say(at: At) -> str:
        errors = quantity.values[:, *at]  # L
        known = errors[np.isfinite(errors)]
        if facts.layer is not None:
            return _rank(errors[facts.layer], known, f"on {TEXTS[name]}")
        return _half(known, len(errors), f"on {TEXTS[name]}")

    return say


def _half(known: np.ndarray, layers: int, on_text: str) -> str:
    """Return the fewest layers that together make half of the sum."""
    count = fewest_for_half(known)
    if count is None:
        return ""
    # Experts that no token reached have no error and are not counted.
    noun = f"{number(len(known), 0)} {'measured layers' if len(known) < layers else 'layers'}"
    makes = "makes" if count == 1 else "make"
    return f"{number(count, 0)} of {noun} {makes} up half the relative error {on_text}"


def _rank(error: float, known: np.ndarray, on_text: str) -> str:
    """Return the place of one layer among all."""
    if not math.isfinite(error) or not len(known):
        return ""
    if len(known) == 1:
        return "the only layer measured"
    larger, smaller = int((known > error).sum()), int((known < error).sum())
    place = _place(larger, smaller, len(known), "largest relative error", "smallest relative error")
    return f"{place} of {number(len(known), 0)} layers {on_text}"


def _trade_off(facts: LineFacts) -> Say:
    """Describe the effect of λ on drift and error, against λ = 0 of the same γ, or the first λ."""
    line = facts.line
    text = error_of(facts)
    if not has_lam(line) or len(line.lams) < 2:
        return _absolute(facts, text)
    over = trade_off(facts)
    reference, last = over.reference, over.last
    base = f"λ = {lam_text(line.lams[reference])}".replace(" ", NBSP)
    nouns = ("drift", ERROR_NOUNS[text or "held_out"])
    ratios = [(noun, ratio) for noun, ratio in zip(nouns, (over.drift, over.error), strict=True) if ratio is not None]

    def say(point: At) -> str:
        g, m = point
        at = (g, last if m == reference else m)
        known = [(name, ratio) for name, ratio in ratios if ratio.known(at)]
        if not known or at[1] == reference:
            return ""
        if m == reference:
            raising = f"raising λ from {lam_text(line.lams[m])} to {lam_text(line.lams[last])}"
            return f"{raising} {_effect(*known[0], at)}"
        return _exchange(known, at, base)

    return say


def _effect(name: str, ratio: Ratio, at: At) -> str:
    """Return “takes drift down by 31 %”."""
    if not ratio.clear(at):
        return f"has no clear effect on {name}"
    if ratio.same(at):
        return f"leaves {name} the same"
    change = ratio.mean[at] - 1
    return f"takes {name} {'down' if change < 0 else 'up'} by {change_text(change)}"


def _exchange(known: Sequence[tuple[str, Ratio]], at: At, base: str) -> str:
    """Describe a trade: of drift and error first the one that moves, then the other."""
    moved = [(name, ratio) for name, ratio in known if ratio.clear(at) and not ratio.same(at)]
    still = [(name, ratio) for name, ratio in known if not ratio.clear(at) or ratio.same(at)]
    if len(moved) == 2:
        first, second = (ratio.change_in(name, at) for name, ratio in moved)
        opposite = (moved[0][1].mean[at] < 1) != (moved[1][1].mean[at] < 1)
        return f"{first} {'for' if opposite else 'and'} {second} than at {base}"
    unclear = [name for name, ratio in still if not ratio.clear(at)]
    names = [name for name, _ in still]
    if moved:
        name, ratio = moved[0]
        end = f", {'no clear change in' if unclear else 'with the same'} {names[0]}" if still else ""
        return f"{ratio.change_in(name, at)} than at {base}{end}"
    if unclear:
        return f"no clear change in {' or '.join(names)} from {base}"
    return f"the same {' and '.join(names)} as at {base}"


def _absolute(facts: LineFacts, text: str | None) -> Say:
    """Describe a point without another λ to compare with."""
    error = None if text is None else getattr(facts, text)

    def say(at: At) -> str:
        drift = math.nan if facts.drift is None else facts.drift[at]
        size = math.nan if error is None else error[at]
        on_text = f"on {TEXTS[text]}" if text else ""
        if not math.isfinite(size):
            return f"weights drift by {small_percent(drift)}" if math.isfinite(drift) else ""
        if not math.isfinite(drift):
            return f"error of {small_percent(size)} {on_text}"
        return f"weights drift by {small_percent(drift)}, with an error of {small_percent(size)} {on_text}"

    return say


def _worth(ladder: Ladder) -> str:
    """Name the most valuable step of a ladder: each alone, which does not depend on the shown order."""
    alone = {step: worth["perplexity"] for step, worth in ladder.alone.items() if "perplexity" in worth}
    alone = {step: worth for step, worth in alone.items() if math.isfinite(worth.mean)}
    gptq = next((rung.mean("perplexity") for rung in ladder.rungs if rung.step == "gptq"), math.nan)
    if not alone or not gptq > 0:
        return ""
    step = min(alone, key=lambda name: float(alone[name].mean))
    most, lam = alone[step], alone.get("lambda")
    known = math.isfinite(most.error)
    if (known and most.verdict(()) >= 0) or not most.mean < 0:
        return "no step alone clearly lowers perplexity"
    lam_words = f"λ = {lam_text(LAMBDA)}"
    name = lam_words if step == "lambda" else NOUNS[step]
    if step != "lambda" and lam is not None and lam.verdict(()) < 0:
        ratio = float(most.mean / lam.mean)
        times = "" if round(ratio, 1) == 1 else f"{times_text(ratio)} "
        return f"{name} alone is worth {times}as much as {lam_words}"
    size = change_text(float(most.mean) / gptq)
    return f"{name} alone cuts perplexity most, by {size}{'' if known else ' (one draw)'}"


def _steps(facts: LineFacts) -> str:
    """Return the place of the line among the methods of its width, as in the figure of methods side by side."""
    bits = facts.line.bits
    best = [row for row in best_rows(facts.study, bits, "perplexity") if math.isfinite(row.value)]
    value = next((row.value for row in best if row.line == facts.line.name), None)
    if value is None or len(best) < 2:
        return ""
    lower, higher = sum(row.value < value for row in best), sum(row.value > value for row in best)
    place = f"{_place(lower, higher, len(best), 'lowest perplexity', 'highest perplexity')} of {len(best)} methods"
    if any(len(line.lams) > 1 for line in facts.study.lines if line.bits == bits):
        return f"{place}, each at its best λ"
    return f"{place} at {bits} bits"


def _text(facts: LineFacts) -> Say:
    """Compare the errors on both texts, and name the best λ with the most calibration text tried."""
    unseen, calibration = facts.selected("held_out"), facts.selected("recon")
    ratio = None if unseen is None or calibration is None else ratio_of(unseen, calibration)
    best = [_best_lam(facts, g) for g in range(len(facts.line.gammas))]
    count = facts.line.sizes[-1] if facts.line.sizes else 0

    def say(at: At) -> str:
        most, lam = f"with {counted(count, 'sequence')}", best[at[0]]
        if ratio is None or not ratio.known(at):
            return f"error on unseen text {most} is least at λ = {lam}" if lam else ""
        end = f"; least {most} at λ = {lam}" if lam else ""
        return f"{_compare_texts(ratio, at, brief=bool(end))}{end}"

    return say


def _compare_texts(ratio: Ratio, at: At, *, brief: bool) -> str:
    """Compare unseen with calibration text; ``brief``: more follows, and the comparison is implied."""
    if not ratio.clear(at):
        return (
            "no clear extra error on unseen text"
            if brief
            else "no clear difference between unseen and calibration text"
        )
    size = ratio.mean[at]
    if ratio.same(at):
        error, conjunction = "the same error", "as"
    elif size >= 2:
        error, conjunction = f"{times_text(size)} the error", "of"
    else:
        error, conjunction = ratio.change_in("error", at), "than"
    return f"{error} on unseen text" if brief else f"unseen text has {error} {conjunction} calibration text"


def _best_lam(facts: LineFacts, gamma: int) -> str:
    """Return the λ with the least error on unseen text with the most calibration text, and those that may be the best.

    Empty where the best is unclear: on one draw, for separate λ, and for more than half of those tried.
    """
    unseen = facts.selected("held_out_by_size")  # D S G M
    if unseen is None or len(facts.line.sizes) < 2 or len(facts.line.lams) < 2 or not has_lam(facts.line):
        return ""
    best, band = least(unseen[:, -1, [gamma]])
    runs = spans(band[0])
    if best[0] is None or len(runs) != 1 or 2 * band[0].sum() > len(facts.line.lams):
        return ""
    first, last = (lam_text(facts.line.lams[end]) for end in runs[0])
    return first if first == last else f"{first}–{last}"


def _proof(facts: LineFacts) -> Say:
    """Give the size of the evidence, and how far the bound of Theorem 1 lies above the measured gap."""
    known = terms(facts)
    tokens = (facts.study.protocol.get("test") or {}).get("predicted_tokens")
    quality = facts.perplexity

    def say(at: At) -> str:
        measured = quality is not None and math.isfinite(quality.mean[at])
        parts = [f"{number(tokens, 0)} test tokens"] if measured and isinstance(tokens, int) else []
        bound = ""
        if known is not None:
            gap, limit = known.gap.at(at), known.bound[at]
            if math.isfinite(gap.mean) and math.isfinite(limit) and gap.mean != 0 and limit > 0:
                loosely = f"; Theorem\u00a01 is {times_of(limit / abs(gap.mean))}\u00a0× too loose"
                bound = "; no clear gap to unseen text" if is_unclear(gap) else loosely
        return f"{', '.join([draws_text(facts.n_draws), *parts])}{bound}" if parts or bound else ""

    return say

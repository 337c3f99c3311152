"""The one sentence that the Lab says about a point (γ, λ), made from facts, and the small print under it; of perplexity
or of accuracy, whichever is shown.

A sentence is a list of pieces ``{"text": …, "role": …, "verdict": …}``; a role names the quantity that it speaks of
("quality", "recon", "held_out", "drift", "lambda"), or is empty. A quantity's name and value have its colour; a verdict
(better, worse, less) has none, since a colour says what is spoken of and never how it came out. Joined, the texts are
what is copied, read aloud and tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np

from sarqc.figures.flags import GPTQ, flags_of
from sarqc.figures.knob_worth import knobs_text
from sarqc.figures.numbers import (
    NBSP,
    accuracy_text,
    baseline_name,
    computed_lam_text,
    difference_decimals,
    draws_text,
    lam_text,
    number,
    percent,
    perplexity_text,
    sets_text,
    small_percent,
)
from sarqc.quantization.methods import AS_FOUND
from sarqc.study.facts import LineFacts, Quality, Selection, has_lam
from sarqc.study.intervals import interval_text
from sarqc.study.paired import Difference, spans
from sarqc.study.shrinkage import regret, shrinkage_lam


class Piece(TypedDict):
    """A part of a sentence; ``role`` is the quantity that it speaks of."""

    text: str
    role: str  # empty for plain text
    verdict: bool  # how the quantity came out: set in ink


def plain(pieces: list[Piece]) -> str:
    """The sentence as text."""
    return "".join(piece["text"] for piece in pieces)


QualityName = Literal["perplexity", "accuracy"]


@dataclass(frozen=True)
class _Told:
    """How a quality is told: its value, the size of a difference, and which way is better."""

    name: QualityName
    of: Callable[[LineFacts], Quality | None]
    reference: Callable[[LineFacts], float | None]  # the float model's
    show: Callable[[float], str]
    unit: float  # differences are told in: 100 for points
    points: str
    where: str
    better: Literal[-1, 1]  # the sign of a difference that is better

    def size(self, difference: Difference, reference: float) -> str:
        """“3.2 points”, of a difference as it is."""
        told, value = self._scaled(difference, reference)
        return f"{number(float(told.mean), difference_decimals(float(told.doubt), value))}{self.points}"

    def interval(self, difference: Difference, reference: float) -> str:
        """“from −0.1 to 6.4”, of a difference as it is."""
        told, value = self._scaled(difference, reference)
        decimals = difference_decimals(float(told.doubt), value)
        return interval_text(float(told.low), float(told.high), decimals)

    def _scaled(self, difference: Difference, reference: float) -> tuple[Difference, float]:
        return difference.scaled(self.unit), 50.0 if self.points else reference  # points have one decimal at least


_TOLD = {
    "perplexity": _Told(
        "perplexity", lambda facts: facts.perplexity, lambda facts: facts.study.model.perplexity, perplexity_text,
        1.0, "", " on unseen text", -1,
    ),
    "accuracy": _Told(
        "accuracy", lambda facts: facts.accuracy, lambda facts: facts.study.model.accuracy, accuracy_text,
        100.0, " points", "", 1,
    ),
}  # fmt: skip


def sentence(facts: LineFacts, gamma: int, lam: int, quality: QualityName = "perplexity") -> list[Piece]:
    """The pieces of the sentence for one point of a line, by the quality that is shown."""
    told = _TOLD[quality]
    parts = [
        _quality_part(facts, gamma, lam, told),
        _drift_part(facts, gamma, lam),
        facts.once(f"band of {quality}, {gamma}", lambda: _band_part(facts, gamma, told)),
    ]
    pieces: list[Piece] = []
    for part in (part for part in parts if part):
        if pieces:
            pieces.append(piece(" "))
        pieces += part
    return pieces


def small_print(facts: LineFacts, gamma: int, lam: int, quality: QualityName = "perplexity") -> list[str]:
    """Further facts of the point, one plain sentence each: what “auto” chose, errors, the quality that is not shown,
    what λ and the value beside it are worth, what saliency adds."""
    lines: list[str] = [] if facts.selection is None else _chosen_texts(facts.selection)
    lines += filter(None, [_error_text(facts, gamma, lam), _damping_text(facts, gamma, _TOLD[quality])])
    lines += filter(None, [_shrinkage_text(facts), knobs_text(facts)] if quality == "perplexity" else [])
    at = (gamma, lam)
    other = _TOLD["accuracy" if quality == "perplexity" else "perplexity"]
    measured, reference = other.of(facts), other.reference(facts)
    if measured is not None and math.isfinite(measured.mean[at]):
        text = f"{other.name.capitalize()} {other.show(float(measured.mean[at]))}"
        if reference is not None:
            text += f" (float {other.show(reference)})"
        if facts.baseline is not None and measured.to_baseline is not None and not _is_baseline(facts, lam):
            text += f", {_beside_baseline(measured, at, baseline_name(facts.baseline), other)}"
        lines.append(text + ".")
    # At λ = 0 saliency and identity are one and the same computation: nothing to compare.
    same = has_lam(facts.line) and facts.line.lams[lam] == 0
    if facts.to_identity is not None and math.isfinite(facts.to_identity.mean[at]) and not same:
        lines.append(_beside_text(facts, "Saliency against identity", facts.to_identity, at))
    if facts.to_plain is not None and math.isfinite(facts.to_plain.mean[at]):
        lines.append(_beside_text(facts, "This grid against the plain one", facts.to_plain, at))
    return lines


def piece(text: str, role: str = "", *, verdict: bool = False) -> Piece:
    """A part of a sentence."""
    return {"text": text, "role": role, "verdict": verdict}


def _verdict(text: str, role: str) -> Piece:
    return piece(text, role, verdict=True)


def _is_baseline(facts: LineFacts, lam: int) -> bool:
    return facts.baseline_position == lam


def _whole(facts: LineFacts) -> str:
    """Said beside a single layer, whose quality is not that of the model."""
    return "" if facts.layer is None else "whole "


def _where(facts: LineFacts, gamma: int, lam: int) -> list[Piece]:
    """“At λ = 0.1, γ = 0.5 the 2-bit model”, “At λ = 0.1, from block 20: 0.3, the …”, “With λ and γ chosen
    layer by layer … the 2-bit model”.
    """
    if facts.line.selected:
        return [piece("With "), *_auto_part(facts), piece(f" the {_whole(facts)}{facts.line.bits}-bit model")]
    value = facts.line.gammas[gamma]
    point = f"λ = {lam_text(facts.line.lams[lam])}".replace(" ", NBSP)
    if value is not None and len(facts.line.gammas) > 1:
        point += f", {facts.line.sign} = {lam_text(value)}".replace(" ", NBSP).replace(f",{NBSP}", ", ")
    if facts.line.later is not None:
        point += f", {facts.line.later.words},"
    if not has_lam(facts.line):
        is_found = facts.line.method == AS_FOUND
        return [
            *([] if is_found else [piece("With ")]),
            piece("As it was found," if is_found else facts.line.title, "lambda"),
            piece(f" the {_whole(facts)}{facts.line.bits}-bit model"),
        ]
    return [piece("At "), piece(point, "lambda"), piece(f" the {_whole(facts)}{facts.line.bits}-bit model")]


def _auto_part(facts: LineFacts) -> list[Piece]:
    """How λ was chosen, with its value where the whole model has one."""
    where, found = " on held-out calibration text", facts.selection
    if facts.line.selected == "layer":
        open_ = {"λ": len(facts.line.candidate_lams) > 1, "γ": len(facts.line.candidate_gammas) > 1}
        open_["α"] = found is not None and found.strength is not None
        signs = " and ".join(sign for sign, is_open in open_.items() if is_open) or "λ"
        return [piece(signs, "lambda"), piece(f" chosen layer by layer{where}")]
    if found is None or not np.isfinite(found.lam).any():
        return [piece("λ", "lambda"), piece(f" chosen for the whole model{where}")]
    low, high = (lam_text(value) for value in (np.nanmin(found.lam), np.nanmax(found.lam)))
    if low == high:
        return [piece(f"λ = {low}".replace(" ", NBSP), "lambda"), piece(f", chosen for the whole model{where},")]
    span = f"λ from {low} to {high}".replace(" ", NBSP)
    return [piece(span, "lambda"), piece(f", chosen for the whole model{where} in each draw,")]


def _chosen_texts(found: Selection) -> list[str]:
    """What was chosen of λ and γ, where there were several, and of α."""
    texts = [_chosen_text(found)] if len(found.lams) * len(found.gammas) > 1 or found.strength is None else []
    if found.strength is not None:
        values, counts = np.unique(found.strength[np.isfinite(found.strength)], return_counts=True)
        each = ", ".join(f"{lam_text(value)} ({n}×)" for value, n in zip(values.tolist(), counts, strict=True))
        texts.append(f"“auto” chose α of the shift: {each}." if each else "What was chosen of α was not recorded.")
    return texts


def _chosen_text(found: Selection) -> str:
    """What was chosen most often, and how often each λ was where the model has one."""
    pairs = found.pairs if found.by == "layer" else found.pairs[:, :1]
    pairs = pairs.reshape(-1, 2)
    pairs = pairs[pairs[:, 1] >= 0]
    if not len(pairs):
        return "What was chosen was not recorded."
    kinds, counts = np.unique(pairs, axis=0, return_counts=True)
    gamma, lam = kinds[int(counts.argmax())].tolist()
    point = f"λ = {lam_text(found.lams[lam])}"
    if len(found.gammas) > 1:
        point += f", γ = {lam_text(found.gammas[gamma] or 0.0)}"
    point = point.replace(" = ", f"{NBSP}={NBSP}")
    among = len(found.lams) * len(found.gammas)
    if found.by == "model":
        if len(kinds) == 1:
            return f"“auto” chose {point} of {among} values{'' if len(pairs) == 1 else ' in every draw'}."
        each = ", ".join(f"{lam_text(found.lams[m])} ({n}×)" for (_, m), n in zip(kinds.tolist(), counts, strict=True))
        return f"“auto” chose among {among} values of λ in {draws_text(len(pairs))}: {each}."
    if len(kinds) == 1:
        return f"“auto” chose {point} of {among} candidates everywhere."
    what = "layers" if found.lam.shape[0] == 1 else "layers and draws"
    return f"“auto” chose among {among} candidates, most often {point} ({counts.max()} of {len(pairs)} {what})."


def _quality_part(facts: LineFacts, gamma: int, lam: int, told: _Told) -> list[Piece]:
    quality, at, base = told.of(facts), (gamma, lam), facts.baseline
    start = _where(facts, gamma, lam)
    if quality is None or not math.isfinite(quality.mean[at]):
        return [*start, piece(f" has no measured {told.name}.")]
    shown = piece(f"{told.name} {told.show(float(quality.mean[at]))}", "quality")
    if base is not None and _is_baseline(facts, lam):
        itself = base.method == facts.line.method  # and not a point of another method's curve
        words = " has " if itself else f" is {baseline_name(base)}: "
        pieces = [*start, piece(words), shown, piece(told.where), *_float_part(facts, told)]
        rest = _best_of_curve(facts, quality, gamma, told)
        return [*pieces, piece(". "), *rest] if rest else [*pieces, piece(".")]
    pieces = [*start, piece(" has "), shown, piece(told.where)]
    if base is None or quality.to_baseline is None or not math.isfinite(quality.to_baseline.mean[at]):
        return [*pieces, *_float_part(facts, told), piece(".")]
    return pieces + _against(quality, quality.to_baseline, at, baseline_name(base), told)


def _float_part(facts: LineFacts, told: _Told) -> list[Piece]:
    reference = told.reference(facts)
    return [] if reference is None else [piece(f", where the float model has {told.show(reference)}")]


def _sample_text(draws: int, quality: Quality) -> str:
    """How much a comparison rests on: “five calibration sets”, with test items where those were a sample too."""
    return sets_text(draws) + (f" and {quality.items:,} test items" if quality.items else "")


def _against(quality: Quality, difference: Difference, at: tuple[int, int], name: str, told: _Told) -> list[Piece]:
    draws, reference = int(difference.draws[at]), quality.baseline_mean or math.nan
    here, base = difference.at(at), told.show(reference)
    mean, apart = float(here.mean), _apart(here)
    word = "better" if mean * told.better > 0 else "worse"
    if not math.isfinite(here.error):
        if mean == 0:
            return [piece(f", as much as {name} ({base}), on the one draw measured.")]
        return [
            piece(": "),
            _verdict(f"{told.size(apart, reference)} {word}", "quality"),
            piece(f" than {name} ({base}) on the one draw measured, which can't say how sure that is."),
        ]
    if here.verdict(()) == 0:
        return [
            piece(f", no measurable difference to {name} ({base}){_sample_unsaid(draws, quality, at[0])}: "),
            _verdict(told.size(here, reference), "quality"),
            piece(f"{_beside(told.interval(here, reference))}."),
        ]
    verdict = _verdict(f"{told.size(apart, reference)} {word}", "quality")
    interval = told.interval(apart, reference)
    if not interval.startswith("from "):
        return [piece(": "), verdict, piece(f" than {name} ({base}), {interval}.")]
    return [piece(": "), verdict, piece(f"{_beside(interval)} than {name} ({base}).")]


def _beside(interval: str) -> str:
    """“ (95 %: −0.1 to 6.4)”, of “from −0.1 to 6.4”; other words follow a comma."""
    if not interval.startswith("from "):
        return f", {interval}"
    return f" (95{NBSP}%: {interval.removeprefix('from ').replace(' ', NBSP)})"


def _sample_unsaid(draws: int, quality: Quality, gamma: int) -> str:
    """On how much a comparison rests, where no sentence on the band follows that says it."""
    return "" if quality.band.shape[1] > 1 and quality.band[gamma].any() else f" with {_sample_text(draws, quality)}"


def _apart(difference: Difference) -> Difference:
    """The difference the way round that is not negative: “2.9 better” has no sign."""
    return difference.scaled(-1 if difference.mean < 0 else 1)


def _best_of_curve(facts: LineFacts, quality: Quality, gamma: int, told: _Told) -> list[Piece]:
    """What the rest of the curve offers, said at the baseline itself."""
    best, among = quality.best[gamma], quality.best_of(gamma)
    if best is None or among is None or len(facts.line.lams) < 2:
        return []
    lam = f"λ = {lam_text(facts.line.lams[best])}".replace(" ", NBSP)
    word, most = ("higher", "highest") if told.better > 0 else ("lower", "lowest")
    if best == facts.baseline_position:
        return [piece(f"No other λ tried has a {word} {told.name}.")]
    lead = [piece(f"The {most} on this curve, "), piece(lam, "lambda")]
    here, reference = among.at((best,)), quality.baseline_mean or 1.0
    apart = _apart(here)
    if not math.isfinite(here.error):
        return [*lead, piece(f", is {told.size(apart, reference)} {word} on the one draw measured.")]
    if here.verdict(()) == told.better:
        size, interval = told.size(apart, reference), told.interval(apart, reference)
        return [*lead, piece(", is "), _verdict(f"{size} better", "quality"), piece(f", {interval}{_chosen_of(here)}.")]
    return [piece(f"No λ tried is better, as far as {_sample_text(quality.n_draws, quality)} can tell.")]


def _chosen_of(difference: Difference) -> str:
    """Said of the best of several, whose interval allows for the choice."""
    return f" (chosen of {difference.among})" if difference.among > 1 else ""


def _compared(change: float, less: str, more: str) -> str:
    """“31 % less”; a change below half a percent is “the same”."""
    if abs(change) < 0.005:
        return ""
    return f"{percent(abs(change))} {less if change < 0 else more}"


def _drift_part(facts: LineFacts, gamma: int, lam: int) -> list[Piece]:
    """How far the weights of the chosen layer, or of all, drift, and what that costs on the calibration text: relative
    to the baseline, or absolute at it."""
    at = (gamma, lam)
    change, cost = _change(facts, "drift", at), _change(facts, "recon", at)
    weights = [piece("Its weights " if facts.layer is None else "In this layer the weights ")]
    if change is not None:
        text = _compared(change, "less", "more") or "just as far"
        pieces = [*weights, piece("drift", "drift"), piece(" "), _verdict(text, "drift")]
        if cost is not None and (words := _compared(cost, "less", "more")):
            # Less drift is paid for; what both have less of is not a price.
            joint = ", at the price of " if change < 0 < cost else ", with "
            pieces += [
                piece(joint),
                _verdict(words, "recon"),
                piece(" "),
                piece("error", "recon"),
                piece(" on calibration text"),
            ]
        return [*pieces, piece(".")]
    if facts.drift is None or not math.isfinite(facts.drift[at]):
        return []
    return [*weights, piece(f"drift by {small_percent(facts.drift[at])}", "drift"), piece(" of their size.")]


def _error_text(facts: LineFacts, gamma: int, lam: int) -> str:
    """How well both texts are reproduced: relative to the baseline, or absolute at it; empty where not measured."""
    at, texts = (gamma, lam), (("recon", "calibration text"), ("held_out", "unseen text"))
    changes = [(what, change) for name, what in texts if (change := _change(facts, name, at)) is not None]
    if changes:
        parts = [f"{_compared(change, 'better', 'worse') or 'just as well'} on {what}" for what, change in changes]
        return f"{_which(facts)} outputs are reproduced {' and '.join(parts)}."
    errors = [(what, values) for (_, what), values in zip(texts, (facts.recon, facts.held_out), strict=True)]
    shares = [
        f"{small_percent(values[at])} on {what}"
        for what, values in errors
        if values is not None and math.isfinite(values[at])
    ]
    return f"{_which(facts)} the output error is {' and '.join(shares)}." if shares else ""


def _which(facts: LineFacts) -> str:
    return "Over all layers" if facts.layer is None else "In this layer"


def _change(facts: LineFacts, name: str, at: tuple[int, int]) -> float | None:
    """Relative change of a quantity to the baseline; None at the baseline and where it was not measured."""
    change = facts.change.get(name)
    if change is None or _is_baseline(facts, at[1]) or not math.isfinite(change[at]):
        return None
    return float(change[at])


def _band_part(facts: LineFacts, gamma: int, told: _Told) -> list[Piece]:
    """The sweet spot at this γ, with its doubt; and plainly, when no λ beats the baseline."""
    quality = told.of(facts)
    best = None if quality is None else quality.best[gamma]
    if quality is None or best is None or len(facts.line.lams) < 2:
        return []
    runs = spans(quality.band[gamma])
    if not runs:
        return [piece("One calibration draw can't tell which other λ may be the best.")]
    lams = facts.line.lams
    sample = _sample_text(quality.n_draws, quality)
    help_text = _no_help(facts, quality, gamma, told)
    if runs == [(0, len(lams) - 1)]:
        return [piece(f"No λ on this axis stands out, as far as {sample} can tell."), *help_text]
    if len(runs) == 1 and runs[0][0] == runs[0][1]:
        lead, joined = "Of those tried ", f"λ = {lam_text(lams[best])}".replace(" ", NBSP)
        rest = " is the best"
    elif len(runs) == 1:
        (first, last), *_ = runs
        lead, joined, rest = "The best λ lies between ", f"{lam_text(lams[first])} and {lam_text(lams[last])}", ""
    else:
        words = [lam_text(lams[a]) if a == b else f"{lam_text(lams[a])} to {lam_text(lams[b])}" for a, b in runs]
        lead, joined, rest = "The best λ is ", f"{', '.join(words[:-1])} or {words[-1]}", ""
    for word in (" to ", " and "):
        joined = joined.replace(word, word.replace(" ", NBSP))
    of_model = "" if facts.layer is None else " for the whole model"
    sure = f" (95{NBSP}% confidence, {sample})."
    return [piece(lead), piece(joined, "lambda"), piece(f"{rest}{of_model}{sure}"), *help_text]


def _no_help(facts: LineFacts, quality: Quality, gamma: int, told: _Told) -> list[Piece]:
    """Said only where the regulariser does not help: no λ of this curve is clearly better than the baseline, once it is
    taken into account of how many it is the best."""
    among, base = quality.best_of(gamma), facts.baseline
    if among is None or base is None or not np.isfinite(among.error).any():
        return []

    def helps(difference: Difference) -> bool:
        return any(difference.verdict((lam,)) == told.better for lam in range(len(facts.line.lams)))

    if helps(among):
        return []
    if helps(among.chosen_of(1)):
        return [piece(f" Chosen as the best of {among.among}, none is clearly better than {baseline_name(base)}.")]
    return [piece(f" None is better than {baseline_name(base)}.")]


def _beside_baseline(quality: Quality, at: tuple[int, int], name: str, told: _Told) -> str:
    difference, reference = quality.to_baseline, quality.baseline_mean or math.nan
    assert difference is not None
    here = difference.at(at)
    apart = _apart(here)
    word = "above" if here.mean >= 0 else "below"
    if not math.isfinite(here.error):
        return f"{told.size(apart, reference)} {word} {name} on one draw"
    if here.verdict(()) == 0:
        size, interval = told.size(here, reference), told.interval(here, reference)
        return f"no measurable difference to {name} ({size}, {interval})"
    return f"{told.size(apart, reference)} {word} {name}, {told.interval(apart, reference)}"


def _damping_text(facts: LineFacts, gamma: int, told: _Told) -> str:
    """Where GPTQ's own damping stands against the band, for a line whose λ it is; empty where all λ are in it."""
    quality = told.of(facts)
    runs = [] if quality is None else spans(quality.band[gamma])
    lams, lam = facts.line.lams, GPTQ.lam
    if GPTQ not in flags_of(facts) or runs in ([], [(0, len(lams) - 1)]):
        return ""
    ends = [(lams[first], lams[last]) for first, last in runs]
    if any(low <= lam <= high for low, high in ends):
        where = "lies in the band"
    elif lam < ends[0][0]:
        where = "lies below the band"
    else:
        where = "lies above the band" if lam > ends[-1][1] else "lies outside the band"
    return f"GPTQ’s damping is λ: its default, {lam_text(lam)}, {where}."


def _shrinkage_text(facts: LineFacts) -> str:
    """What λ from shrinkage would have cost beside the best λ of the line; empty for a single layer, whose λ is not
    that of the model, and for lines and studies without it."""
    found, quality, lams = shrinkage_lam(facts), facts.perplexity, facts.line.lams
    if found is None or quality is None or len(lams) < 2 or not found.is_median:
        return ""
    lead = f"λ from shrinkage (OAS, the median over layers), without a sweep, is {computed_lam_text(found.lam)}"
    cost, best = regret(facts, found.lam), quality.best[0]
    if cost is None or best is None:
        return "" if best is None else f"{lead}, which lies beyond the measured λ."
    told, reference = _TOLD["perplexity"], float(quality.mean[0, best])
    size = told.size(cost, reference)
    if not math.isfinite(cost.error):
        return f"{lead}: perplexity {size} above the best λ, {lam_text(lams[best])}, on one draw."
    if cost.verdict(()) == 0:
        return f"{lead}: no measurable difference to the best λ, {lam_text(lams[best])} ({size})."
    return f"{lead}: perplexity {size} above the best λ, {lam_text(lams[best])}, {told.interval(cost, reference)}."


def _beside_text(facts: LineFacts, what: str, difference: Difference, at: tuple[int, int]) -> str:
    """How the line compares with another of its kind, which is said of every quality."""
    return facts.once(f"{what} at {at}", lambda: _compared_text(what, difference, at))


def _compared_text(what: str, difference: Difference, at: tuple[int, int]) -> str:
    told, here = _TOLD["perplexity"], difference.at(at)
    lead, size = f"{what}: ", told.size(here, 50.0)
    if not math.isfinite(here.error):
        return f"{lead}{size} in perplexity, on one draw."
    if here.verdict(()) == 0:
        return f"{lead}no measurable difference ({size}, {told.interval(here, 50.0)})."
    apart = _apart(here)
    word = "lower" if here.mean < 0 else "higher"
    return f"{lead}perplexity {told.size(apart, 50.0)} {word}, {told.interval(apart, 50.0)}."

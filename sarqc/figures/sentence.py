"""The one sentence that the Lab says about a point (γ, λ), made from facts, and the small print under it; of perplexity
or of accuracy, whichever is shown.

A sentence is a list of pieces ``{"text": …, "role": …, "verdict": …}``; a role names the quantity that it speaks of
("quality", "recon", "held_out", "drift", "lambda"), or is empty. A quantity's name and value have its colour; a verdict
(better, worse, less) has none, since a colour says what is spoken of and never how it came out. Joined, the texts are
what is copied, read aloud and tested.

A clause is a list of its words and pieces in the order in which they are read; a clause that goes on is itself in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np

from sarqc.figures.flags import GPTQ, flags_of
from sarqc.figures.numbers import (
    NBSP,
    accuracy_text,
    baseline_name,
    computed_lam_text,
    difference_decimals,
    draws_text,
    joined,
    lam_text,
    number,
    percent,
    perplexity_text,
    sets_text,
    small_percent,
)
from sarqc.quantization.methods import AS_FOUND
from sarqc.study.facts import LineFacts, Quality, Selection, has_lam
from sarqc.study.intervals import interval_text, limits_text
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
class _Wording:
    """How a quality is worded: its value, the size of a difference, and which way is better."""

    name: QualityName
    of: Callable[[LineFacts], Quality | None]
    reference: Callable[[LineFacts], float | None]  # the float model's
    show: Callable[[float], str]
    in_points: bool  # of a hundred, in which differences are given
    better: Literal[-1, 1]  # the sign of a difference that is better
    where: str  # behind a value: the text that it was measured on

    @property
    def comparative(self) -> str:
        """“lower” or “higher”, whichever is better."""
        return "lower" if self.better < 0 else "higher"

    @property
    def superlative(self) -> str:
        """“lowest” or “highest”, whichever is best."""
        return "lowest" if self.better < 0 else "highest"

    def apart(self, difference: Difference, reference: float) -> str:
        """“3.2 points”, of a difference as it is."""
        scaled, decimals = self._scaled(difference, reference)
        size = number(float(scaled.mean), decimals)
        return f"{size} points" if self.in_points else size

    def interval(self, difference: Difference, reference: float) -> str:
        """“from −0.1 to 6.4”, of a difference as it is."""
        scaled, decimals = self._scaled(difference, reference)
        return interval_text(float(scaled.low), float(scaled.high), decimals)

    def with_interval(self, difference: Difference, reference: float, verdict: Piece) -> list[Piece]:
        """A verdict with “ (95 %: −0.1 to 6.4)”."""
        scaled, decimals = self._scaled(difference, reference)
        limits = limits_text(float(scaled.low), float(scaled.high), decimals).replace(" ", NBSP)
        return [verdict, piece(f" (95{NBSP}%: {limits})")]

    def _scaled(self, difference: Difference, reference: float) -> tuple[Difference, int]:
        scaled = difference.scaled(100.0 if self.in_points else 1.0)
        value = 50.0 if self.in_points else reference  # points have one decimal at least
        return scaled, difference_decimals(float(scaled.doubt), value)


_WORDINGS = {
    "perplexity": _Wording(
        "perplexity", lambda facts: facts.perplexity, lambda facts: facts.study.model.perplexity, perplexity_text,
        False, -1, " on unseen text",
    ),
    "accuracy": _Wording(
        "accuracy", lambda facts: facts.accuracy, lambda facts: facts.study.model.accuracy, accuracy_text,
        True, 1, "",
    ),
}  # fmt: skip


def sentence(facts: LineFacts, gamma: int, lam: int, quality: QualityName = "perplexity") -> list[Piece]:
    """The pieces of the sentence for one point of a line, by the quality that is shown."""
    wording = _WORDINGS[quality]
    parts = [
        _quality_part(facts, gamma, lam, wording),
        _drift_part(facts, gamma, lam),
        facts.once(f"band of {quality}, {gamma}", lambda: _band_part(facts, gamma, wording)),
    ]
    said: list[Piece] = []
    for part in filter(None, parts):
        said += [piece(" "), *part] if said else part
    return said


def small_print(facts: LineFacts, gamma: int, lam: int, quality: QualityName = "perplexity") -> list[str]:
    """Further facts of the point, one plain sentence each: what “auto” chose, errors, the quality that is not shown,
    what saliency adds."""
    lines: list[str] = [] if facts.selection is None else _chosen_texts(facts.selection)
    lines += filter(None, [_error_text(facts, gamma, lam), _damping_text(facts, gamma, _WORDINGS[quality])])
    lines += filter(None, [_shrinkage_text(facts)] if quality == "perplexity" else [])
    at = (gamma, lam)
    other = _WORDINGS["accuracy" if quality == "perplexity" else "perplexity"]
    measured, reference = other.of(facts), other.reference(facts)
    if measured is not None and math.isfinite(measured.mean[at]):
        text = f"{other.name.capitalize()} {other.show(float(measured.mean[at]))}"
        if reference is not None:
            text += f" (float {other.show(reference)})"
        if facts.baseline is not None and measured.to_baseline is not None and not _is_baseline(facts, lam):
            text += f", {_beside_baseline(measured, at, baseline_name(facts.baseline), other)}"
        lines.append(f"{text}.")
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


def pieces(parts: Sequence[object], role: str = "") -> list[Piece]:
    """Return the parts of a clause as pieces.

    Args:
        parts: In the order in which they are read: text, a piece, or pieces.
        role: Role of the text, without the blanks at its ends.
    """
    found: list[Piece] = []
    for part in parts:
        if isinstance(part, list):
            found += part
        elif isinstance(part, dict):
            found.append(Piece(text=part["text"], role=part["role"], verdict=part["verdict"]))
        else:
            match = re.fullmatch(r"( *)(.*?)( *)", str(part))
            assert match is not None
            lead, words, trail = match.groups()
            found += [piece(*one) for one in ((lead, ""), (words, role), (trail, "")) if one[0]]
    return found


def _verdict(text: str, role: str) -> Piece:
    return piece(text, role, verdict=True)


def _is_baseline(facts: LineFacts, lam: int) -> bool:
    return facts.baseline_position == lam


def _model(facts: LineFacts) -> str:
    """The model that is spoken of: the whole one beside a single layer, whose quality is not that of the model."""
    if facts.layer is None:
        return f"the {facts.line.bits}-bit model"
    return f"the whole {facts.line.bits}-bit model"


def _where(facts: LineFacts, gamma: int, lam: int) -> list[Piece]:
    """“At λ = 0.1, γ = 0.5”, “At λ = 0.1, from block 20: 0.3,”, “With λ and γ chosen layer by layer …”."""
    if facts.line.selected:
        return _auto_part(facts)
    if not has_lam(facts.line):
        if facts.line.method == AS_FOUND:
            return [piece("As it was found,", "lambda")]
        return pieces(["With ", piece(facts.line.spoken_title, "lambda")])
    value = facts.line.gammas[gamma]
    point = f"λ = {lam_text(facts.line.lams[lam])}".replace(" ", NBSP)
    if value is not None and len(facts.line.gammas) > 1:
        point += f", {facts.line.sign}{NBSP}={NBSP}{lam_text(value)}"
    if facts.line.later is not None:
        point += f", {facts.line.later.words},"
    return pieces(["At ", piece(point, "lambda")])


def _auto_part(facts: LineFacts) -> list[Piece]:
    """How λ was chosen, with its value where the whole model has one."""
    found = facts.selection
    if facts.line.selected == "layer":
        open_ = {"λ": len(facts.line.candidate_lams) > 1, "γ": len(facts.line.candidate_gammas) > 1}
        open_["α"] = found is not None and found.strength is not None
        signs = joined([sign for sign, is_open in open_.items() if is_open] or ["λ"])
        return pieces(["With ", piece(signs, "lambda"), " chosen layer by layer on held-out calibration text"])
    if found is None or not np.isfinite(found.lam).any():
        return pieces(["With ", piece("λ", "lambda"), " chosen for the whole model on held-out calibration text"])
    low, high = (lam_text(value) for value in (np.nanmin(found.lam), np.nanmax(found.lam)))
    if low == high:
        lam = piece(f"λ = {low}".replace(" ", NBSP), "lambda")
        return pieces(["With ", lam, ", chosen for the whole model on held-out calibration text,"])
    span = piece(f"λ from {low} to {high}".replace(" ", NBSP), "lambda")
    return pieces(["With ", span, ", chosen for the whole model on held-out calibration text in each draw,"])


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
            return f"“auto” chose {point} of {among} {'values.' if len(pairs) == 1 else 'values in every draw.'}"
        each = ", ".join(f"{lam_text(found.lams[m])} ({n}×)" for (_, m), n in zip(kinds.tolist(), counts, strict=True))
        return f"“auto” chose among {among} values of λ in {draws_text(len(pairs))}: {each}."  # fmt: skip
    if len(kinds) == 1:
        return f"“auto” chose {point} of {among} candidates everywhere."
    one_draw = found.lam.shape[0] == 1
    return (
        f"“auto” chose among {among} candidates, most often {point} ({counts.max()} of {len(pairs)} "
        f"{'layers).' if one_draw else 'layers and draws).'}"
    )


def _quality_part(facts: LineFacts, gamma: int, lam: int, wording: _Wording) -> list[Piece]:
    quality, at, base = wording.of(facts), (gamma, lam), facts.baseline
    subject = [_where(facts, gamma, lam), f" {_model(facts)}"]
    if quality is None or not math.isfinite(quality.mean[at]):
        return pieces([*subject, f" has no measured {wording.name}."])
    value = piece(f"{wording.name} {wording.show(float(quality.mean[at]))}", "quality")
    clause = pieces([*subject, " has ", value, wording.where])
    if base is not None and _is_baseline(facts, lam):
        if base.method != facts.line.method:  # a point of another method's curve
            clause = pieces([*subject, f" is {baseline_name(base)}: ", value, wording.where])
        rest = _best_of_curve(facts, quality, gamma, wording)
        return [*_beside_float(clause, facts, wording), *([piece(" "), *rest] if rest else [])]
    if base is None or quality.to_baseline is None or not math.isfinite(quality.to_baseline.mean[at]):
        return _beside_float(clause, facts, wording)
    return [*clause, *pieces(_against(quality, at, baseline_name(base), wording))]


def _beside_float(clause: list[Piece], facts: LineFacts, wording: _Wording) -> list[Piece]:
    reference = wording.reference(facts)
    if reference is None:
        return [*clause, piece(".")]
    return pieces([clause, ", where the float model has ", wording.show(reference), "."])


def _sample_text(draws: int, quality: Quality) -> str:
    """How much a comparison rests on: “five calibration sets”, with test items where those were a sample too."""
    sets = sets_text(draws)
    return f"{sets} and {number(quality.items, 0)} test items" if quality.items else sets


def _against(quality: Quality, at: tuple[int, int], name: str, wording: _Wording) -> Sequence[object]:
    """The end of the clause on a point: its difference to the baseline."""
    assert quality.to_baseline is not None
    draws, reference = int(quality.to_baseline.draws[at]), quality.baseline_mean or math.nan
    here = quality.to_baseline.at(at)
    baseline = f"{name} ({wording.show(reference)})"
    if not math.isfinite(here.error):
        if float(here.mean) == 0:
            return [f", as much as {baseline}, on the one draw measured."]
        end = f" than {baseline} on the one draw measured, which can't say how sure that is."
        return [": ", _judged(here, reference, wording), end]
    if here.verdict(()) == 0:
        size = _verdict(wording.apart(here, reference), "quality")
        # Where a sentence on the band follows, it has the sample.
        is_followed = quality.band.shape[1] > 1 and quality.band[at[0]].any()
        sample = "" if is_followed else f" with {_sample_text(draws, quality)}"
        difference = wording.with_interval(here, reference, size)
        return [f", no measurable difference to {baseline}{sample}: ", difference, "."]
    difference = wording.with_interval(_apart(here), reference, _judged(here, reference, wording))
    return [": ", difference, f" than {baseline}."]


def _judged(difference: Difference, reference: float, wording: _Wording) -> Piece:
    """“3.2 better”."""
    size = wording.apart(_apart(difference), reference)
    return _verdict(f"{size} {'better' if difference.mean * wording.better > 0 else 'worse'}", "quality")


def _apart(difference: Difference) -> Difference:
    """The difference the way round that is not negative: “2.9 better” has no sign."""
    return difference.scaled(-1 if difference.mean < 0 else 1)


def _best_of_curve(facts: LineFacts, quality: Quality, gamma: int, wording: _Wording) -> list[Piece]:
    """What the rest of the curve offers, said at the baseline itself."""
    best, among = quality.best[gamma], quality.best_of(gamma)
    if best is None or among is None or len(facts.line.lams) < 2:
        return []
    if best == facts.baseline_position:
        return [piece(f"No other λ tried has a {wording.comparative} {wording.name}.")]
    lam = piece(f"λ = {lam_text(facts.line.lams[best])}".replace(" ", NBSP), "lambda")
    here, reference = among.at((best,)), quality.baseline_mean or 1.0
    apart = _apart(here)
    lead = [f"The {wording.superlative} on this curve, ", lam]
    if not math.isfinite(here.error):
        size = wording.apart(apart, reference)
        return pieces([*lead, f", is {size} {wording.comparative} on the one draw measured."])
    if here.verdict(()) == wording.better:
        interval = wording.interval(apart, reference)
        if here.among > 1:  # the interval allows for the choice
            interval = f"{interval} (chosen of {here.among})"
        return pieces([*lead, ", is ", _judged(here, reference, wording), f", {interval}."])
    sample = _sample_text(quality.n_draws, quality)
    return [piece(f"No λ tried is better, as far as {sample} can tell.")]


def _less_or_more(change: float, same: str = "") -> str:
    """“31 % less”; ``same`` for a change below half a percent."""
    if abs(change) < 0.005:
        return same
    return f"{percent(abs(change))} {'less' if change < 0 else 'more'}"


def _drift_part(facts: LineFacts, gamma: int, lam: int) -> list[Piece]:
    """How far the weights of the chosen layer, or of all, drift, and what that costs on the calibration text: relative
    to the baseline, or absolute at it."""
    at = (gamma, lam)
    change, cost = _change(facts, "drift", at), _change(facts, "recon", at)
    if change is not None:
        far = _verdict(_less_or_more(change, "just as far"), "drift")
        drift = pieces(["drift ", far], "drift")
        clause = pieces([_weights(facts), drift])
        if cost is None or not (words := _less_or_more(cost)):
            return [*clause, piece(".")]
        error = pieces([_verdict(words, "recon"), " error"], "recon")
        # Less drift is paid for; what both have less of is not a price.
        joint = ", at the price of " if change < 0 < cost else ", with "
        return pieces([clause, joint, error, " on calibration text."])
    if facts.drift is None or not math.isfinite(facts.drift[at]):
        return []
    by = piece(f"drift by {small_percent(facts.drift[at])}", "drift")
    return pieces([_weights(facts), by, " of their size."])


def _weights(facts: LineFacts) -> str:
    return "Its weights " if facts.layer is None else "In this layer the weights "


_TEXTS = {"recon": "calibration text", "held_out": "unseen text"}


def _error_text(facts: LineFacts, gamma: int, lam: int) -> str:
    """How well both texts are reproduced: relative to the baseline, or absolute at it; empty where not measured."""
    at, where = (gamma, lam), "Over all layers" if facts.layer is None else "In this layer"
    changes = [_reproduced(name, change) for name in _TEXTS if (change := _change(facts, name, at)) is not None]
    if changes:
        return f"{where} outputs are reproduced {joined(changes)}."
    errors = {"recon": facts.recon, "held_out": facts.held_out}
    shares = [
        f"{small_percent(values[at])} on {_TEXTS[name]}"
        for name, values in errors.items()
        if values is not None and math.isfinite(values[at])
    ]
    return f"{where} the output error is {joined(shares)}." if shares else ""


def _reproduced(name: str, change: float) -> str:
    """“31 % better on unseen text”."""
    if abs(change) < 0.005:
        return f"just as well on {_TEXTS[name]}"
    return f"{percent(abs(change))} {'better' if change < 0 else 'worse'} on {_TEXTS[name]}"


def _change(facts: LineFacts, name: str, at: tuple[int, int]) -> float | None:
    """Relative change of a quantity to the baseline; None at the baseline and where it was not measured."""
    change = facts.change.get(name)
    if change is None or _is_baseline(facts, at[1]) or not math.isfinite(change[at]):
        return None
    return float(change[at])


def _band_part(facts: LineFacts, gamma: int, wording: _Wording) -> list[Piece]:
    """The sweet spot at this γ, with its doubt; and plainly, when no λ beats the baseline."""
    quality = wording.of(facts)
    best = None if quality is None else quality.best[gamma]
    if quality is None or best is None or len(facts.line.lams) < 2:
        return []
    runs = spans(quality.band[gamma])
    if not runs:
        return [piece("One calibration draw can't tell which other λ may be the best.")]
    lams, of_model = facts.line.lams, facts.layer is not None
    sample = _sample_text(quality.n_draws, quality)
    help_text = _no_help(facts, quality, gamma, wording)
    if runs == [(0, len(lams) - 1)]:
        return [piece(f"No λ on this axis stands out, as far as {sample} can tell."), *help_text]
    ends = [tuple(lam_text(lams[at]) for at in run) for run in runs]
    (low, high), *others = ends
    if others:
        words = [low if low == high else f"{low} to {high}" for low, high in ends]
        words = [word.replace(" ", NBSP) for word in words]
        shown, lead, end = f"{', '.join(words[:-1])} or {words[-1]}", "The best λ is ", ""
    elif low == high:
        shown, lead, end = f"λ = {lam_text(lams[best])}".replace(" ", NBSP), "Of those tried ", " is the best"
    else:
        shown, lead, end = joined([low, high]).replace(" ", NBSP), "The best λ lies between ", ""
    end += " for the whole model" if of_model else ""
    clause = [lead, piece(shown, "lambda"), f"{end} (95{NBSP}% confidence, {sample})."]
    return [*pieces(clause), *help_text]


def _no_help(facts: LineFacts, quality: Quality, gamma: int, wording: _Wording) -> list[Piece]:
    """Said only where the regulariser does not help: no λ of this curve is clearly better than the baseline, once it is
    taken into account of how many it is the best."""
    among, base = quality.best_of(gamma), facts.baseline
    if among is None or base is None or not np.isfinite(among.error).any():
        return []

    def helps(difference: Difference) -> bool:
        return any(difference.verdict((lam,)) == wording.better for lam in range(len(facts.line.lams)))

    if helps(among):
        return []
    if helps(among.chosen_of(1)):
        return [piece(f" Chosen as the best of {among.among}, none is clearly better than {baseline_name(base)}.")]
    return [piece(f" None is better than {baseline_name(base)}.")]


def _beside_baseline(quality: Quality, at: tuple[int, int], name: str, wording: _Wording) -> str:
    difference, reference = quality.to_baseline, quality.baseline_mean or math.nan
    assert difference is not None
    here = difference.at(at)
    if math.isfinite(here.error) and here.verdict(()) == 0:
        size = wording.apart(here, reference)
        return f"no measurable difference to {name} ({size}, {wording.interval(here, reference)})"
    apart = _apart(here)
    size, side = wording.apart(apart, reference), "above" if here.mean >= 0 else "below"
    if not math.isfinite(here.error):
        return f"{size} {side} {name} on one draw"
    return f"{size} {side} {name}, {wording.interval(apart, reference)}"


def _damping_text(facts: LineFacts, gamma: int, wording: _Wording) -> str:
    """Where GPTQ's own damping stands against the band, for a line whose λ it is; empty where all λ are in it."""
    quality = wording.of(facts)
    runs = [] if quality is None else spans(quality.band[gamma])
    lams, lam = facts.line.lams, GPTQ.lam
    if GPTQ not in flags_of(facts) or runs in ([], [(0, len(lams) - 1)]):
        return ""
    ends = [(lams[first], lams[last]) for first, last in runs]
    if any(low <= lam <= high for low, high in ends):
        place = "in"
    elif lam < ends[0][0]:
        place = "below"
    else:
        place = "above" if lam > ends[-1][1] else "outside"
    return f"GPTQ’s damping is λ: its default, {lam_text(lam)}, lies {place} the band."


def _shrinkage_text(facts: LineFacts) -> str:
    """What λ from shrinkage would have cost beside the best λ of the line; empty for a single layer, whose λ is not
    that of the model, and for lines and studies without it."""
    found, quality, lams = shrinkage_lam(facts), facts.perplexity, facts.line.lams
    if found is None or quality is None or len(lams) < 2 or not found.is_median:
        return ""
    clause = f"λ from shrinkage (OAS, the median over layers), without a sweep, is {computed_lam_text(found.lam)}"
    cost, best = regret(facts, found.lam), quality.best[0]
    if cost is None or best is None:
        return "" if best is None else f"{clause}, which lies beyond the measured λ."
    wording, reference = _WORDINGS["perplexity"], float(quality.mean[0, best])
    size, beside = wording.apart(cost, reference), f"the best λ, {lam_text(lams[best])}"
    if not math.isfinite(cost.error):
        return f"{clause}: perplexity {size} above {beside}, on one draw."
    if cost.verdict(()) == 0:
        return f"{clause}: no measurable difference to {beside} ({size})."
    return f"{clause}: perplexity {size} above {beside}, {wording.interval(cost, reference)}."


def _beside_text(facts: LineFacts, what: str, difference: Difference, at: tuple[int, int]) -> str:
    """How the line compares with another of its kind, which is said of every quality."""
    return facts.once(f"{what} at {at}", lambda: _compared_text(what, difference, at))


def _compared_text(what: str, difference: Difference, at: tuple[int, int]) -> str:
    wording, here = _WORDINGS["perplexity"], difference.at(at)
    if not math.isfinite(here.error):
        return f"{what}: {wording.apart(here, 50.0)} in perplexity, on one draw."
    if here.verdict(()) == 0:
        size, interval = wording.apart(here, 50.0), wording.interval(here, 50.0)
        return f"{what}: no measurable difference ({size}, {interval})."
    apart, side = _apart(here), "lower" if here.mean < 0 else "higher"
    return f"{what}: perplexity {wording.apart(apart, 50.0)} {side}, {wording.interval(apart, 50.0)}."

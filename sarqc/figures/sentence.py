"""The one sentence that the Lab says about a point (γ, λ), made from facts, and the small print under it; of perplexity
or of accuracy, whichever is shown.

A sentence is a list of pieces ``{"text": …, "role": …, "verdict": …}``; a role names the quantity that it speaks of
("quality", "recon", "held_out", "drift", "lambda"), or is empty. A quantity's name and value have its colour; a verdict
(better, worse, less) has none, since a colour says what is spoken of and never how it came out. Joined, the texts are
what is copied, read aloud and tested.

Each clause is a message with its numbers and coloured words as values; a clause that goes on is itself a value.
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
class _Told:
    """How a quality is told: its value, the size of a difference, which way is better, and its own messages."""

    name: QualityName
    of: Callable[[LineFacts], Quality | None]
    reference: Callable[[LineFacts], float | None]  # the float model's
    show: Callable[[float], str]
    in_points: bool  # of a hundred, in which differences are told
    better: Literal[-1, 1]  # the sign of a difference that is better
    value: str  # this and the rest are messages
    has: str
    is_baseline: str
    unmeasured: str
    no_other: str  # said at the baseline: no λ is better
    best_of_one_draw: str  # said there of the best λ
    best: str
    small_print: str
    small_print_beside_float: str

    def apart(self, difference: Difference, reference: float) -> str:
        """“3.2 points”, of a difference as it is."""
        told, decimals = self._scaled(difference, reference)
        size = number(float(told.mean), decimals)
        return f"{size} points" if self.in_points else size

    def interval(self, difference: Difference, reference: float) -> str:
        """“from −0.1 to 6.4”, of a difference as it is."""
        told, decimals = self._scaled(difference, reference)
        return interval_text(float(told.low), float(told.high), decimals)

    def with_interval(self, difference: Difference, reference: float, verdict: Piece) -> list[Piece]:
        """A verdict with “ (95 %: −0.1 to 6.4)”."""
        told, decimals = self._scaled(difference, reference)
        limits = limits_text(float(told.low), float(told.high), decimals).replace(" ", NBSP)
        return [verdict, piece(f" (95{NBSP}%: {limits})")]

    def _scaled(self, difference: Difference, reference: float) -> tuple[Difference, int]:
        told = difference.scaled(100.0 if self.in_points else 1.0)
        value = 50.0 if self.in_points else reference  # points have one decimal at least
        return told, difference_decimals(float(told.doubt), value)


_TOLD = {
    "perplexity": _Told(
        "perplexity", lambda facts: facts.perplexity, lambda facts: facts.study.model.perplexity, perplexity_text,
        False, -1,
        value="perplexity {value}",
        has="{where} {model} has {quality} on unseen text",
        is_baseline="{where} {model} is {baseline}: {quality} on unseen text",
        unmeasured="{where} {model} has no measured perplexity.",
        no_other="No other λ tried has a lower perplexity.",
        best_of_one_draw="The lowest on this curve, {lam}, is {size} lower on the one draw measured.",
        best="The lowest on this curve, {lam}, is {difference}, {interval}.",
        small_print="Perplexity {value}",
        small_print_beside_float="Perplexity {value} (float {float})",
    ),
    "accuracy": _Told(
        "accuracy", lambda facts: facts.accuracy, lambda facts: facts.study.model.accuracy, accuracy_text,
        True, 1,
        value="accuracy {value}",
        has="{where} {model} has {quality}",
        is_baseline="{where} {model} is {baseline}: {quality}",
        unmeasured="{where} {model} has no measured accuracy.",
        no_other="No other λ tried has a higher accuracy.",
        best_of_one_draw="The highest on this curve, {lam}, is {size} higher on the one draw measured.",
        best="The highest on this curve, {lam}, is {difference}, {interval}.",
        small_print="Accuracy {value}",
        small_print_beside_float="Accuracy {value} (float {float})",
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
    said: list[Piece] = []
    for part in filter(None, parts):
        said += [piece(" "), *part] if said else part
    return said


def small_print(facts: LineFacts, gamma: int, lam: int, quality: QualityName = "perplexity") -> list[str]:
    """Further facts of the point, one plain sentence each: what “auto” chose, errors, the quality that is not shown,
    what saliency adds."""
    lines: list[str] = [] if facts.selection is None else _chosen_texts(facts.selection)
    lines += filter(None, [_error_text(facts, gamma, lam), _damping_text(facts, gamma, _TOLD[quality])])
    lines += filter(None, [_shrinkage_text(facts)] if quality == "perplexity" else [])
    at = (gamma, lam)
    other = _TOLD["accuracy" if quality == "perplexity" else "perplexity"]
    measured, reference = other.of(facts), other.reference(facts)
    if measured is not None and math.isfinite(measured.mean[at]):
        value = other.show(float(measured.mean[at]))
        if reference is None:
            text = other.small_print.format(value=value)
        else:
            text = other.small_print_beside_float.format(value=value, float=other.show(reference))
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
    """Return the parts of a message as pieces: text in a role, blanks at its ends left out, beside pieces as they are.

    Args:
        parts: Text, a piece, or pieces, see ``language.tr_parts``.
        role: Of the text.
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


def _quality_part(facts: LineFacts, gamma: int, lam: int, told: _Told) -> list[Piece]:
    quality, at, base = told.of(facts), (gamma, lam), facts.baseline
    about: dict[str, object] = {"where": _where(facts, gamma, lam), "model": _model(facts)}
    if quality is None or not math.isfinite(quality.mean[at]):
        return pieces(parts(told.unmeasured, **about))
    about["quality"] = piece(told.value.format(value=told.show(float(quality.mean[at]))), "quality")
    clause = pieces(parts(told.has, **about))
    if base is not None and _is_baseline(facts, lam):
        if base.method != facts.line.method:  # a point of another method's curve
            clause = pieces(parts(told.is_baseline, **about, baseline=baseline_name(base)))
        rest = _best_of_curve(facts, quality, gamma, told)
        return [*_beside_float(clause, facts, told), *([piece(" "), *rest] if rest else [])]
    if base is None or quality.to_baseline is None or not math.isfinite(quality.to_baseline.mean[at]):
        return _beside_float(clause, facts, told)
    return _against(clause, quality, at, baseline_name(base), told)


def _beside_float(clause: list[Piece], facts: LineFacts, told: _Told) -> list[Piece]:
    reference = told.reference(facts)
    if reference is None:
        return [*clause, piece(".")]
    value = told.show(reference)
    return pieces([clause, ", where the float model has ", value, "."])


def _sample_text(draws: int, quality: Quality) -> str:
    """How much a comparison rests on: “five calibration sets”, with test items where those were a sample too."""
    sets = sets_text(draws)
    return f"{sets} and {number(quality.items, 0)} test items" if quality.items else sets


def _against(clause: list[Piece], quality: Quality, at: tuple[int, int], name: str, told: _Told) -> list[Piece]:
    """The clause on a point, with its difference to the baseline."""
    assert quality.to_baseline is not None
    draws, reference = int(quality.to_baseline.draws[at]), quality.baseline_mean or math.nan
    here = quality.to_baseline.at(at)
    values = {"clause": clause, "baseline": name, "value": told.show(reference)}
    if not math.isfinite(here.error):
        if float(here.mean) == 0:
            return pieces(parts("{clause}, as much as {baseline} ({value}), on the one draw measured.", **values))
        return pieces(
            parts(
                "{clause}: {difference} than {baseline} ({value}) on the one draw measured, which can't say how sure "
                "that is.",
                difference=_judged(here, reference, told),
                **values,
            )
        )
    if here.verdict(()) == 0:
        size = _verdict(told.apart(here, reference), "quality")
        values["difference"] = told.with_interval(here, reference, size)
        if quality.band.shape[1] > 1 and quality.band[at[0]].any():  # a sentence on the band follows, with the sample
            return pieces(parts("{clause}, no measurable difference to {baseline} ({value}): {difference}.", **values))
        return pieces(
            parts(
                "{clause}, no measurable difference to {baseline} ({value}) with {sample}: {difference}.",
                sample=_sample_text(draws, quality),
                **values,
            )
        )
    values["difference"] = told.with_interval(_apart(here), reference, _judged(here, reference, told))
    return pieces(parts("{clause}: {difference} than {baseline} ({value}).", **values))


def _judged(difference: Difference, reference: float, told: _Told) -> Piece:
    """“3.2 better”."""
    size = told.apart(_apart(difference), reference)
    return _verdict(f"{size} {'better' if difference.mean * told.better > 0 else 'worse'}", "quality")


def _apart(difference: Difference) -> Difference:
    """The difference the way round that is not negative: “2.9 better” has no sign."""
    return difference.scaled(-1 if difference.mean < 0 else 1)


def _best_of_curve(facts: LineFacts, quality: Quality, gamma: int, told: _Told) -> list[Piece]:
    """What the rest of the curve offers, said at the baseline itself."""
    best, among = quality.best[gamma], quality.best_of(gamma)
    if best is None or among is None or len(facts.line.lams) < 2:
        return []
    if best == facts.baseline_position:
        return [piece(told.no_other)]
    lam = piece(f"λ = {lam_text(facts.line.lams[best])}".replace(" ", NBSP), "lambda")
    here, reference = among.at((best,)), quality.baseline_mean or 1.0
    apart = _apart(here)
    if not math.isfinite(here.error):
        return pieces(parts(told.best_of_one_draw, lam=lam, size=told.apart(apart, reference)))
    if here.verdict(()) == told.better:
        interval = told.interval(apart, reference)
        if here.among > 1:  # the interval allows for the choice
            interval = f"{interval} (chosen of {here.among})"
        return pieces(parts(told.best, lam=lam, difference=_judged(here, reference, told), interval=interval))
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
        if facts.layer is None:
            clause = pieces(["Its weights ", drift])
        else:
            clause = pieces(["In this layer the weights ", drift])
        if cost is None or not (words := _less_or_more(cost)):
            return [*clause, piece(".")]
        error = pieces([_verdict(words, "recon"), " error"], "recon")
        # Less drift is paid for; what both have less of is not a price.
        return pieces(
            [clause, ", at the price of ", error, " on calibration text."]
            if change < 0 < cost
            else [clause, ", with ", error, " on calibration text."]
        )
    if facts.drift is None or not math.isfinite(facts.drift[at]):
        return []
    by = piece(f"drift by {small_percent(facts.drift[at])}", "drift")
    if facts.layer is None:
        return pieces(["Its weights ", by, " of their size."])
    return pieces(["In this layer the weights ", by, " of their size."])


_REPRODUCED = {  # better, worse, and just as well, in the order in which they are told
    "recon": (
        "{percent} better on calibration text",
        "{percent} worse on calibration text",
        "just as well on calibration text",
    ),
    "held_out": (
        "{percent} better on unseen text",
        "{percent} worse on unseen text",
        "just as well on unseen text",
    ),
}
_ERROR_ON = {"recon": "{share} on calibration text", "held_out": "{share} on unseen text"}


def _error_text(facts: LineFacts, gamma: int, lam: int) -> str:
    """How well both texts are reproduced: relative to the baseline, or absolute at it; empty where not measured."""
    at = (gamma, lam)
    changes = [_reproduced(name, change) for name in _REPRODUCED if (change := _change(facts, name, at)) is not None]
    if changes:
        everywhere = "Over all layers outputs are reproduced {changes}."
        here = "In this layer outputs are reproduced {changes}."
        return (
            everywhere.format(changes=joined(changes)) if facts.layer is None else here.format(changes=joined(changes))
        )
    errors = {"recon": facts.recon, "held_out": facts.held_out}
    shares = [
        _ERROR_ON[name].format(share=small_percent(values[at]))
        for name, values in errors.items()
        if values is not None and math.isfinite(values[at])
    ]
    everywhere = "Over all layers the output error is {shares}."
    here = "In this layer the output error is {shares}."
    return (
        (everywhere.format(shares=joined(shares)) if facts.layer is None else here.format(shares=joined(shares)))
        if shares
        else ""
    )


def _reproduced(name: str, change: float) -> str:
    better, worse, same = _REPRODUCED[name]
    if abs(change) < 0.005:
        return same
    return better.format(percent=percent(abs(change))) if change < 0 else worse.format(percent=percent(abs(change)))


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
    lams, of_model = facts.line.lams, facts.layer is not None
    sample = _sample_text(quality.n_draws, quality)
    help_text = _no_help(facts, quality, gamma, told)
    if runs == [(0, len(lams) - 1)]:
        return [piece(f"No λ on this axis stands out, as far as {sample} can tell."), *help_text]
    ends = [tuple(lam_text(lams[at]) for at in run) for run in runs]
    (low, high), *others = ends
    if others:
        words = [low if low == high else f"{low} to {high}" for low, high in ends]
        words = [word.replace(" ", NBSP) for word in words]
        shown = f"{', '.join(words[:-1])} or {words[-1]}"
        alone, whole = "The best λ is {lam}", "The best λ is {lam} for the whole model"
    elif low == high:
        shown = f"λ = {lam_text(lams[best])}".replace(" ", NBSP)
        alone = "Of those tried {lam} is the best"
        whole = "Of those tried {lam} is the best for the whole model"
    else:
        shown = joined([low, high]).replace(" ", NBSP)
        alone = "The best λ lies between {lam}"
        whole = "The best λ lies between {lam} for the whole model"
    clause = pieces(parts(whole, lam=piece(shown, "lambda")) if of_model else parts(alone, lam=piece(shown, "lambda")))
    sure = [clause, " (95\u00a0% confidence, ", sample, ")."]
    return [*pieces(sure), *help_text]


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
    text = f"None is better than {baseline_name(base)}."
    if helps(among.chosen_of(1)):
        text = f"Chosen as the best of {among.among}, none is clearly better than {baseline_name(base)}."  # fmt: skip
    return [piece(f" {text}")]


def _beside_baseline(quality: Quality, at: tuple[int, int], name: str, told: _Told) -> str:
    difference, reference = quality.to_baseline, quality.baseline_mean or math.nan
    assert difference is not None
    here = difference.at(at)
    apart, is_above = _apart(here), here.mean >= 0
    size = told.apart(apart, reference)
    if not math.isfinite(here.error):
        above, below = "{size} above {baseline} on one draw", "{size} below {baseline} on one draw"
        return above.format(size=size, baseline=name) if is_above else below.format(size=size, baseline=name)
    if here.verdict(()) == 0:
        return f"no measurable difference to {name} ({told.apart(here, reference)}, {told.interval(here, reference)})"  # fmt: skip
    above, below = "{size} above {baseline}, {interval}", "{size} below {baseline}, {interval}"
    interval = told.interval(apart, reference)
    return (
        above.format(size=size, baseline=name, interval=interval)
        if is_above
        else below.format(size=size, baseline=name, interval=interval)
    )


def _damping_text(facts: LineFacts, gamma: int, told: _Told) -> str:
    """Where GPTQ's own damping stands against the band, for a line whose λ it is; empty where all λ are in it."""
    quality = told.of(facts)
    runs = [] if quality is None else spans(quality.band[gamma])
    lams, lam = facts.line.lams, GPTQ.lam
    if GPTQ not in flags_of(facts) or runs in ([], [(0, len(lams) - 1)]):
        return ""
    ends = [(lams[first], lams[last]) for first, last in runs]
    if any(low <= lam <= high for low, high in ends):
        text = "GPTQ’s damping is λ: its default, {lam}, lies in the band."
    elif lam < ends[0][0]:
        text = "GPTQ’s damping is λ: its default, {lam}, lies below the band."
    elif lam > ends[-1][1]:
        text = "GPTQ’s damping is λ: its default, {lam}, lies above the band."
    else:
        text = "GPTQ’s damping is λ: its default, {lam}, lies outside the band."
    return text.format(lam=lam_text(lam))


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
    told, reference = _TOLD["perplexity"], float(quality.mean[0, best])
    values = {"clause": clause, "size": told.apart(cost, reference), "best": lam_text(lams[best])}
    if not math.isfinite(cost.error):
        return "{clause}: perplexity {size} above the best λ, {best}, on one draw.".format(**values)
    if cost.verdict(()) == 0:
        return "{clause}: no measurable difference to the best λ, {best} ({size}).".format(**values)
    values["interval"] = told.interval(cost, reference)
    return "{clause}: perplexity {size} above the best λ, {best}, {interval}.".format(**values)


def _beside_text(facts: LineFacts, what: str, difference: Difference, at: tuple[int, int]) -> str:
    """How the line compares with another of its kind, which is said of every quality."""
    return facts.once(f"{what} at {at}", lambda: _compared_text(what, difference, at))


def _compared_text(what: str, difference: Difference, at: tuple[int, int]) -> str:
    told, here = _TOLD["perplexity"], difference.at(at)
    values = {"what": what, "size": told.apart(here, 50.0), "interval": told.interval(here, 50.0)}
    if not math.isfinite(here.error):
        return f"{what}: {values['size']} in perplexity, on one draw."
    if here.verdict(()) == 0:
        return "{what}: no measurable difference ({size}, {interval}).".format(**values)
    apart = _apart(here)
    values |= {"size": told.apart(apart, 50.0), "interval": told.interval(apart, 50.0)}
    return (
        "{what}: perplexity {size} lower, {interval}.".format(**values)
        if here.mean < 0
        else "{what}: perplexity {size} higher, {interval}.".format(**values)
    )

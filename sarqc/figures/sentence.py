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
from sarqc.figures.knob_worth import knobs_text
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
from sarqc.language import message, tr, tr_parts
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
        return tr("{size} points", size=size) if self.in_points else size

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
        value=message("perplexity {value}"),
        has=message("{where} {model} has {quality} on unseen text"),
        is_baseline=message("{where} {model} is {baseline}: {quality} on unseen text"),
        unmeasured=message("{where} {model} has no measured perplexity."),
        no_other=message("No other λ tried has a lower perplexity."),
        best_of_one_draw=message("The lowest on this curve, {lam}, is {size} lower on the one draw measured."),
        best=message("The lowest on this curve, {lam}, is {difference}, {interval}."),
        small_print=message("Perplexity {value}"),
        small_print_beside_float=message("Perplexity {value} (float {float})"),
    ),
    "accuracy": _Told(
        "accuracy", lambda facts: facts.accuracy, lambda facts: facts.study.model.accuracy, accuracy_text,
        True, 1,
        value=message("accuracy {value}"),
        has=message("{where} {model} has {quality}"),
        is_baseline=message("{where} {model} is {baseline}: {quality}"),
        unmeasured=message("{where} {model} has no measured accuracy."),
        no_other=message("No other λ tried has a higher accuracy."),
        best_of_one_draw=message("The highest on this curve, {lam}, is {size} higher on the one draw measured."),
        best=message("The highest on this curve, {lam}, is {difference}, {interval}."),
        small_print=message("Accuracy {value}"),
        small_print_beside_float=message("Accuracy {value} (float {float})"),
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
    what λ and the value beside it are worth, what saliency adds."""
    lines: list[str] = [] if facts.selection is None else _chosen_texts(facts.selection)
    lines += filter(None, [_error_text(facts, gamma, lam), _damping_text(facts, gamma, _TOLD[quality])])
    lines += filter(None, [_shrinkage_text(facts), knobs_text(facts)] if quality == "perplexity" else [])
    at = (gamma, lam)
    other = _TOLD["accuracy" if quality == "perplexity" else "perplexity"]
    measured, reference = other.of(facts), other.reference(facts)
    if measured is not None and math.isfinite(measured.mean[at]):
        value = other.show(float(measured.mean[at]))
        if reference is None:
            text = tr(other.small_print, value=value)
        else:
            text = tr(other.small_print_beside_float, value=value, float=other.show(reference))
        if facts.baseline is not None and measured.to_baseline is not None and not _is_baseline(facts, lam):
            text += f", {_beside_baseline(measured, at, baseline_name(facts.baseline), other)}"
        lines.append(f"{text}.")
    # At λ = 0 saliency and identity are one and the same computation: nothing to compare.
    same = has_lam(facts.line) and facts.line.lams[lam] == 0
    if facts.to_identity is not None and math.isfinite(facts.to_identity.mean[at]) and not same:
        lines.append(_beside_text(facts, tr("Saliency against identity"), facts.to_identity, at))
    if facts.to_plain is not None and math.isfinite(facts.to_plain.mean[at]):
        lines.append(_beside_text(facts, tr("This grid against the plain one"), facts.to_plain, at))
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
        return tr("the {bits}-bit model", bits=facts.line.bits)
    return tr("the whole {bits}-bit model", bits=facts.line.bits)


def _where(facts: LineFacts, gamma: int, lam: int) -> list[Piece]:
    """“At λ = 0.1, γ = 0.5”, “At λ = 0.1, from block 20: 0.3,”, “With λ and γ chosen layer by layer …”."""
    if facts.line.selected:
        return _auto_part(facts)
    if not has_lam(facts.line):
        if facts.line.method == AS_FOUND:
            return [piece(tr("As it was found,"), "lambda")]
        return pieces(tr_parts("With {method}", method=piece(facts.line.spoken_title, "lambda")))
    value = facts.line.gammas[gamma]
    point = f"λ = {lam_text(facts.line.lams[lam])}".replace(" ", NBSP)
    if value is not None and len(facts.line.gammas) > 1:
        point += f", {facts.line.sign}{NBSP}={NBSP}{lam_text(value)}"
    if facts.line.later is not None:
        point += f", {facts.line.later.words},"
    return pieces(tr_parts("At {point}", point=piece(point, "lambda")))


def _auto_part(facts: LineFacts) -> list[Piece]:
    """How λ was chosen, with its value where the whole model has one."""
    found = facts.selection
    if facts.line.selected == "layer":
        open_ = {"λ": len(facts.line.candidate_lams) > 1, "γ": len(facts.line.candidate_gammas) > 1}
        open_["α"] = found is not None and found.strength is not None
        signs = joined([sign for sign, is_open in open_.items() if is_open] or ["λ"])
        return pieces(
            tr_parts("With {signs} chosen layer by layer on held-out calibration text", signs=piece(signs, "lambda"))
        )
    if found is None or not np.isfinite(found.lam).any():
        return pieces(
            tr_parts("With {sign} chosen for the whole model on held-out calibration text", sign=piece("λ", "lambda"))
        )
    low, high = (lam_text(value) for value in (np.nanmin(found.lam), np.nanmax(found.lam)))
    if low == high:
        lam = piece(f"λ = {low}".replace(" ", NBSP), "lambda")
        return pieces(tr_parts("With {lam}, chosen for the whole model on held-out calibration text,", lam=lam))
    span = piece(tr("λ from {low} to {high}", low=low, high=high).replace(" ", NBSP), "lambda")
    return pieces(
        tr_parts("With {span}, chosen for the whole model on held-out calibration text in each draw,", span=span)
    )


def _chosen_texts(found: Selection) -> list[str]:
    """What was chosen of λ and γ, where there were several, and of α."""
    texts = [_chosen_text(found)] if len(found.lams) * len(found.gammas) > 1 or found.strength is None else []
    if found.strength is not None:
        values, counts = np.unique(found.strength[np.isfinite(found.strength)], return_counts=True)
        each = ", ".join(f"{lam_text(value)} ({n}×)" for value, n in zip(values.tolist(), counts, strict=True))
        texts.append(
            tr("“auto” chose α of the shift: {each}.", each=each)
            if each
            else tr("What was chosen of α was not recorded.")
        )
    return texts


def _chosen_text(found: Selection) -> str:
    """What was chosen most often, and how often each λ was where the model has one."""
    pairs = found.pairs if found.by == "layer" else found.pairs[:, :1]
    pairs = pairs.reshape(-1, 2)
    pairs = pairs[pairs[:, 1] >= 0]
    if not len(pairs):
        return tr("What was chosen was not recorded.")
    kinds, counts = np.unique(pairs, axis=0, return_counts=True)
    gamma, lam = kinds[int(counts.argmax())].tolist()
    point = f"λ = {lam_text(found.lams[lam])}"
    if len(found.gammas) > 1:
        point += f", γ = {lam_text(found.gammas[gamma] or 0.0)}"
    point = point.replace(" = ", f"{NBSP}={NBSP}")
    among = len(found.lams) * len(found.gammas)
    if found.by == "model":
        if len(kinds) == 1:
            once, always = (
                message("“auto” chose {point} of {among} values."),
                message("“auto” chose {point} of {among} values in every draw."),
            )
            return tr(once if len(pairs) == 1 else always, point=point, among=among)
        each = ", ".join(f"{lam_text(found.lams[m])} ({n}×)" for (_, m), n in zip(kinds.tolist(), counts, strict=True))
        return tr(
            "“auto” chose among {among} values of λ in {draws}: {each}.",
            among=among, draws=draws_text(len(pairs)), each=each,
        )  # fmt: skip
    if len(kinds) == 1:
        return tr("“auto” chose {point} of {among} candidates everywhere.", point=point, among=among)
    layers = message("“auto” chose among {among} candidates, most often {point} ({count} of {of} layers).")
    both = message("“auto” chose among {among} candidates, most often {point} ({count} of {of} layers and draws).")
    one_draw = found.lam.shape[0] == 1
    return tr(layers if one_draw else both, among=among, point=point, count=counts.max(), of=len(pairs))


def _quality_part(facts: LineFacts, gamma: int, lam: int, told: _Told) -> list[Piece]:
    quality, at, base = told.of(facts), (gamma, lam), facts.baseline
    about: dict[str, object] = {"where": _where(facts, gamma, lam), "model": _model(facts)}
    if quality is None or not math.isfinite(quality.mean[at]):
        return pieces(tr_parts(told.unmeasured, **about))
    about["quality"] = piece(tr(told.value, value=told.show(float(quality.mean[at]))), "quality")
    clause = pieces(tr_parts(told.has, **about))
    if base is not None and _is_baseline(facts, lam):
        if base.method != facts.line.method:  # a point of another method's curve
            clause = pieces(tr_parts(told.is_baseline, **about, baseline=baseline_name(base)))
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
    return pieces(tr_parts("{clause}, where the float model has {value}.", clause=clause, value=value))


def _sample_text(draws: int, quality: Quality) -> str:
    """How much a comparison rests on: “five calibration sets”, with test items where those were a sample too."""
    sets = sets_text(draws)
    return tr("{sets} and {items} test items", sets=sets, items=number(quality.items, 0)) if quality.items else sets


def _against(clause: list[Piece], quality: Quality, at: tuple[int, int], name: str, told: _Told) -> list[Piece]:
    """The clause on a point, with its difference to the baseline."""
    assert quality.to_baseline is not None
    draws, reference = int(quality.to_baseline.draws[at]), quality.baseline_mean or math.nan
    here = quality.to_baseline.at(at)
    values = {"clause": clause, "baseline": name, "value": told.show(reference)}
    if not math.isfinite(here.error):
        if float(here.mean) == 0:
            return pieces(tr_parts("{clause}, as much as {baseline} ({value}), on the one draw measured.", **values))
        return pieces(
            tr_parts(
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
            return pieces(
                tr_parts("{clause}, no measurable difference to {baseline} ({value}): {difference}.", **values)
            )
        return pieces(
            tr_parts(
                "{clause}, no measurable difference to {baseline} ({value}) with {sample}: {difference}.",
                sample=_sample_text(draws, quality),
                **values,
            )
        )
    values["difference"] = told.with_interval(_apart(here), reference, _judged(here, reference, told))
    return pieces(tr_parts("{clause}: {difference} than {baseline} ({value}).", **values))


def _judged(difference: Difference, reference: float, told: _Told) -> Piece:
    """“3.2 better”."""
    better, worse = message("{size} better"), message("{size} worse")
    size = told.apart(_apart(difference), reference)
    return _verdict(tr(better if difference.mean * told.better > 0 else worse, size=size), "quality")


def _apart(difference: Difference) -> Difference:
    """The difference the way round that is not negative: “2.9 better” has no sign."""
    return difference.scaled(-1 if difference.mean < 0 else 1)


def _best_of_curve(facts: LineFacts, quality: Quality, gamma: int, told: _Told) -> list[Piece]:
    """What the rest of the curve offers, said at the baseline itself."""
    best, among = quality.best[gamma], quality.best_of(gamma)
    if best is None or among is None or len(facts.line.lams) < 2:
        return []
    if best == facts.baseline_position:
        return [piece(tr(told.no_other))]
    lam = piece(f"λ = {lam_text(facts.line.lams[best])}".replace(" ", NBSP), "lambda")
    here, reference = among.at((best,)), quality.baseline_mean or 1.0
    apart = _apart(here)
    if not math.isfinite(here.error):
        return pieces(tr_parts(told.best_of_one_draw, lam=lam, size=told.apart(apart, reference)))
    if here.verdict(()) == told.better:
        interval = told.interval(apart, reference)
        if here.among > 1:  # the interval allows for the choice
            interval = tr("{interval} (chosen of {count})", interval=interval, count=here.among)
        return pieces(tr_parts(told.best, lam=lam, difference=_judged(here, reference, told), interval=interval))
    sample = _sample_text(quality.n_draws, quality)
    return [piece(tr("No λ tried is better, as far as {sample} can tell.", sample=sample))]


def _less_or_more(change: float, same: str = "") -> str:
    """“31 % less”; ``same`` for a change below half a percent."""
    if abs(change) < 0.005:
        return same
    less, more = message("{percent} less"), message("{percent} more")
    return tr(less if change < 0 else more, percent=percent(abs(change)))


def _drift_part(facts: LineFacts, gamma: int, lam: int) -> list[Piece]:
    """How far the weights of the chosen layer, or of all, drift, and what that costs on the calibration text: relative
    to the baseline, or absolute at it."""
    at = (gamma, lam)
    change, cost = _change(facts, "drift", at), _change(facts, "recon", at)
    if change is not None:
        far = _verdict(_less_or_more(change, tr("just as far")), "drift")
        drift = pieces(tr_parts("drift {far}", far=far), "drift")
        if facts.layer is None:
            clause = pieces(tr_parts("Its weights {drift}", drift=drift))
        else:
            clause = pieces(tr_parts("In this layer the weights {drift}", drift=drift))
        if cost is None or not (words := _less_or_more(cost)):
            return [*clause, piece(".")]
        error = pieces(tr_parts("{change} error", change=_verdict(words, "recon")), "recon")
        # Less drift is paid for; what both have less of is not a price.
        price, beside = (
            message("{clause}, at the price of {error} on calibration text."),
            message("{clause}, with {error} on calibration text."),
        )
        return pieces(tr_parts(price if change < 0 < cost else beside, clause=clause, error=error))
    if facts.drift is None or not math.isfinite(facts.drift[at]):
        return []
    by = piece(tr("drift by {size}", size=small_percent(facts.drift[at])), "drift")
    if facts.layer is None:
        return pieces(tr_parts("Its weights {drift} of their size.", drift=by))
    return pieces(tr_parts("In this layer the weights {drift} of their size.", drift=by))


_REPRODUCED = {  # better, worse, and just as well, in the order in which they are told
    "recon": (
        message("{percent} better on calibration text"),
        message("{percent} worse on calibration text"),
        message("just as well on calibration text"),
    ),
    "held_out": (
        message("{percent} better on unseen text"),
        message("{percent} worse on unseen text"),
        message("just as well on unseen text"),
    ),
}
_ERROR_ON = {"recon": message("{share} on calibration text"), "held_out": message("{share} on unseen text")}


def _error_text(facts: LineFacts, gamma: int, lam: int) -> str:
    """How well both texts are reproduced: relative to the baseline, or absolute at it; empty where not measured."""
    at = (gamma, lam)
    changes = [_reproduced(name, change) for name in _REPRODUCED if (change := _change(facts, name, at)) is not None]
    if changes:
        everywhere = message("Over all layers outputs are reproduced {changes}.")
        here = message("In this layer outputs are reproduced {changes}.")
        return tr(everywhere if facts.layer is None else here, changes=joined(changes))
    errors = {"recon": facts.recon, "held_out": facts.held_out}
    shares = [
        tr(_ERROR_ON[name], share=small_percent(values[at]))
        for name, values in errors.items()
        if values is not None and math.isfinite(values[at])
    ]
    everywhere = message("Over all layers the output error is {shares}.")
    here = message("In this layer the output error is {shares}.")
    return tr(everywhere if facts.layer is None else here, shares=joined(shares)) if shares else ""


def _reproduced(name: str, change: float) -> str:
    better, worse, same = _REPRODUCED[name]
    if abs(change) < 0.005:
        return tr(same)
    return tr(better if change < 0 else worse, percent=percent(abs(change)))


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
        return [piece(tr("One calibration draw can't tell which other λ may be the best."))]
    lams, of_model = facts.line.lams, facts.layer is not None
    sample = _sample_text(quality.n_draws, quality)
    help_text = _no_help(facts, quality, gamma, told)
    if runs == [(0, len(lams) - 1)]:
        return [piece(tr("No λ on this axis stands out, as far as {sample} can tell.", sample=sample)), *help_text]
    ends = [tuple(lam_text(lams[at]) for at in run) for run in runs]
    (low, high), *others = ends
    if others:
        words = [low if low == high else tr("{low} to {high}", low=low, high=high) for low, high in ends]
        words = [word.replace(" ", NBSP) for word in words]
        shown = tr("{first} or {last}", first=", ".join(words[:-1]), last=words[-1])
        alone, whole = message("The best λ is {lam}"), message("The best λ is {lam} for the whole model")
    elif low == high:
        shown = f"λ = {lam_text(lams[best])}".replace(" ", NBSP)
        alone = message("Of those tried {lam} is the best")
        whole = message("Of those tried {lam} is the best for the whole model")
    else:
        shown = joined([low, high]).replace(" ", NBSP)
        alone = message("The best λ lies between {lam}")
        whole = message("The best λ lies between {lam} for the whole model")
    clause = pieces(tr_parts(whole if of_model else alone, lam=piece(shown, "lambda")))
    sure = tr_parts("{clause} (95\u00a0% confidence, {sample}).", clause=clause, sample=sample)
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
    text = tr("None is better than {baseline}.", baseline=baseline_name(base))
    if helps(among.chosen_of(1)):
        text = tr(
            "Chosen as the best of {count}, none is clearly better than {baseline}.",
            count=among.among, baseline=baseline_name(base),
        )  # fmt: skip
    return [piece(f" {text}")]


def _beside_baseline(quality: Quality, at: tuple[int, int], name: str, told: _Told) -> str:
    difference, reference = quality.to_baseline, quality.baseline_mean or math.nan
    assert difference is not None
    here = difference.at(at)
    apart, is_above = _apart(here), here.mean >= 0
    size = told.apart(apart, reference)
    if not math.isfinite(here.error):
        above, below = message("{size} above {baseline} on one draw"), message("{size} below {baseline} on one draw")
        return tr(above if is_above else below, size=size, baseline=name)
    if here.verdict(()) == 0:
        return tr(
            "no measurable difference to {baseline} ({size}, {interval})",
            baseline=name, size=told.apart(here, reference), interval=told.interval(here, reference),
        )  # fmt: skip
    above, below = message("{size} above {baseline}, {interval}"), message("{size} below {baseline}, {interval}")
    interval = told.interval(apart, reference)
    return tr(above if is_above else below, size=size, baseline=name, interval=interval)


def _damping_text(facts: LineFacts, gamma: int, told: _Told) -> str:
    """Where GPTQ's own damping stands against the band, for a line whose λ it is; empty where all λ are in it."""
    quality = told.of(facts)
    runs = [] if quality is None else spans(quality.band[gamma])
    lams, lam = facts.line.lams, GPTQ.lam
    if GPTQ not in flags_of(facts) or runs in ([], [(0, len(lams) - 1)]):
        return ""
    ends = [(lams[first], lams[last]) for first, last in runs]
    if any(low <= lam <= high for low, high in ends):
        text = message("GPTQ’s damping is λ: its default, {lam}, lies in the band.")
    elif lam < ends[0][0]:
        text = message("GPTQ’s damping is λ: its default, {lam}, lies below the band.")
    elif lam > ends[-1][1]:
        text = message("GPTQ’s damping is λ: its default, {lam}, lies above the band.")
    else:
        text = message("GPTQ’s damping is λ: its default, {lam}, lies outside the band.")
    return tr(text, lam=lam_text(lam))


def _shrinkage_text(facts: LineFacts) -> str:
    """What λ from shrinkage would have cost beside the best λ of the line; empty for a single layer, whose λ is not
    that of the model, and for lines and studies without it."""
    found, quality, lams = shrinkage_lam(facts), facts.perplexity, facts.line.lams
    if found is None or quality is None or len(lams) < 2 or not found.is_median:
        return ""
    clause = tr(
        "λ from shrinkage (OAS, the median over layers), without a sweep, is {lam}", lam=computed_lam_text(found.lam)
    )
    cost, best = regret(facts, found.lam), quality.best[0]
    if cost is None or best is None:
        return "" if best is None else tr("{clause}, which lies beyond the measured λ.", clause=clause)
    told, reference = _TOLD["perplexity"], float(quality.mean[0, best])
    values = {"clause": clause, "size": told.apart(cost, reference), "best": lam_text(lams[best])}
    if not math.isfinite(cost.error):
        return tr("{clause}: perplexity {size} above the best λ, {best}, on one draw.", **values)
    if cost.verdict(()) == 0:
        return tr("{clause}: no measurable difference to the best λ, {best} ({size}).", **values)
    values["interval"] = told.interval(cost, reference)
    return tr("{clause}: perplexity {size} above the best λ, {best}, {interval}.", **values)


def _beside_text(facts: LineFacts, what: str, difference: Difference, at: tuple[int, int]) -> str:
    """How the line compares with another of its kind, which is said of every quality."""
    return facts.once(f"{what} at {at}", lambda: _compared_text(what, difference, at))


def _compared_text(what: str, difference: Difference, at: tuple[int, int]) -> str:
    told, here = _TOLD["perplexity"], difference.at(at)
    values = {"what": what, "size": told.apart(here, 50.0), "interval": told.interval(here, 50.0)}
    if not math.isfinite(here.error):
        return tr("{what}: {size} in perplexity, on one draw.", what=what, size=values["size"])
    if here.verdict(()) == 0:
        return tr("{what}: no measurable difference ({size}, {interval}).", **values)
    apart = _apart(here)
    values |= {"size": told.apart(apart, 50.0), "interval": told.interval(apart, 50.0)}
    lower = message("{what}: perplexity {size} lower, {interval}.")
    higher = message("{what}: perplexity {size} higher, {interval}.")
    return tr(lower if here.mean < 0 else higher, **values)

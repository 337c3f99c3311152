"""The Lab's sentence about a point (γ, λ), made from facts, and the small print under it; of perplexity or of accuracy,
whichever is shown.

A sentence is a list of pieces ``{"text": …, "role": …, "verdict": …}``; a role names the quantity described ("quality",
"recon", "held_out", "drift", "lambda"), or is empty. A quantity's name and value have its colour; a verdict (better,
worse, less) has none, since a colour names a quantity and never its outcome. The joined texts are copied, read aloud
and tested.

A clause is a list of its words and pieces in reading order; a clause that is continued is itself an item.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, cast

import numpy as np

from sarqc.figures.numbers import (
    NBSP,
    At,
    accuracy_text,
    baseline_name,
    draws_text,
    lam_text,
    less_or_more,
    number,
    perplexity_text,
    small_percent,
)
from sarqc.quantization.methods import AS_FOUND
from sarqc.study.evidence import Evidence, Verdict
from sarqc.study.facts import LineFacts, Quality, Selection, has_lam, once
from sarqc.study.ladder import METHODS as LADDER_METHODS
from sarqc.study.ladder import ladder
from sarqc.study.paired import spans


class Piece(TypedDict):
    """A part of a sentence; ``role`` is the quantity that it speaks of."""

    text: str
    role: str  # empty for plain text
    verdict: bool  # how the quantity came out: set in ink


def plain(pieces: list[Piece]) -> str:
    """Return the sentence as text."""
    return "".join(piece["text"] for piece in pieces)


QualityName = Literal["perplexity", "accuracy"]


@dataclass(frozen=True)
class _Wording:
    """Wording of a quality: its value, the size of a difference, and which way is better."""

    name: QualityName
    show: Callable[[float], str]
    better: Literal[-1, 1]  # the sign of a difference that is better

    def quality(self, facts: LineFacts) -> Quality | None:
        """Return its measured values."""
        quality: Quality | None = getattr(facts, self.name)
        return quality

    def reference(self, facts: LineFacts) -> float | None:
        """Return the float model's value."""
        value: float | None = getattr(facts.study.model, self.name)
        return value

    @property
    def suffix(self) -> str:
        """The text that a value was measured on."""
        return "" if self.name == "accuracy" else " on unseen text"

    @property
    def comparative(self) -> str:
        """The way that is better."""
        return "higher" if self.better > 0 else "lower"


_WORDINGS = {
    "perplexity": _Wording("perplexity", perplexity_text, -1),
    "accuracy": _Wording("accuracy", accuracy_text, 1),
}


def sentence(facts: LineFacts, gamma: int, lam: int, quality: QualityName = "perplexity") -> list[Piece]:
    """Return the pieces of the sentence for one point of a line, by the quality that is shown."""
    wording = _WORDINGS[quality]
    return join_sentences(
        [
            _quality_part(facts, (gamma, lam), wording),
            _drift_part(facts, (gamma, lam)),
            _band_part(facts, gamma, wording),
            _ladder_part(facts) if quality == "perplexity" else [],
        ]
    )


def join_sentences(sentences: Iterable[list[Piece]]) -> list[Piece]:
    """Return sentences with a blank between them, without empty ones."""
    row: list[Piece] = []
    for sentence_ in filter(None, sentences):
        row += [piece(" "), *sentence_] if row else sentence_
    return row


def small_print(facts: LineFacts, gamma: int, lam: int, quality: QualityName = "perplexity") -> list[str]:
    """Return further facts of the point, one plain sentence each: α that “auto” chose, errors, the quality that is not
    shown, what saliency adds."""
    at = (gamma, lam)
    lines = [_strength_text(facts.selection), _error_text(facts, at)]
    other_wording = _WORDINGS["accuracy" if quality == "perplexity" else "perplexity"]
    measured, reference = other_wording.quality(facts), other_wording.reference(facts)
    if measured is not None and math.isfinite(measured.mean[at]):
        text = f"{other_wording.name.capitalize()} {other_wording.show(measured.mean[at])}"
        if reference is not None:
            text += f" (float {other_wording.show(reference)})"
        if facts.baseline is not None and facts.baseline_position != lam:
            evidence = measured.evidence(at, baseline_name(facts.baseline))
            text += "" if evidence is None else f", {evidence.clause}"
        lines.append(f"{text}.")
    # At λ = 0 saliency and identity are one and the same computation: nothing to compare.
    same = has_lam(facts.line) and facts.line.lams[lam] == 0
    twins = (
        ("With saliency", "with identity", None if same else facts.to_identity),
        ("On this grid", "on the plain one", facts.to_plain),
    )
    for title, other, twin in twins:
        if twin is not None and math.isfinite(twin.mean[at]):
            evidence = Evidence.of_difference(twin.at(at), quantity="perplexity", reference=other)
            lines.append(f"{title}: perplexity {evidence.clause}.")
    return [*filter(None, lines)]


def piece(text: str, role: str = "", *, verdict: bool = False) -> Piece:
    """Return a part of a sentence."""
    return {"text": text, "role": role, "verdict": verdict}


def pieces(parts: Sequence[object]) -> list[Piece]:
    """Return the parts of a clause, each text, a piece or pieces, as pieces in the order in which they are read."""
    row: list[Piece] = []
    for part in parts:
        if isinstance(part, list):
            row += part
        else:
            row.append(cast(Piece, part) if isinstance(part, dict) else piece(str(part)))
    return row


def _lam(text: str) -> Piece:
    """Return words on λ, without line breaks."""
    return piece(text.replace(" ", NBSP), "lambda")


def _point_words(facts: LineFacts, at: At) -> list[Piece]:
    """“At λ = 0.1, γ = 0.5”, “At λ = 0.1, from block 20: 0.3,”, “With λ and γ chosen layer by layer …”."""
    if facts.line.selected:
        return _auto_part(facts)
    if not has_lam(facts.line):
        if facts.line.method == AS_FOUND:
            return [piece("As it was found,", "lambda")]
        return pieces(["With ", piece(facts.line.spoken_title, "lambda")])
    value = facts.line.gammas[at[0]]
    point = f"λ = {lam_text(facts.line.lams[at[1]])}".replace(" ", NBSP)
    if value is not None and len(facts.line.gammas) > 1:
        point += f", {facts.line.sign}{NBSP}={NBSP}{lam_text(value)}"
    if facts.line.later is not None:
        point += f", {facts.line.later.words},"
    return pieces(["At ", piece(point, "lambda")])


def _auto_part(facts: LineFacts) -> list[Piece]:
    """Describe the choice of λ, with its value if the whole model has one."""
    choice, model = facts.selection, "for the whole model on held-out calibration text"
    if facts.line.selected == "layer":
        open_ = {"λ": len(facts.line.candidate_lams) > 1, "γ": len(facts.line.candidate_gammas) > 1}
        open_["α"] = choice is not None and choice.strength is not None
        signs = " and ".join([sign for sign, is_open in open_.items() if is_open] or ["λ"])
        return pieces(["With ", piece(signs, "lambda"), " chosen layer by layer on held-out calibration text"])
    if choice is None or not np.isfinite(choice.lam).any():
        return pieces(["With ", piece("λ", "lambda"), f" chosen {model}"])
    low, high = (lam_text(value) for value in (np.nanmin(choice.lam), np.nanmax(choice.lam)))
    if low == high:
        return pieces(["With ", _lam(f"λ = {low}"), f", chosen {model},"])
    return pieces(["With ", _lam(f"λ from {low} to {high}"), f", chosen {model} in each draw,"])


def _strength_text(choice: Selection | None) -> str:
    """Describe the choices of α; empty where none was open."""
    if choice is None or choice.strength is None:
        return ""
    values, counts = np.unique(choice.strength[np.isfinite(choice.strength)], return_counts=True)
    listed = ", ".join(f"{lam_text(value)} ({count}×)" for value, count in zip(values, counts, strict=True))
    return f"“auto” chose α of the shift: {listed}." if listed else "The choice of α was not recorded."


def _quality_part(facts: LineFacts, at: At, wording: _Wording) -> list[Piece]:
    quality, base = wording.quality(facts), facts.baseline
    whole = "" if facts.layer is None else "whole "  # beside a single layer, whose quality is not that of the model
    subject = [_point_words(facts, at), f" the {whole}{facts.line.bits}-bit model"]
    if quality is None or not math.isfinite(quality.mean[at]):
        return pieces([*subject, f" has no measured {wording.name}."])
    value = piece(f"{wording.name} {wording.show(quality.mean[at])}", "quality")
    clause = pieces([*subject, " has ", value, wording.suffix])
    if base is not None and facts.baseline_position == at[1]:
        if base.method != facts.line.method:  # a point of another method's curve
            clause = pieces([*subject, f" is {baseline_name(base)}: ", value, wording.suffix])
        curve_part = _best_of_curve(facts, quality, at[0], wording)
        return [*_add_float(clause, facts, wording), *([piece(" "), *curve_part] if curve_part else [])]
    baseline = "" if base is None else f"{baseline_name(base)}, {wording.show(quality.baseline_mean or math.nan)}"
    evidence = quality.evidence(at, baseline)
    if evidence is None:
        return _add_float(clause, facts, wording)
    return [*clause, *pieces(_against(evidence))]


def _add_float(clause: list[Piece], facts: LineFacts, wording: _Wording) -> list[Piece]:
    reference = wording.reference(facts)
    if reference is None:
        return [*clause, piece(".")]
    return pieces([clause, ", where the float model has ", wording.show(reference), "."])


def _sample_text(draws: int, quality: Quality) -> str:
    """Return the sample of a comparison: “five calibration sets”, with test items where those were a sample too."""
    sets = draws_text(draws).replace("draw", "calibration set")  # for readers who do not know draws
    return f"{sets} and {number(quality.items, 0)} test items" if quality.items else sets


def _against(evidence: Evidence) -> list[object]:
    """Return the end of the clause on a point: its comparison with the baseline."""
    lead = f", {evidence.lead[0].lower()}{evidence.lead[1:]}: " if evidence.lead else ": "
    size: object = evidence.size if evidence.verdict == "unknown" else piece(evidence.size, "quality", verdict=True)
    return [lead, size, f"{evidence.than}."]


def _best_of_curve(facts: LineFacts, quality: Quality, gamma: int, wording: _Wording) -> list[Piece]:
    """Describe the best of the curve, for the sentence at the baseline."""
    best = quality.best[gamma]
    evidence = None if best is None else quality.evidence((gamma, best), "this point")
    if best is None or evidence is None or len(facts.line.lams) < 2:
        return []
    if best == facts.baseline_position:
        return [piece(f"No other λ tried has a {wording.comparative} {wording.name}.")]
    lead = f"The {'highest' if wording.better > 0 else 'lowest'} on this curve is at "
    lam = _lam(f"λ = {lam_text(facts.line.lams[best])}")
    return pieces([lead, lam, *_against(evidence)])


def _drift_part(facts: LineFacts, at: At) -> list[Piece]:
    """Describe the weight drift of the chosen layer, or of all, and the error that comes with it, on unseen text where
    that was measured: relative to the baseline, or absolute at it."""
    weights = "Its weights " if facts.layer is None else "In this layer the weights "
    name, text = ("recon", " on calibration text") if facts.held_out is None else ("held_out", "")
    change, cost = _change(facts, "drift", at), _change(facts, name, at)
    if change is not None:
        far = piece(less_or_more(change, "just as far"), "drift", verdict=True)
        clause = [piece(weights), piece("drift", "drift"), piece(" "), far]
        if cost is None or not (words := less_or_more(cost)):
            return [*clause, piece(".")]
        error = [piece(words, name, verdict=True), piece(" "), piece("error", name)]
        # Less drift is paid for; what both have less of is not a price.
        joint = ", at the price of " if change < 0 < cost else ", with "
        return pieces([clause, joint, error, f"{text}."])
    if facts.drift is None or not math.isfinite(facts.drift[at]):
        return []
    return pieces([weights, piece(f"drift by {small_percent(facts.drift[at])}", "drift"), " of their size."])


def _error_text(facts: LineFacts, at: At) -> str:
    """Describe the errors on both texts: relative to the baseline, or absolute at it; empty where not measured."""
    where = "Over all layers" if facts.layer is None else "In this layer"
    texts = (("recon", facts.recon, "calibration text"), ("held_out", facts.held_out, "unseen text"))
    changes = [
        f"{less_or_more(change, 'just as well', 'better', 'worse')} on {text}"
        for name, _, text in texts
        if (change := _change(facts, name, at)) is not None
    ]
    if changes:
        return f"{where} outputs are reproduced {' and '.join(changes)}."
    shares = [
        f"{small_percent(values[at])} on {text}"
        for _, values, text in texts
        if values is not None and math.isfinite(values[at])
    ]
    return f"{where} the output error is {' and '.join(shares)}." if shares else ""


def _change(facts: LineFacts, name: str, at: At) -> float | None:
    """Return relative change of a quantity to the baseline; None at the baseline and where it was not measured."""
    change = facts.change.get(name)
    if change is None or facts.baseline_position == at[1] or not math.isfinite(change[at]):
        return None
    return float(change[at])


@once
def _band_part(facts: LineFacts, gamma: int, wording: _Wording) -> list[Piece]:
    """Describe the sweet spot at this γ, with its confidence, and state when no λ beats the baseline."""
    quality = wording.quality(facts)
    best = None if quality is None else quality.best[gamma]
    if quality is None or best is None or len(facts.line.lams) < 2:
        return []
    runs = spans(quality.band[gamma])
    if not runs:
        return [piece("A single calibration draw can’t tell which other λ may be best.")]
    lams, is_layer = facts.line.lams, facts.layer is not None
    help_text = _no_help(facts, quality, gamma)
    if runs == [(0, len(lams) - 1)]:
        sample = _sample_text(quality.n_draws, quality)
        return [piece(f"No λ on this axis stands out over {sample}."), *help_text]
    ends = [tuple(lam_text(lams[at]) for at in run) for run in runs]
    (low, high), *further = ends
    if further:
        words = [low if low == high else f"{low} to {high}".replace(" ", NBSP) for low, high in ends]
        range_piece, lead, end = piece(f"{', '.join(words[:-1])} or {words[-1]}", "lambda"), "The best λ is ", ""
    elif low == high:
        range_piece, lead, end = _lam(f"λ = {lam_text(lams[best])}"), "Of those tried, ", " is best"
    else:
        range_piece, lead, end = _lam(" and ".join([low, high])), "The best λ lies between ", ""
    end += " for the whole model" if is_layer else ""
    return [*pieces([lead, range_piece, f"{end} (95{NBSP}%)."]), *help_text]


def _no_help(facts: LineFacts, quality: Quality, gamma: int) -> list[Piece]:
    """State that the regulariser does not help, where no λ of this curve is measurably better than the baseline."""
    if facts.baseline is None:
        return []
    name = baseline_name(facts.baseline)
    known = [quality.evidence((gamma, lam), name) for lam in range(len(facts.line.lams))]
    verdicts = [evidence.verdict for evidence in known if evidence is not None and evidence.has_interval]
    return [piece(f" None is measurably better than {name}.")] if verdicts and "better" not in verdicts else []


@once
def _ladder_part(facts: LineFacts) -> list[Piece]:
    """State what λ is worth after the steps of the ladder that cost no bits either; empty for a line that has taken
    some of them, for a single layer and for a study without a ladder or with a single draw."""
    line = facts.line
    climbed = ladder(facts.study, line.bits) if line.method in LADDER_METHODS and facts.layer is None else None
    if climbed is None or line.fitting or len(line.lams) < 2:
        return []
    rung = next(rung for rung in climbed.rungs if rung.step == "lambda")
    change = rung.differences["perplexity"]
    evidence = Evidence.of_difference(change, quantity="perplexity", reference="without it")
    if not evidence.has_interval:
        return []
    lam, worth = _lam(f"λ = {lam_text(rung.lam)}"), piece(_WORTH[evidence.verdict], "lambda")
    clause = ["After activation order and searched range, ", lam, " (identity) ", worth]
    return pieces([*clause, f": {evidence.size} ({evidence.bounds})."])


_WORTH: dict[Verdict, str] = {
    "better": "still adds",
    "worse": "makes it worse",
    "equal": "adds nothing",
    "unknown": "adds nothing clear",
}

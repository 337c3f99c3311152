"""How the numbers of a line were measured, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

from sarqc.figures.flags import flags_of, not_flagged
from sarqc.figures.numbers import baseline_name, lam_text, percent
from sarqc.language import message, tr, written
from sarqc.study.document import Line, ModelFacts
from sarqc.study.facts import BaselinePoint, LineFacts, is_point
from sarqc.study.stamp import shown

GRID_WORDS = {
    "symmetric": message("symmetric"),
    "full_range": message("full-range symmetric"),
    "asymmetric": message("asymmetric"),
    "affine": message("affine"),
}
# Of the protocol of a study: headings, names of fields, and words among their values.
_HEADINGS = {
    "calibration": message("Calibration text"),
    "held_out": message("Unseen text"),
    "test": message("Test text"),
    "task": message("Task"),
    "tasks": message("Tasks"),
    "task_limit": message("Task limit"),
    "items": message("Items"),
    "device": message("Device"),
    "versions": message("Versions"),
    "weights": message("Weights"),
    "distillation": message("Distillation"),
    "rotation": message("Rotation"),
}
_FIELDS = {
    "corpus": message("corpus"),
    "text": message("text"),
    "part": message("part"),
    "samples": message("samples"),
    "length": message("length"),
    "tokens": message("tokens"),
    "begin": message("begin"),
    "held_out_samples": message("held out samples"),
    "sampling": message("sampling"),
    "seed": message("seed"),
    "written_by": message("written by"),
    "window": message("window"),
    "windows": message("windows"),
    "predicted_tokens": message("predicted tokens"),
    "only_the_first_tokens": message("only the first tokens"),
    "dtype": message("dtype"),
    "device": message("device"),
}
_VALUES = {
    "random": message("random"),
    "sequential": message("sequential"),
    "first half": message("first half"),
    "second half, calibration has the first": message("second half, calibration has the first"),
}


def grid_text(grid: str, group_size: int | None) -> str:
    """“asymmetric, groups of 128”."""
    kind = tr(GRID_WORDS.get(grid, grid))
    if group_size is None:
        return tr("{grid}, one scale per channel", grid=kind)
    return tr("{grid}, groups of {size}", grid=kind, size=group_size)


class Fact(TypedDict):
    """A heading and a plain text."""

    name: str
    text: str


def how_measured(facts: LineFacts) -> list[Fact]:
    """The protocol as pairs of a heading and a plain text."""
    study, line = facts.study, facts.line
    names = {one.name for one in study.lines if one.bits == line.bits}
    pairs = [
        (tr("Model"), _model_text(study.model)),
        (tr("Grid"), tr("{bits} bits, {grid}", bits=line.bits, grid=grid_text(line.grid, line.group_size))),
        (tr("Method"), f"{line.label} ({line.method})"),
    ]
    if facts.baseline is not None:
        pairs.append((tr("Compared with"), _baseline_text(facts.baseline, names)))
    if line.selected:
        pairs.append((tr("λ and γ"), _how_chosen(line)))
    seeds = ", ".join(str(seed) for seed in line.draws)
    draws = tr("{count} (seeds {seeds})", count=len(line.draws), seeds=seeds) if len(line.draws) > 1 else "1"
    pairs.append((tr("Calibration draws"), draws))
    for key, value in study.protocol.items():
        if key == "opened":
            pairs.append((tr("Quantized checkpoint"), f"{value['name']}. {value['words']}"))
            continue
        pairs.append((tr(_HEADINGS.get(key, key.replace("_", " ").capitalize())), _plain_text(value)))
    if facts.perplexity is not None and len(line.draws) > 1:
        bars = (
            tr(
                "beside values the 95 % interval over calibration draws, beside differences the 95 % interval "
                "(Student’s t) of the paired difference to the baseline over calibration draws"
            )
            if is_point(line)
            else tr("95 % interval (Student’s t) of the paired difference to the baseline over calibration draws")
        )
        pairs.append((tr("Error bars, “from … to …”"), bars))
    if facts.perplexity is not None and len(line.draws) > 1 and len(line.lams) > 1:
        text = tr(
            "holds the best of the λ tried with 95 % confidence: all that no other λ clearly beats (paired Student’s t)"
        )
        pairs.append((tr("Green band"), text))
    if "kl" in line.arrays:
        text = tr("KL(float ‖ quantized) in nats at temperature 1, mean over the tokens that perplexity predicts")
        pairs.append((tr("KL to the float model"), text))
    if flags := flags_of(facts):
        parts = [f"{flag.value}: {flag.name}, {flag.tools}" for flag in flags]
        pairs.append((tr("Flags on the λ axis"), "; ".join([*parts, *filter(None, [not_flagged(facts)])])))
    pairs.append((tr("Reconstruction error"), tr("‖(Ŵ − W)X‖² / ‖WX‖² of a layer; all layers: their mean")))
    found = study.experts
    if found is not None:
        text = tr(
            "{owned} of the {layers} layers belong to {experts} experts and see the tokens that were routed to them; "
            "a layer without tokens has no error and is left out of means",
            owned=_whole(sum(layer.expert is not None for layer in study.layers)),
            layers=_whole(len(study.layers)),
            experts=_whole(found.count),
        )
        pairs.append((tr("Experts"), text))
    text = tr("‖(Ŵ − W)S‖² / ‖WS‖² of a layer with the method's S; all layers: their mean")
    pairs.append((tr("Penalty, L_sar"), text))
    if len(line.lams) > 1:
        text = tr("paper’s rule: (value − least) / (most − least) over λ from 0.1 to 1; ratio: to λ = 0")
        pairs.append((tr("Scales"), text))
    pairs.append((tr("Weight drift"), tr("‖Ŵ − W‖ / ‖W‖ of a layer; all layers: their mean")))
    pairs += _pictures(line)
    if facts.drift is not None and (len(line.lams) > 1 or len(study.lines) > 1):
        pairs.append((tr("Open marks"), tr("no μ ≥ 0 makes reconstruction error + μ · drift² smallest there")))
    if line.sizes and "recon_by_size" in line.arrays:
        again = tr(
            "every point solved again on {sizes} sequences; in brackets the 95 % interval over draws",
            sizes=", ".join(_whole(size) for size in line.sizes),
        )
        pairs.append((tr("Amount of text"), again))
    inputs = (
        tr("from the float model; in a run they come from the quantized layers before, which differs slightly")
        if study.prefix == "float"
        else tr("from the quantized layers before it")
    )
    pairs.append((tr("Inputs of a layer"), inputs))
    pairs.append((tr("Made"), study.created))
    if study.stamp is not None:
        text = tr(
            "{digest}…, a hash of the inputs and the codes in the downloaded study", digest=shown(study.stamp.digest)
        )
        pairs.append((tr("Stamp"), text))
    return [{"name": name, "text": text} for name, text in pairs]


def _model_text(model: ModelFacts) -> str:
    return tr(
        "{model}, {parameters} parameters, {share} quantized",
        model=model.name,
        parameters=_whole(model.parameters),
        share=percent(model.share_quantized, 1),
    )


def _baseline_text(base: BaselinePoint, names: Collection[str]) -> str:
    """What a line is compared with; where another line's λ stands for it, that too. ``names``: of the study's lines."""
    if base.method in names:
        return tr("{baseline}, in the same calibration draws", baseline=baseline_name(base))
    return tr(
        "{baseline}, λ = {lam} of {line}, in the same calibration draws",
        baseline=baseline_name(base),
        lam=lam_text(base.lam),
        line=tr(base.held_by),
    )


def _pictures(line: Line) -> list[tuple[str, str]]:
    """How the pictures of the weights were made."""
    pairs = []
    if "surface_mean" in line.arrays:
        whole, further = ((line.arrays[name].shape[-2:]) for name in ("surface", "surface_mean"))
        text = tr(
            "|Ŵ − W| of the first draw: the largest of each of {cells} cells; the mean, and what is sorted by "
            "saliency, mean|x| / mean|W|, of {further}; signed: the mean of Ŵ − W",
            cells=f"{whole[0]} × {whole[1]}",
            further=f"{further[0]} × {further[1]}",
        )
        pairs.append((tr("Cells of the weights"), text))
    if "group_weight" in line.arrays:
        text = tr("of each layer the group with the largest squared weights, the same for every λ, γ and method")
        pairs.append((tr("Weight by weight"), text))
    return pairs


def _how_chosen(line: Line) -> str:
    """What “auto” chose among, and by what."""
    comma = tr(", ")  # between numbers, which may have one themselves
    lams, gammas = (
        comma.join(lam_text(value) for value in values if value is not None)
        for values in (line.candidate_lams, line.candidate_gammas)
    )
    lams = lams or tr("candidates")
    among = tr("λ of {lams} and γ of {gammas}", lams=lams, gammas=gammas) if gammas else tr("λ of {lams}", lams=lams)
    if line.selected == "layer":
        return tr(
            "auto: each layer chose {candidates} by its error on a held-out part of the calibration text",
            candidates=among,
        )
    return tr(
        "auto: one {candidates} for the model, by perplexity on a held-out part of the calibration text",
        candidates=among,
    )


def _plain_text(value: Any) -> str:
    if isinstance(value, Mapping):
        known = {key: item for key, item in value.items() if item is not None}
        return ", ".join(f"{_field_text(str(key))} {_plain_text(item)}" for key, item in known.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain_text(item) for item in value) or tr("none")
    if isinstance(value, bool):
        return tr("yes") if value else tr("no")
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, float):
        return written(str(value))
    return tr(_VALUES[value]) if value in _VALUES else str(value)


def _field_text(key: str) -> str:
    return tr(_FIELDS.get(key, key.replace("_", " ")))


def _whole(value: int) -> str:
    return written(f"{value:,}")

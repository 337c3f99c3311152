"""How the numbers of a line were measured, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from sarqc.figures.flags import flags_of, not_flagged
from sarqc.figures.numbers import baseline_name, lam_text, number, percent
from sarqc.study.document import Line
from sarqc.study.facts import BaselinePoint, LineFacts, is_point
from sarqc.study.stamp import shown

GRID_WORDS = {"full_range": "full-range symmetric"}  # where it is not called by its name
# Of the protocol of a study, where a heading is not the name of its field.
_HEADINGS = {"calibration": "Calibration text", "held_out": "Unseen text", "test": "Test text"}


def grid_text(grid: str, group_size: int | None) -> str:
    """“asymmetric, groups of 128”."""
    scales = "one scale per channel" if group_size is None else f"groups of {group_size}"
    return f"{GRID_WORDS.get(grid, grid)}, {scales}"


class Fact(TypedDict):
    """A heading and a plain text."""

    name: str
    text: str


def how_measured(facts: LineFacts) -> list[Fact]:
    """The protocol as pairs of a heading and a plain text."""
    study, line, model = facts.study, facts.line, facts.study.model
    pairs = [
        (
            "Model",
            f"{model.name}, {number(model.parameters, 0)} parameters, {percent(model.share_quantized, 1)} quantized",
        ),
        ("Grid", f"{line.bits} bits, {grid_text(line.grid, line.group_size)}"),
        ("Method", f"{line.label} ({line.method})"),
    ]
    if facts.baseline is not None:
        pairs.append(("Compared with", _baseline_text(facts.baseline, facts)))
    if line.selected:
        pairs.append(("λ and γ", _how_chosen(line)))
    seeds = ", ".join(str(seed) for seed in line.draws)
    draws = f"{len(line.draws)} (seeds {seeds})" if len(line.draws) > 1 else "1"
    pairs.append(("Calibration draws", draws))
    for key, value in study.protocol.items():
        if key == "opened":
            pairs.append(("Quantized checkpoint", f"{value['name']}. {value['words']}"))
            continue
        if key == "feeding":
            pairs.append(("Input of the model", "; ".join(value.values())))
            continue
        pairs.append((_HEADINGS.get(key, key.replace("_", " ").capitalize()), _plain_text(value)))
    if facts.perplexity is not None and len(line.draws) > 1:
        bars = "95 % interval (Student’s t) of the paired difference to the baseline over calibration draws"
        if is_point(line):
            bars = f"beside values the 95 % interval over calibration draws, beside differences the {bars}"
        pairs.append(("Error bars, “from … to …”", bars))
        if len(line.lams) > 1:
            text = "holds the best of the λ tried with 95 % confidence: all that no other λ clearly beats"
            pairs.append(("Green band", f"{text} (paired Student’s t)"))
    if "kl" in line.arrays:
        text = "KL(float ‖ quantized) in nats at temperature 1, mean over the tokens that perplexity predicts"
        pairs.append(("KL to the float model", text))
    if flags := flags_of(facts):
        parts = [f"{flag.value}: {flag.name}, {flag.tools}" for flag in flags]
        pairs.append(("Flags on the λ axis", "; ".join([*parts, *filter(None, [not_flagged(facts)])])))
    pairs.append(("Reconstruction error", "‖(Ŵ − W)X‖² / ‖WX‖² of a layer; all layers: their mean"))
    found = study.experts
    if found is not None:
        layers = [layer.expert is not None for layer in study.layers]
        owned, every, experts = (number(count, 0) for count in (sum(layers), len(layers), found.count))
        text = (
            f"{owned} of the {every} layers belong to {experts} experts and see the "
            "tokens that were routed to them; a layer without tokens has no error and is left out of means"
        )
        pairs.append(("Experts", text))
    text = "‖(Ŵ − W)S‖² / ‖WS‖² of a layer with the method's S; all layers: their mean"
    pairs.append(("Penalty, L_sar", text))
    if len(line.lams) > 1:
        text = "paper’s rule: (value − least) / (most − least) over λ from 0.1 to 1; ratio: to λ = 0"
        pairs.append(("Scales", text))
    pairs.append(("Weight drift", "‖Ŵ − W‖ / ‖W‖ of a layer; all layers: their mean"))
    pairs += _pictures(line)
    if facts.drift is not None and (len(line.lams) > 1 or len(study.lines) > 1):
        pairs.append(("Open marks", "no μ ≥ 0 makes reconstruction error + μ · drift² smallest there"))
    if line.sizes and "recon_by_size" in line.arrays:
        again = (
            f"every point solved again on {', '.join(number(size, 0) for size in line.sizes)} sequences; in brackets "
            "the 95 % interval over draws"
        )
        pairs.append(("Amount of text", again))
    inputs = (
        "from the float model; in a run they come from the quantized layers before, which differs slightly"
        if study.prefix == "float"
        else "from the quantized layers before it"
    )
    pairs.append(("Inputs of a layer", inputs))
    pairs.append(("Made", study.created))
    if study.stamp is not None:
        text = f"{shown(study.stamp.digest)}…, a hash of the inputs and the codes in the downloaded study"
        pairs.append(("Stamp", text))
    return [{"name": name, "text": text} for name, text in pairs]


def _baseline_text(base: BaselinePoint, facts: LineFacts) -> str:
    """What a line is compared with; where another line's λ stands for it, that too."""
    of_width = (one.name for one in facts.study.lines if one.bits == facts.line.bits)
    holder = "" if base.method in of_width else f", λ = {lam_text(base.lam)} of {base.held_by}"
    return f"{baseline_name(base)}{holder}, in the same calibration draws"


def _pictures(line: Line) -> list[tuple[str, str]]:
    """How the pictures of the weights were made."""
    pairs = []
    if "surface_mean" in line.arrays:
        whole, further = ((line.arrays[name].shape[-2:]) for name in ("surface", "surface_mean"))
        text = (
            f"|Ŵ − W| of the first draw: the largest of each of {whole[0]} × {whole[1]} cells; the mean, and what is "
            f"sorted by saliency, mean|x| / mean|W|, of {further[0]} × {further[1]}; signed: the mean of Ŵ − W"
        )
        pairs.append(("Cells of the weights", text))
    if "group_weight" in line.arrays:
        text = "of each layer the group with the largest squared weights, the same for every λ, γ and method"
        pairs.append(("Weight by weight", text))
    return pairs


def _how_chosen(line: Line) -> str:
    """What “auto” chose among, and by what."""
    lams, gammas = (
        ", ".join(lam_text(value) for value in values if value is not None)
        for values in (line.candidate_lams, line.candidate_gammas)
    )
    among = f"λ of {lams or 'candidates'}" + (f" and γ of {gammas}" if gammas else "")
    if line.selected == "layer":
        return f"auto: each layer chose {among} by its error on a held-out part of the calibration text"
    return f"auto: one {among} for the model, by perplexity on a held-out part of the calibration text"


def _plain_text(value: Any) -> str:
    if isinstance(value, Mapping):
        known = {key: item for key, item in value.items() if item is not None}
        return ", ".join(f"{str(key).replace('_', ' ')} {_plain_text(item)}" for key, item in known.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain_text(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)

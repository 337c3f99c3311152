"""How the numbers of a line were measured, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from sarqc.figures.flags import flags_of, not_flagged
from sarqc.figures.numbers import baseline_name, lam_text, percent
from sarqc.study.document import Line
from sarqc.study.facts import LineFacts, is_point
from sarqc.study.stamp import shown

_BAND = "holds the best of the λ tried with 95 % confidence: all that no other λ clearly beats (paired Student’s t)"
GRID_WORDS = {
    "symmetric": "symmetric",
    "full_range": "full-range symmetric",
    "asymmetric": "asymmetric",
    "affine": "affine",
}


def grid_text(grid: str, group_size: int | None) -> str:
    """“asymmetric, groups of 128”."""
    groups = "one scale per channel" if group_size is None else f"groups of {group_size}"
    return f"{GRID_WORDS.get(grid, grid)}, {groups}"


class Fact(TypedDict):
    """A heading and a plain text."""

    name: str
    text: str


def how_measured(facts: LineFacts) -> list[Fact]:
    """The protocol as pairs of a heading and a plain text."""
    study, line = facts.study, facts.line
    names = {one.name for one in study.lines if one.bits == line.bits}
    model = study.model
    pairs = [
        ("Model", f"{model.name}, {model.parameters:,} parameters, {percent(model.share_quantized, 1)} quantized"),
        ("Grid", f"{line.bits} bits, {grid_text(line.grid, line.group_size)}"),
        ("Method", f"{line.label} ({line.method})"),
    ]
    if facts.baseline is not None:
        base = facts.baseline
        part = f", λ = {lam_text(base.lam)} of {base.held_by}" if base.method not in names else ""
        pairs.append(("Compared with", f"{baseline_name(base)}{part}, in the same calibration draws"))
    if line.selected:
        pairs.append(("λ and γ", _how_chosen(line)))
    draws = ", ".join(str(seed) for seed in line.draws)
    pairs.append(("Calibration draws", f"{len(line.draws)} (seeds {draws})" if len(line.draws) > 1 else "1"))
    titles = {"calibration": "Calibration text", "held_out": "Unseen text", "test": "Test text", "task": "Task"}
    for key, value in study.protocol.items():
        if key == "opened":
            pairs.append(("Quantized checkpoint", f"{value['name']}. {value['words']}"))
            continue
        pairs.append((titles.get(key, key.replace("_", " ").capitalize()), _plain_text(value)))
    if facts.perplexity is not None and len(line.draws) > 1:
        paired = "95 % interval (Student’s t) of the paired difference to the baseline over calibration draws"
        if is_point(line):
            paired = f"beside values the 95 % interval over calibration draws, beside differences the {paired}"
        pairs.append(("Error bars, “from … to …”", paired))
    if facts.perplexity is not None and len(line.draws) > 1 and len(line.lams) > 1:
        pairs.append(("Green band", _BAND))
    if "kl" in line.arrays:
        text = "KL(float ‖ quantized) in nats at temperature 1, mean over the tokens that perplexity predicts"
        pairs.append(("KL to the float model", text))
    if flags := flags_of(facts):
        parts = [f"{flag.value}: {flag.name}, {flag.tools}" for flag in flags]
        pairs.append(("Flags on the λ axis", "; ".join([*parts, *filter(None, [not_flagged(facts)])])))
    pairs.append(("Reconstruction error", "‖(Ŵ − W)X‖² / ‖WX‖² of a layer; all layers: their mean"))
    found = study.experts
    if found is not None:
        owned = sum(layer.expert is not None for layer in study.layers)
        text = (
            f"{owned:,} of the {len(study.layers):,} layers belong to {found.count:,} experts and see the tokens that "
            "were routed to them; where none came there is no error, and means leave the layer out"
        )
        pairs.append(("Experts", text))
    pairs.append(("Penalty, L_sar", "‖(Ŵ − W)S‖² / ‖WS‖² of a layer with the method's S; all layers: their mean"))
    if len(line.lams) > 1:
        pairs.append(("Scales", "paper’s rule: (value − least) / (most − least) over λ from 0.1 to 1; ratio: to λ = 0"))
    pairs.append(("Weight drift", "‖Ŵ − W‖ / ‖W‖ of a layer; all layers: their mean"))
    pairs += _pictures(line)
    if facts.drift is not None and (len(line.lams) > 1 or len(study.lines) > 1):
        pairs.append(("Open marks", "no μ ≥ 0 makes reconstruction error + μ · drift² smallest there"))
    if line.sizes and "recon_by_size" in line.arrays:
        sizes = ", ".join(f"{size:,}" for size in line.sizes)
        again = f"every point solved again on {sizes} sequences; in brackets the 95 % interval over draws"
        pairs.append(("Amount of text", again))
    inputs = "from the quantized layers before it"
    if study.prefix == "float":
        inputs = "from the float model; in a run they come from the quantized layers before, which differs slightly"
    pairs.append(("Inputs of a layer", inputs))
    pairs.append(("Made", study.created))
    if study.stamp is not None:
        text = f"{shown(study.stamp.digest)}…, a hash of the inputs and the codes in the downloaded study"
        pairs.append(("Stamp", text))
    return [{"name": name, "text": text} for name, text in pairs]


def _pictures(line: Line) -> list[tuple[str, str]]:
    """How the pictures of the weights were made."""
    pairs = []
    if "surface_mean" in line.arrays:
        whole, further = ((line.arrays[name].shape[-2:]) for name in ("surface", "surface_mean"))
        text = (
            f"|Ŵ − W| of the first draw: the largest of each of {whole[0]} × {whole[1]} cells; the mean, and what "
            f"is sorted by saliency, mean|x| / mean|W|, of {further[0]} × {further[1]}; signed: the mean of Ŵ − W"
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
    return f"{value:,}" if isinstance(value, int) else str(value)

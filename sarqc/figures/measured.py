"""The measurement protocol of a line, in words."""

from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from sarqc.figures.flags import flags_of
from sarqc.figures.numbers import baseline_name, lam_text, number, percent
from sarqc.study.document import Line, Study
from sarqc.study.facts import BaselinePoint, LineFacts, is_point
from sarqc.study.stamp import short_digest

GRID_WORDS = {"full_range": "full-range symmetric"}  # where words differ from the name
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


def measurement_facts(facts: LineFacts) -> list[Fact]:
    """Return the protocol as pairs of a heading and a plain text."""
    study, line, model = facts.study, facts.line, facts.study.model
    draws = ", ".join(str(seed) for seed in line.draws)
    bars = (
        "95 % interval (Student’s t) of the paired difference to the baseline over calibration draws, for all λ of a "
        "curve at once"
    )
    if is_point(line):
        bars = f"beside values the 95 % interval over calibration draws, beside differences the {bars}"
    has_bars, has_curve = facts.perplexity is not None and len(line.draws) > 1, len(line.lams) > 1
    flags = [f"{flag.value}: {flag.name}, {flag.tools}" for flag in flags_of(facts)]
    pairs: list[tuple[str, str | None]] = [
        (
            "Model",
            f"{model.name}, {number(model.parameters, 0)} parameters, {percent(model.share_quantized, 1)} quantized",
        ),
        ("Grid", f"{line.bits} bits, {grid_text(line.grid, line.group_size)}"),
        ("Method", f"{line.label} ({line.method})"),
        ("Compared with", None if facts.baseline is None else _baseline_text(facts.baseline, facts)),
        ("λ and γ", _choice_text(line) if line.selected else None),
        ("Calibration draws", f"{len(line.draws)} (seeds {draws})" if len(line.draws) > 1 else "1"),
        *(_protocol_text(key, value) for key, value in study.protocol.items()),
        ("Intervals, “95 %: … to …”", bars if has_bars else None),
        (
            "Green band",
            "holds the best of the λ tried with 95 % confidence: all that no other λ clearly beats (paired Student’s t)"
            if has_bars and has_curve
            else None,
        ),
        (
            "KL to the float model",
            "KL(float ‖ quantized) in nats at temperature 1, mean over the tokens that perplexity predicts"
            if "kl" in line.arrays
            else None,
        ),
        ("Flags on the λ axis", "; ".join(flags)),
        ("Reconstruction error", "‖(Ŵ − W)X‖² / ‖WX‖² of a layer; all layers: their mean"),
        ("Experts", _experts_text(study)),
        ("Penalty, L_sar", "‖(Ŵ − W)S‖² / ‖WS‖² of a layer with the method's S; all layers: their mean"),
        ("Weight drift", "‖Ŵ − W‖ / ‖W‖ of a layer; all layers: their mean"),
        *_pictures(line),
        (
            "Open marks",
            "no μ ≥ 0 makes reconstruction error + μ · drift² smallest there"
            if facts.drift is not None and (has_curve or len(study.lines) > 1)
            else None,
        ),
        (
            "Amount of text",
            f"every point solved again on {', '.join(number(size, 0) for size in line.sizes)} sequences; in brackets "
            "the 95 % interval over draws"
            if line.sizes and "recon_by_size" in line.arrays
            else None,
        ),
        (
            "Inputs of a layer",
            "from the float model; in a run they come from the quantized layers before, which differs slightly"
            if study.prefix == "float"
            else "from the quantized layers before it",
        ),
        ("Made", study.created),
        (
            "Stamp",
            None
            if study.stamp is None
            else f"{short_digest(study.stamp.digest)}…, a hash of the inputs and the codes in the downloaded study",
        ),
    ]
    return [{"name": name, "text": text} for name, text in pairs if text]


def _protocol_text(key: str, value: Any) -> tuple[str, str]:
    """Return heading and text of a part of the protocol."""
    if key == "opened":
        return "Quantized checkpoint", f"{value['name']}. {value['words']}"
    if key == "feeding":
        return "Input of the model", "; ".join(value.values())
    return _HEADINGS.get(key, key.replace("_", " ").capitalize()), _plain_text(value)


def _experts_text(study: Study) -> str | None:
    if study.experts is None:
        return None
    owned = sum(layer.expert is not None for layer in study.layers)
    parts = (number(count, 0) for count in (owned, len(study.layers), study.experts.count))
    return (
        "{} of the {} layers belong to {} experts and see the tokens that were routed to them; a layer without tokens "
        "has no error and is left out of means"
    ).format(*parts)


def _baseline_text(base: BaselinePoint, facts: LineFacts) -> str:
    """Describe a line's baseline, and the line whose λ stands for it."""
    names = (line.name for line in facts.study.lines if line.bits == facts.line.bits)
    holder = "" if base.method in names else f", λ = {lam_text(base.lam)} of {base.held_by}"
    return f"{baseline_name(base)}{holder}, in the same calibration draws"


def _pictures(line: Line) -> Iterator[tuple[str, str]]:
    """Yield the facts of how the pictures of the weights were made."""
    if "surface_mean" in line.arrays:
        whole, further = (line.arrays[name].shape[-2:] for name in ("surface", "surface_mean"))
        yield (
            "Cells of the weights",
            f"|Ŵ − W| of the first draw: the largest of each of {whole[0]} × {whole[1]} cells; the mean, and what is "
            f"sorted by saliency, mean|x| / mean|W|, of {further[0]} × {further[1]}; signed: the mean of Ŵ − W",
        )
    if "group_weight" in line.arrays:
        text = "of each layer the group with the largest squared weights, the same for every λ, γ and method"
        yield "Weight by weight", text


def _choice_text(line: Line) -> str:
    """Describe how “auto” chose, and among what."""
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

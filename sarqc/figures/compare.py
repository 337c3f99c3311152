"""Studies side by side: where their recipes differ, their numbers, and their curves overlaid."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import numpy as np

from sarqc.documents import EvidenceDocument, Tuned, test_text
from sarqc.errors import Refused
from sarqc.figures.drawing import Figure, Point, Role
from sarqc.figures.numbers import lam_text, perplexity_text, significant
from sarqc.figures.panels import Curve, Panel, stack
from sarqc.figures.sentence import QualityName
from sarqc.figures.titles import constant_finding, set_finding
from sarqc.figures.view import default_line, start_of
from sarqc.plain import measured
from sarqc.quantization.storage import bits_per_weight
from sarqc.recipe import Recipe, public_name
from sarqc.study.document import Line, Study
from sarqc.study.evidence import Evidence
from sarqc.study.facts import LineFacts, Quality, has_lam, line_facts
from sarqc.study.paired import paired_difference, paired_items, paired_ratio

BITS_IN_FULL = "Bits per quantized weight, scales and zero points or biases included"
LETTERS = "ABCDEFGH"  # of the studies of a comparison, at most eight


class StudyName(TypedDict):
    """A study by its id, and by its letter and title."""

    id: str
    name: str


class RecipeDifference(TypedDict):
    """A field in which recipes are not equal, with the value of each study."""

    field: str
    title: str
    values: list[Any]


class ComparedNumber(TypedDict):
    """A quantity at the chosen point of each study; null where it was not measured. Of a quality also its comparisons:
    with the first study, or with GPTQ 1 % where that is the quantity."""

    title: str
    kind: str
    values: list[float | None]
    evidence: NotRequired[list[EvidenceDocument | None]]


class TextColumn(TypedDict):
    """A prompt that all studies went on with: mean KL to the float model's continuation, and the first token that
    differs; null where none does."""

    prompt: str
    kl: list[float | None]
    divergence: list[int | None]


class StudyComparison(TypedDict):
    """Studies side by side."""

    studies: list[StudyName]
    differences: list[RecipeDifference]
    numbers: list[ComparedNumber]
    layers: list[ComparedNumber]  # the relative error of each layer, on unseen text where all have it
    layers_on: str  # which text
    texts: list[TextColumn]
    figure: Figure


@dataclass(frozen=True)
class Ending:
    """Results that a run reports at its end and its study lacks."""

    tuned: Tuned | None = None  # of a run that tuned
    evidence: EvidenceDocument | None = None  # beside GPTQ 1 %


@dataclass(frozen=True)
class _Side:
    """A study of a comparison, at one point of one line."""

    facts: LineFacts
    ending: Ending

    @property
    def study(self) -> Study:
        return self.facts.study

    @property
    def line(self) -> Line:
        return self.facts.line

    @property
    def start(self) -> Point:
        """The chosen point; of a tuning run that of the best λ that was compared."""
        best = self.ending.tuned and self.ending.tuned["best"]
        if best is not None and best in self.line.lams:
            return {"gamma": 0, "lambda": self.line.lams.index(best)}
        return start_of(self.facts)

    def values(self, name: str) -> np.ndarray | None:
        """Return a quantity at every γ and λ; None where it was not measured."""
        quantity: Quality | np.ndarray | None = getattr(self.facts, name)
        return quantity.mean if isinstance(quantity, Quality) else quantity

    def at_start(self, name: str) -> float | None:
        """Return a quantity at the chosen point; None where it was not measured."""
        values, tuned = self.values(name), self.ending.tuned
        if values is None or (tuned is not None and tuned["best"] is None):  # it compared too little
            return None
        return measured(float(values[self.start["gamma"], self.start["lambda"]]))


def compare_view(studies: Sequence[Study], endings: Sequence[Ending] | None = None) -> StudyComparison:
    """Compare two or more studies: first where their recipes differ, then numbers, then curves overlaid. ``endings``:
    further results of runs, one for each study.

    Raises ``Refused`` for fewer than two, and where models or test texts differ.
    """
    if len(studies) < 2:
        raise Refused("a comparison needs at least two studies", "compare", "Choose two or more.")
    _check_comparable(studies)
    pairs = zip(studies, endings or [Ending()] * len(studies), strict=True)
    sides = [_Side(_chosen_facts(study), ending) for study, ending in pairs]
    layers, layers_on = _layers(sides)
    differences = _recipe_differences(sides)
    return {
        "studies": [
            {"id": side.study.id, "name": f"{LETTERS[i]}: {_name(sides, differences, i)}"}
            for i, side in enumerate(sides)
        ],
        "differences": differences,
        "numbers": _numbers(sides),
        "layers": layers,
        "layers_on": layers_on,
        "texts": _texts(sides),
        "figure": _overlay(sides),
    }


def _check_comparable(studies: Sequence[Study]) -> None:
    """Refuse studies of different models or test texts: their numbers are not differences of methods."""
    same_text = "Pick runs with one test text, window and number of test tokens, or run them again so."
    for what, values, remedy in (
        ("the models differ", [study.model.name for study in studies], "Pick runs of one model."),
        ("the test texts differ", [test_text(study.protocol) for study in studies], same_text),
    ):
        known = list(dict.fromkeys(value for value in values if value))
        if len(known) > 1:
            raise Refused(f"{what}: {'; '.join(known)}", "compare", remedy)


def _chosen_facts(study: Study) -> LineFacts:
    line = next((candidate for candidate in study.lines if candidate.chosen is not None), None) or default_line(
        study, None, None
    )
    return line_facts(study, method=line.name, bits=line.bits, layer=None, with_identity=False)


def _recipe_differences(sides: Sequence[_Side]) -> list[RecipeDifference]:
    """Return the fields in which recipes (of shipped studies, facts of the line) differ."""
    described: list[dict[str, Any]] = [
        {
            "model": side.study.model.name,
            **{name: getattr(side.line, name) for name in ("bits", "grid", "group_size", "method")},
            "lambda": None,
            "gamma": None,
            "draws": len(side.line.draws),
            **(side.study.recipe or {}),
        }
        | {"lambda": _lam(side), "gamma": _gamma(side.line, side.start["gamma"])}
        for side in sides
    ]
    fields = dict.fromkeys(key for entry in described for key in entry)
    titles = {public_name(name): str(info.title) for name, info in Recipe.model_fields.items()}
    rows: list[RecipeDifference] = [
        {"field": key, "title": titles.get(key, key.capitalize()), "values": [entry.get(key) for entry in described]}
        for key in fields
    ]
    return [row for row in rows if any(value != row["values"][0] for value in row["values"][1:])]


def _name(sides: Sequence[_Side], differences: Sequence[RecipeDifference], index: int) -> str:
    """Return the title of a study; where others have the same, what of its recipe they don't have."""
    titles = [side.study.title for side in sides]
    if len({*titles}) == len(titles) or not differences:
        return titles[index]
    values = ((row["title"], row["values"][index]) for row in differences[:3])
    return ", ".join(f"{title} {'none' if value is None else value}" for title, value in values)


def _lam(side: _Side) -> float | str | None:
    """Return λ at the chosen point; “auto” where each layer has its own; of a tuning run its result, in words."""
    if side.ending.tuned is not None:
        words, band = side.ending.tuned["words"], side.ending.tuned["band"]
        return f"{words}; as good as the best: {band}" if band else words
    if side.line.selected:
        return "auto"
    return side.line.lams[side.start["lambda"]] if has_lam(side.line) else None


def _gamma(line: Line, at: int) -> float | str | None:
    """Return γ at the chosen point; “auto” if chosen among several."""
    if not line.selected or not line.candidate_gammas:
        return line.gammas[at] if line.second == "gamma" else None
    return "auto" if len(line.candidate_gammas) > 1 else line.candidate_gammas[0]


def _numbers(sides: Sequence[_Side]) -> list[ComparedNumber]:
    rows: list[tuple[str, str, list[float | None]]] = [
        ("Perplexity, unseen text", "perplexity", [_perplexity(side) for side in sides]),
        ("Perplexity, float model", "perplexity", [side.study.model.perplexity for side in sides]),
        ("Accuracy", "share", [side.at_start("accuracy") for side in sides]),
        ("Reconstruction error, calibration text", "significant", [side.at_start("recon") for side in sides]),
        ("Reconstruction error, unseen text", "significant", [side.at_start("held_out") for side in sides]),
        ("Weight drift", "significant", [side.at_start("drift") for side in sides]),
        (BITS_IN_FULL, "significant", [_bits(side) for side in sides]),
        ("Share of parameters quantized", "share", [side.study.model.share_quantized for side in sides]),
    ]
    compared: list[ComparedNumber] = [
        {"title": title, "kind": kind, "values": values}
        for title, kind, values in rows
        if any(value is not None for value in values)
    ]
    for row in compared:
        if (quality := _QUALITIES.get(row["title"])) is not None:
            known = _beside_first(sides, quality)
            row["evidence"] = [None if evidence is None else evidence.to_json() for evidence in known]
    if any(side.ending.evidence is not None for side in sides):  # of each on its own texts
        against = [side.ending.evidence for side in sides]
        values = [None if document is None else document["change"] for document in against]
        row = {"title": "Perplexity against GPTQ 1 %", "kind": "change", "values": values, "evidence": against}
        compared.insert(1, row)
    return compared


_QUALITIES: dict[str, QualityName] = {"Perplexity, unseen text": "perplexity", "Accuracy": "accuracy"}


def _beside_first(sides: Sequence[_Side], quality: QualityName) -> list[Evidence | None]:
    """Return the comparison of each study with the first, None for that, with intervals that hold for all at once."""
    return [None, *(_compare(side, sides[0], quality, len(sides) - 1) for side in sides[1:])]


def _compare(side: _Side, first: _Side, quality: QualityName, among: int) -> Evidence | None:
    """Compare two studies: over the draws that both have, or over windows or items of one draw; without an interval
    where they have neither."""
    value, other = (_perplexity(each) if quality == "perplexity" else each.at_start(quality) for each in (side, first))
    if value is None or other is None:
        return None
    facts: dict[str, Any] = {"quantity": quality, "reference": LETTERS[0], "is_best": False}
    if quality == "accuracy":
        answers = _in_common(side, first, "correct")
        if not len(answers[0]) or side.facts.accuracy is None:
            return None
        return side.facts.accuracy.compare(paired_items(*answers).chosen_of(among), LETTERS[0], is_best=False)
    ours, theirs = _in_common(side, first, "perplexity")
    if len(ours) > 1:
        return Evidence.of_difference(paired_ratio(ours, theirs).chosen_of(among), **facts)
    windows = _in_common(side, first, "log_ratios")
    if len(windows[0]):
        return Evidence.of_windows(paired_difference(*(each[0] for each in windows)).chosen_of(among), **facts)
    return Evidence.of_log(math.log(value / other), math.nan, math.nan, over="nothing", count=len(ours), **facts)


def _in_common(side: _Side, first: _Side, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a quantity of two studies at their points, in the draws of calibration text that both have: D …."""
    ours, theirs = _by_draw(side, name), _by_draw(first, name)
    shared = [draw for draw in ours if draw in theirs and ours[draw].shape == theirs[draw].shape]
    return np.array([ours[draw] for draw in shared]), np.array([theirs[draw] for draw in shared])


def _by_draw(side: _Side, name: str) -> dict[str, np.ndarray]:
    """Return a measured quantity at the chosen point, by what the calibration text of a draw depends on."""
    values, text = side.facts.read(name), dict(side.study.protocol.get("calibration") or {})
    is_drawn = text.get("sampling") != "sequential"
    by_draw = {} if values is None else dict(zip(side.line.draws, values, strict=True))
    at = side.start["gamma"], side.start["lambda"]
    return {
        json.dumps(text | {"seed": seed if is_drawn else None}): value[at]
        for seed, value in by_draw.items()
        if np.isfinite(value[at]).all()
    }


def _bits(side: _Side) -> float | None:
    """Return full bits per weight; None for a quantized checkpoint, which has its own grids."""
    if "opened" in side.study.protocol:
        return None
    shapes = [layer.shape for layer in side.study.layers]
    return bits_per_weight(shapes, side.line.grid, side.line.bits, side.line.group_size)


def _perplexity(side: _Side) -> float | None:
    """Return the perplexity on the test text; of a tuning run the reported one, over the draws of its best λ."""
    if side.ending.tuned is not None:
        return side.ending.tuned["perplexity"]
    return side.at_start("perplexity")


def _layers(sides: Sequence[_Side]) -> tuple[list[ComparedNumber], str]:
    """Return the relative error of each layer that all studies have, and on which text."""
    text = "unseen text"
    errors = [side.facts.read("held_out") for side in sides]  # D L G M
    if any(array is None or np.isnan(array).all() for array in errors):
        text = "calibration text"
        errors = [side.facts.read("recon") for side in sides]
    columns = []
    for side, array in zip(sides, errors, strict=True):
        if array is None:
            return [], ""
        start = side.start
        chosen = np.nanmean(array[:, :, start["gamma"], start["lambda"]], axis=0)
        columns.append(dict(zip((layer.name for layer in side.study.layers), chosen.tolist(), strict=True)))
    common = [name for name in columns[0] if all(name in column for column in columns)]
    return [
        {"title": name, "kind": "significant", "values": [measured(column[name]) for column in columns]}
        for name in common
    ], text


def _texts(sides: Sequence[_Side]) -> list[TextColumn]:
    """Return the prompts that all studies have, in the order of the first, continued with the most probable tokens."""
    continuations = [{text["prompt"]: text["greedy"] for text in side.line.texts} for side in sides]
    return [
        {
            "prompt": prompt,
            "kl": [measured(float(np.mean(texts[prompt]["kl"]))) for texts in continuations],
            "divergence": [texts[prompt]["divergence"] for texts in continuations],
        }
        for prompt in continuations[0]
        if all(prompt in texts for texts in continuations)
    ]


def _overlay(sides: Sequence[_Side]) -> Figure:
    """Return the studies' curves over the union of their λ; one colour per study, one panel per quantity.

    A study without λ of its own, “auto” too, is a level line over the whole axis, on which it has no place.
    """
    lams = sorted({float(lam) for side in sides if has_lam(side.line) for lam in side.line.lams})
    names = [lam_text(lam) for lam in lams] or ["chosen"]
    quantities = (
        ("perplexity", "Perplexity on unseen text, lower is better", perplexity_text),
        ("recon", "Reconstruction error on calibration text", significant),
        ("held_out", "Reconstruction error on unseen text", significant),
        ("drift", "Weight drift, relative", significant),
    )
    # By letters; lines that are not curves over λ say so.
    labels = [f"{LETTERS[i]}{', auto' if side.line.selected else ''}" for i, side in enumerate(sides)]
    stacked = []
    for name, title, show in quantities:
        curves = tuple(
            Curve(label, _series(i), _align(side, array, lams), label=label, level=not has_lam(side.line))
            for i, (label, side) in enumerate(zip(labels, sides, strict=True))
            if (array := side.values(name)) is not None
        )
        if curves:
            pinned = tuple(value for side in sides if (value := side.at_start(name)) is not None)
            stacked.append(Panel(title, show, curves, 1.0, pinned=pinned))
    figure = stack(lams or [0.0], names, stacked, ring=False)
    figure["title"] = "Curves over λ"
    set_finding(figure, constant_finding(_finding(sides)))
    titles = ", ".join(side.study.title for side in sides)
    figure["aria"] = f"Curves over λ of {len(sides)} studies: {titles}."
    return figure


def _finding(sides: Sequence[_Side]) -> str:
    """Compare the study with the lowest perplexity at its chosen point with the first; where that is the lowest, the
    next one."""
    known = _beside_first(sides, "perplexity")
    compared = [(evidence.change, at, evidence) for at, evidence in enumerate(known) if evidence is not None]
    if not compared:
        return ""
    _, at, evidence = min(compared)
    return f"{LETTERS[at]} \u2013 {evidence.words}"


def _series(index: int) -> Role:
    """Four colours; the second four have the dashes of the first in another order."""
    kinds = (("solid", "circle"), ("dash", "square"), ("dot", "diamond"), ("dashdot", "cross"))
    dash, symbol = kinds[(index + 2 * (index // 4)) % 4]
    return {"color": f"var(--series-{index % 4 + 1})", "dash": dash, "symbol": symbol}


def _align(side: _Side, values: np.ndarray, lams: Sequence[float]) -> np.ndarray:
    """Return the line's γ of its chosen point, laid on the common λ axis."""
    if not has_lam(side.line):
        return np.full((1, max(len(lams), 1)), float(values[0, 0]))
    row = np.full((1, len(lams)), np.nan)
    row[0, np.searchsorted(lams, side.line.lams)] = values[side.start["gamma"]]
    return row

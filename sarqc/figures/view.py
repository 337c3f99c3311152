"""The view of one line and layer: figures, the sentence of every point, the table, and how it was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, cast

import numpy as np

from sarqc.errors import NotFound, Refused
from sarqc.figures.deciles import deciles
from sarqc.figures.drawing import Figure, Point
from sarqc.figures.flags import flags_of
from sarqc.figures.gamma_grid import gamma_grid
from sarqc.figures.gap import gap
from sarqc.figures.hero import Shown, curves, has_curve, hero
from sarqc.figures.inspector import inspector
from sarqc.figures.ladder import LadderWords, ladder_figure, ladder_words
from sarqc.figures.layer_map import QUANTITIES, layer_label, layer_map, quantities_of, quantity_of
from sarqc.figures.measured import Fact, grid_text, measurement_facts
from sarqc.figures.numbers import At, DataTable, Headings, baseline_name, data_table, lam_names, lam_text
from sarqc.figures.plane import plane
from sarqc.figures.ranking import methods
from sarqc.figures.rounding import rounding
from sarqc.figures.ruler import ruler
from sarqc.figures.sentence import Piece, QualityName, sentence, small_print
from sarqc.figures.surfaces import Arrays, PoolingChoice, pooling_choices, surface_arrays, surface_layer, weight_figures
from sarqc.figures.theorem import theorem
from sarqc.figures.titles import map_points
from sarqc.plain import plain
from sarqc.quantization.methods import METHODS, Aim, Weighing, public_method
from sarqc.study.as_recipe import AsRecipe, as_recipe
from sarqc.study.document import Line, Second, Study, one_draw
from sarqc.study.facts import LineFacts, Quality, has_lam, is_point, lam_index, line_facts
from sarqc.study.kept_codes import KeptCodes, kept_codes
from sarqc.study.ladder import ladder

COLUMNS: Headings = (
    ("lambda", "λ", "plain"),
    ("gamma", "γ", "plain"),
    ("perplexity", "Perplexity, unseen text", "perplexity"),
    ("perplexity_difference", "Change from baseline", "change"),
    ("perplexity_low", "95 % from", "change"),
    ("perplexity_high", "to", "change"),
    ("perplexity_among", "Compared at once", "plain"),
    ("sweet_spot", "As good as the best", "flag"),
    ("accuracy", "Accuracy", "share"),
    ("accuracy_difference", "Difference to baseline", "points"),
    ("accuracy_low", "95 % from", "points"),
    ("accuracy_high", "to", "points"),
    ("accuracy_among", "Compared at once", "plain"),
    ("recon", "Reconstruction error, calibration text", "significant"),
    ("held_out", "Reconstruction error, unseen text", "significant"),
    ("drift", "Weight drift", "significant"),
    ("sar", "Penalty, L_sar", "significant"),
)

# The figures that follow from a line's facts alone: each is a function of these, None where there is nothing to draw.
FIGURES: dict[str, Callable[[LineFacts], Figure | None]] = {
    "deciles": deciles,
    "plane": plane,
    "ruler": ruler,
    "gamma_grid": gamma_grid,
    "gap": gap,
    "theorem": theorem,
    "rounding": rounding,
}


class ViewModel(TypedDict):
    """The float model; null was not measured."""

    name: str
    parameters: int
    share_quantized: float
    perplexity: float | None
    accuracy: float | None
    accuracy_standard_error: float | None


class ViewStudy(TypedDict):
    """What the Lab says of the study as a whole."""

    id: str
    title: str
    created: str  # ISO 8601, UTC
    prefix: str
    texts: str  # calibrated and tested on
    unseen: str | None  # the text on which errors were measured that no layer was solved on
    model: ViewModel
    recipe: dict[str, Any] | None
    flags: list[str]
    kept: KeptCodes | None  # points at which the page can run the model


class Equation(TypedDict):
    """min error + λ · penalty, or the error alone where the method has no λ."""

    aim: Aim  # of the error
    weighing: Weighing | None  # S of the penalty; None: no penalty
    lam: str | None  # λ where it is not a choice of the line's: a number, or “auto”; None where the line has λ to move


class ViewLine(TypedDict):
    """The line that is shown."""

    name: str
    method: str
    title: str
    has_lam: bool
    baseline: str
    bits: int
    grid: str
    grid_text: str
    group_size: int | None
    fitting: dict[str, str | int | float]  # what is not plain of ``recipe.FITTING``
    equation: Equation | None  # what the method minimises
    draws: list[int]
    continued: dict[str, Any] | None  # see ``ContinuedPrompt``


class LineChoice(TypedDict):
    """A line that can be chosen."""

    name: str
    method: str
    title: str
    bits: int


class LineKey(TypedDict):
    """The method and width of a line."""

    method: str
    bits: int


class LayerChoice(TypedDict):
    """A layer that can be chosen next."""

    index: int
    label: str
    name: str
    block: int
    expert: int | None


class Choice(TypedDict):
    """A name in an address, and how the page says it."""

    name: str
    title: str


class BestPoint(TypedDict):
    """The best λ of a γ, and its comparison with the baseline, which allows for the choice."""

    at: int
    words: str


class Told(TypedDict):
    """What is said of a quality at every point: γ, then λ."""

    best: list[BestPoint | None]  # by γ
    sentences: list[list[list[Piece]]]
    small_print: list[list[list[str]]]


class SecondAxis(TypedDict):
    """What the axis “gamma” holds: a field of the recipe, and its sign."""

    name: Second
    sign: str


class View(TypedDict):
    """All that the Lab shows of one line and layer, for every γ and λ."""

    title: str  # of the page that shows it
    study: ViewStudy
    line: ViewLine
    layer: int | None  # None for all layers
    layers: list[LayerChoice]
    blocks: list[tuple[int, int]] | None  # of a mixture, each with its first layer
    quantity: str | None
    quantities: list[Choice]
    draw: int | None  # None for the mean over all
    draws: list[int]
    default: LineKey
    choices: list[LineChoice]
    lams: list[float]
    gammas: list[float | None]  # of γ, or of what ``second`` names in its place
    second: SecondAxis
    lam_texts: list[str]
    lam_flags: list[str]  # what is flagged at each λ, empty for most
    gamma_texts: list[str]
    start: Point
    told: dict[QualityName, Told]  # by the quality that is shown; accuracy where it was measured
    figures: dict[str, Figure | None]
    arrays: Arrays
    poolings: list[PoolingChoice]
    surface_layer: int
    table: DataTable
    ladder: LadderWords | None
    measured: list[Fact]
    explore: bool
    as_recipe: AsRecipe


class ByQuantity(TypedDict):
    """What of a view depends on the quantity of the map of layers."""

    quantity: str | None
    figures: dict[str, Figure | None]


@dataclass(frozen=True)
class ShownLine:
    """A line and layer of a study for views, with the parts of these that depend on nothing else."""

    study: Study  # reduced to the draw that is shown
    line: Line
    usual: Line  # that the study opens with
    seed: int | None  # of the draw; None for the mean over all
    draws: tuple[int, ...]  # that can be chosen
    facts: LineFacts
    surface: int  # the layer whose surface is shown
    arrays: Arrays

    @classmethod
    def of(
        cls,
        study: Study,
        *,
        method: str | None = None,
        bits: int | str | None = None,
        layer: int | str | None = None,
        draw: int | str | None = None,
    ) -> ShownLine:
        """See ``lab_view``."""
        usual = default_line(study, None, None)
        line = default_line(study, method or None, _whole(bits, "bits"))
        draws = line.draws
        seed = None if draw in (None, "", "all") else _whole(draw, "draw")
        if seed is not None:
            study = one_draw(study, seed)
            line = study.line(line.name, line.bits)
        at = None if layer in (None, "", "all") else _whole(layer, "layer")
        if len(study.layers) == 1:
            at = 0  # all layers of it are this one
        facts = line_facts(study, method=line.name, bits=line.bits, layer=at)
        surface = surface_layer(facts)
        return cls(study, line, usual, seed, draws, facts, surface, surface_arrays(facts, surface))

    def view(self, quantity: str | None = None, steps: str | None = None) -> View:
        """Return the whole view, see ``lab_view``."""
        if quantity and quantity not in QUANTITIES:
            raise Refused(f"unknown quantity “{quantity}”", "view", f"Choose one of {', '.join(QUANTITIES)}.")
        by_quantity = self.by_quantity(quantity)
        study, line, facts = self.study, self.line, self.facts
        climbed = ladder(study, line.bits, steps.split(",") if steps else None)
        return {
            "title": line_title(facts),
            "study": _study_facts(study),
            "line": _line_facts(study, line),
            "layer": facts.layer,
            "layers": _layer_choices(study, self.surface),
            "blocks": _blocks(study),
            "quantity": by_quantity["quantity"],
            "quantities": [{"name": name, "title": QUANTITIES[name][1]} for name in quantities_of(facts)],
            "draw": self.seed,
            "draws": list(self.draws),
            "default": {"method": self.usual.name, "bits": self.usual.bits},
            "choices": [_line_choice(other) for other in study.lines],
            "lams": list(line.lams),
            "gammas": list(line.gammas),
            "lam_texts": lam_names(line),
            "lam_flags": [", ".join(flag.name for flag in flags_of(facts) if flag.lam == lam) for lam in line.lams],
            "second": {"name": line.second, "sign": line.sign},
            "gamma_texts": ["" if value is None else lam_text(value) for value in line.gammas],
            "start": start_of(facts),
            "told": {
                "perplexity": _quality_words(facts, facts.perplexity, "perplexity"),
                **({} if facts.accuracy is None else {"accuracy": _quality_words(facts, facts.accuracy, "accuracy")}),
            },
            "figures": {
                "hero": first_figure(facts, "perplexity"),
                "hero_accuracy": None if facts.accuracy is None else first_figure(facts, "accuracy"),
                **self._figures(),
                "hero_error": hero(facts, "error"),
                "hero_drift": hero(facts, "drift"),
                "curves": curves(facts) if facts.perplexity is not None and has_curve(facts.perplexity) else None,
                **by_quantity["figures"],
                "ladder": None if climbed is None else ladder_figure(climbed.rungs, line.bits),
            },
            "arrays": self.arrays,
            "poolings": pooling_choices(self.arrays),
            "surface_layer": self.surface,
            "table": point_rows(facts),
            "ladder": None if climbed is None else ladder_words(climbed),
            "measured": measurement_facts(facts),
            "explore": study.prefix == "float",
            "as_recipe": as_recipe(study, line),
        }

    def by_quantity(self, quantity: str | None = None) -> ByQuantity:
        """Return the part that depends on the quantity of the map; the line's first where it lacks it."""
        coloured = quantity_of(self.facts, quantity)
        return {
            "quantity": None if coloured is None else coloured.name,
            "figures": {
                "map": layer_map(self.facts, coloured),
                "map_experts": layer_map(self.facts, coloured, by_expert=True),
            },
        }

    def _figures(self) -> dict[str, Figure | None]:
        """Return every other figure by name, None where this line has none."""
        facts = self.facts
        several = not is_point(facts.line)  # a lone point has them in the first place
        return {
            "gamma_grid_accuracy": None if facts.accuracy is None else gamma_grid(facts, "accuracy"),
            **weight_figures(facts, self.arrays, self.surface),
            "inspector": inspector(facts, self.surface),
            "methods": methods(facts) if several else None,
            "methods_accuracy": methods(facts, "accuracy") if several and facts.accuracy is not None else None,
            **{name: draw(facts) for name, draw in FIGURES.items()},
        }


def lab_view(
    study: Study,
    *,
    method: str | None = None,
    bits: int | str | None = None,
    layer: int | str | None = None,
    draw: int | str | None = None,
    quantity: str | None = None,
    steps: str | None = None,
) -> View:
    """Return all that the Lab shows of one line and layer, for every γ and λ, as plain JSON data.

    ``method`` is a line's name. ``layer`` is a position in ``study.layers``; None, "" or "all" mean all layers. Without
    ``method`` or ``bits`` the line is the one that tells most. ``draw`` is the seed of one calibration draw,
    None and "all" mean the mean over all; ``quantity`` is one of ``QUANTITIES`` for the map of layers, the first that
    the line has where it has no such; ``steps`` is the order of the ladder's, joined by commas. Raises ``NotFound`` for
    what the study does not have, ``Refused`` for an unknown quantity or step.
    """
    return ShownLine.of(study, method=method, bits=bits, layer=layer, draw=draw).view(quantity, steps)


def _quality_words(facts: LineFacts, quality: Quality | None, name: QualityName) -> Told:
    return {
        "best": [None if quality is None else _best_point(facts, quality, g) for g in range(len(facts.line.gammas))],
        "sentences": map_points(facts, lambda at: sentence(facts, *at, name)),
        "small_print": map_points(facts, lambda at: small_print(facts, *at, name)),
    }


def _best_point(facts: LineFacts, quality: Quality, gamma: int) -> BestPoint | None:
    best = quality.best[gamma]
    if best is None or facts.baseline is None:
        return None
    evidence = quality.evidence((gamma, best), baseline_name(facts.baseline))
    return None if evidence is None else {"at": best, "words": evidence.words}


def line_title(facts: LineFacts) -> str:
    """Return the title of a line's page: model, bits, method and layer."""
    title = f"{facts.study.model.name} at {facts.line.bits} bits: {facts.line.label}"
    return title if facts.layer is None else f"{title}, {layer_label(facts.study.layers[facts.layer])}"


def first_figure(facts: LineFacts, shown: Shown) -> Figure:
    """Return the Lab's main figure: one quality over λ. A line of one point has no curves: there the methods of the
    study, side by side, take the first place; without them, and where the quality was not measured at two λ, all
    measured quantities do."""
    quality = facts.accuracy if shown == "accuracy" else facts.perplexity
    compared: Figure | None = None
    if shown in ("error", "drift") or (quality is not None and has_curve(quality)):
        compared = hero(facts, shown)
    elif is_point(facts.line):
        compared = methods(facts, shown)
    return curves(facts, has_slider=True) if compared is None else compared


def _whole(value: int | str | None, name: str) -> int | None:
    if value is None or value == "":
        return None
    try:
        return int(value)
    except ValueError:
        raise Refused(f"{name} is “{value}”", "view", f"Give {name} as a whole number.") from None


def default_line(study: Study, method: str | None, bits: int | None) -> Line:
    """Return the requested line; where a part is left open, the one with most to show."""
    method = None if method is None else public_method(method)
    matches = [line for line in study.lines if method in (None, line.name, line.method) and bits in (None, line.bits)]
    matches = [line for line in matches if line.name == method] or matches
    if not matches:
        if method is not None and bits is not None:
            return study.line(method, bits)
        have = ", ".join(f"{line.name} at {line.bits} bits" for line in study.lines)
        raise NotFound("the study has no such line", f"study {study.id}", f"It has {have}.")
    return max(matches, key=lambda line: (len(line.lams) > 1, line.method == "sarqc-gbs", len(line.lams), -line.bits))


def start_of(facts: LineFacts) -> Point:
    """Return the marker's first point: the requested point of a run, else the best λ, else 0.1."""
    line = facts.line
    if line.chosen is not None:
        return {"gamma": line.chosen[0], "lambda": line.chosen[1]}
    best = facts.perplexity.best[0] if facts.perplexity else None
    return {"gamma": 0, "lambda": best if best is not None else lam_index(line, 0.1) or 0}


def _study_facts(study: Study) -> ViewStudy:
    return {
        "id": study.id,
        "title": study.title,
        "created": study.created,
        "prefix": study.prefix,
        "texts": _texts(study),
        "unseen": (study.protocol.get("held_out") or {}).get("corpus"),
        "model": cast(ViewModel, study.model.model_dump()),
        "recipe": study.recipe,
        "flags": list(study.flags),
        "kept": kept_codes(study),
    }


def _texts(study: Study) -> str:
    used = {"calibrated": study.protocol.get("calibration"), "tested": study.protocol.get("test")}
    return ", ".join(f"{verb} on {text['corpus']}" for verb, text in used.items() if text and text.get("corpus"))


def _line_facts(study: Study, line: Line) -> ViewLine:
    return {
        "name": line.name,
        "method": line.method,
        "title": line.label,
        "has_lam": has_lam(line),
        "baseline": line.baseline,
        "bits": line.bits,
        "grid": line.grid,
        "grid_text": grid_text(line.grid, line.group_size),
        "group_size": line.group_size,
        "fitting": line.fitting,
        "equation": equation(line),
        "draws": list(line.draws),
        "continued": None if line.continued is None else line.continued.model_dump(),
    }


def equation(line: Line) -> Equation | None:
    """Return the objective of the line's method; None for an unknown method."""
    entry = METHODS.get(line.method)
    if entry is None:
        return None
    fitting = {name: value for name, value in line.fitting.items() if hasattr(entry.make, name)}
    solver = entry.make.with_(**fitting)
    fixed: str | None = None
    if solver.lam is not None and not has_lam(line):
        fixed = "auto" if line.selected and "lam" in entry.tunes else lam_text(solver.lam)
    penalised = solver.lam is not None and fixed != "0"
    return {"aim": solver.aim, "weighing": solver.weighing if penalised else None, "lam": fixed if penalised else None}


def _line_choice(line: Line) -> LineChoice:
    return {"name": line.name, "method": line.method, "title": line.label, "bits": line.bits}


def _layer_choices(study: Study, surface: int) -> list[LayerChoice]:
    """Return the layers that can be chosen next: all of a dense model, of a mixture those of the shown layer's
    block."""
    whole = all(layer.expert is None for layer in study.layers)
    return [
        {"index": i, "label": layer_label(layer), "name": layer.name, "block": layer.block, "expert": layer.expert}
        for i, layer in enumerate(study.layers)
        if whole or layer.block == study.layers[surface].block
    ]


def _blocks(study: Study) -> list[tuple[int, int]] | None:
    """Return each block of a mixture, which may have thousands of layers, with its first layer; None for a dense
    model."""
    if all(layer.expert is None for layer in study.layers):
        return None
    first: dict[int, int] = {}
    for index, layer in enumerate(study.layers):
        first.setdefault(layer.block, index)
    return list(first.items())


def point_rows(facts: LineFacts) -> DataTable:
    """Return every number behind the curves, one row per point; columns that hold nothing are left out."""
    grid = [*np.ndindex(len(facts.line.gammas), len(facts.line.lams))]
    rows = [_row(facts, at) for at in grid]
    table = data_table(COLUMNS, rows, facts.line.sign)
    return {
        "columns": table["columns"],
        "rows": [row | {"at": [*at]} for row, at in zip(table["rows"], grid, strict=True)],
    }


def _row(facts: LineFacts, at: At) -> dict[str, Any]:
    line = facts.line
    row: dict[str, Any] = {"gamma": line.gammas[at[0]]}
    if has_lam(line) or line.selected:
        row["lambda"] = "auto" if line.selected else line.lams[at[1]]
    for name, quality in (("perplexity", facts.perplexity), ("accuracy", facts.accuracy)):
        if quality is None:
            continue
        row[name] = float(quality.mean[at])
        if (evidence := quality.evidence(at, "")) is not None:
            ends = {"difference": evidence.change, "low": evidence.low, "high": evidence.high, "among": evidence.among}
            row |= {f"{name}_{end}": value for end, value in ends.items()}
    if facts.perplexity is not None and facts.perplexity.band.any() and not is_point(line):
        row["sweet_spot"] = bool(facts.perplexity.band[at])
    for name in ("recon", "held_out", "sar", "drift"):
        values = getattr(facts, name)
        if values is not None:
            row[name] = float(values[at])
    return {key: plain(value) for key, value in row.items()}
